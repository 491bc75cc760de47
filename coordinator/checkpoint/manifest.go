package checkpoint

import (
	"fmt"
	"slices"

	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/snapshot"
)

// compose makes the manifest of the checkpoint under way, once the one that it builds on is here.
func (c *Cycle) compose() {
	f, newest := c.flight, c.job.Newest()
	if newest != nil && c.manifest.GetCheckpoint() != newest.Id {
		return // Loaded looks here again
	}
	var base *snapshotpb.Manifest
	if newest != nil {
		base = c.manifest
	}
	k := c.job.Checkpoints()
	in := snapshot.ComposeInput{
		Job: c.job.ID(), JobEpoch: c.job.Epoch(), Checkpoint: uint64(f.id), Kind: f.kind, TimeUs: k.GetStarted().GetStartedUs(), Plan: c.job.Plan(),
		Confirmed: k.GetConfirmed(), Deleting: k.GetDeleting(),
	}
	for _, r := range f.regions {
		in.Regions = append(in.Regions, r.Region)
	}
	for _, pos := range positions(f.acks) {
		in.Acks = append(in.Acks, snapshot.Acknowledged{Process: c.job.At(pos).Process, Ack: f.acks[pos]})
	}
	for _, s := range c.job.Sources() {
		if slices.Contains(in.Regions, s.Region()) {
			in.Sources = append(in.Sources, s.Proto())
		}
	}
	m, err := snapshot.Compose(base, in)
	var data []byte
	if err == nil {
		data, err = snapshot.EncodeManifest(m)
	}
	if err != nil {
		f.cause = &jobpb.Failure{Code: CodeGivenUp, Message: fmt.Sprintf("the manifest of checkpoint %d cannot be composed: %v", f.id, err)}
		return
	}
	f.stage, f.manifest = storing, m
	c.add(Store{ID: f.id, Data: data})
}

// settled are the subtasks that have read all their stored inputs to the end: a restart needs those inputs no more.
func (c *Cycle) settled() (refs []*commandpb.SubtaskRef) {
	l := c.job.Layout()
	for _, pos := range positions(c.flight.acks) {
		a := c.flight.acks[pos]
		want := 0
		for _, e := range l.In(a.Chain) {
			if l.Blocking(e) {
				want += int(l.Producers(e, a.Index).Count)
			}
		}
		if want == 0 {
			continue
		}
		for _, p := range a.State.Positions {
			if p.Ended {
				want--
			}
		}
		if want == 0 || a.State.Status == snapshotpb.SubtaskStatus_FINISHED {
			refs = append(refs, &commandpb.SubtaskRef{Chain: a.Chain, Index: a.Index, Attempt: a.Attempt})
		}
	}
	return refs
}

// Loaded brings a manifest that was asked for, or says why it cannot be read.
func (c *Cycle) Loaded(id ID, m *snapshotpb.Manifest, err error) {
	if c.loading != id {
		return
	}
	c.loading = 0
	switch {
	case err != nil:
	case m.GetCheckpoint() != uint64(id):
		err = fmt.Errorf("it is of checkpoint %d", m.GetCheckpoint())
	default:
		c.manifest = m
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
