package checkpoint

import (
	"fmt"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/snapshot"
)

// compose makes the manifest of the checkpoint under way, once the one that it builds on is here.
func (c *Cycle) compose() {
	f := c.flight
	newest := c.job.Newest()
	if newest != nil && c.manifest.GetCheckpoint() != newest.Id {
		return // Loaded looks here again
	}
	base := c.manifest
	if newest == nil {
		base = nil
	}
	_ = base
	data, err := []byte(nil), fmt.Errorf("x")
	if err != nil {
		f.cause = &jobpb.Failure{Code: CodeGivenUp, Message: fmt.Sprintf("the manifest of checkpoint %d cannot be composed: %v", f.id, err)}
		return
	}
	f.stage = storing
	c.add(Store{ID: f.id, Data: data})
}

// Loaded brings a manifest that was asked for, or says why it cannot be read.
func (c *Cycle) Loaded(id ID, data []byte, err error) {
	if c.loading != id {
		return
	}
	c.loading = 0
	if err == nil {
		c.manifest, err = snapshot.DecodeManifest(data)
	}
	if err == nil && c.manifest.Checkpoint != uint64(id) {
		c.manifest, err = nil, fmt.Errorf("it is of checkpoint %d", c.manifest.Checkpoint)
	}
	if f := c.flight; err != nil && f != nil && f.cause == nil {
		f.cause = &jobpb.Failure{Code: CodeUnreadable, Message: fmt.Sprintf("the manifest of checkpoint %d cannot be read: %v", id, err)}
	}
}

// Stored tells that the manifest of a checkpoint is durable, or why it may not be.
func (c *Cycle) Stored(id ID, o *jobpb.StoredObject, err error) {
	f := c.flight
	if f == nil || f.id != id || f.stage != storing {
		return
	}
	if err != nil {
		f.cause = &jobpb.Failure{Code: CodeNotWritten, Message: fmt.Sprintf("the manifest of checkpoint %d cannot be stored: %v", id, err)}
		return
	}
	f.stored, f.stage = o, completing
}

// Completed tells what became of a Complete: why it was void; empty: it was not.
func (c *Cycle) Completed(id ID, void string) {
	if f := c.flight; f != nil && f.id == id {
		f.void = void // unless the facts have given the checkpoint up: then that is why
	}
}
