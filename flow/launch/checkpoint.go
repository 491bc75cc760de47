package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluiceio/sluice/coordinator/schedule"
	"github.com/sluiceio/sluice/flow/launch/workdir"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/snapshot"
	"github.com/sluiceio/sluice/snapshot/fs"
	"github.com/sluiceio/sluice/snapshot/mem"
)

// snapshotsDir is below the directory of a run.
const snapshotsDir = "snapshots"

// storeLimit bounds one step with the store of an embedded job.
const storeLimit = time.Minute

// openSnapshots opens the store of an embedded job: in its directory, or in memory if it has none. It ends with the run.
func (d *disk) openSnapshots() (snapshot.Store, error) {
	if d == nil {
		return mem.New(), nil
	}
	s, err := fs.Open(workdir.FS{}, d.dir.Join(snapshotsDir))
	if err != nil {
		return nil, fmt.Errorf("store of snapshots: %w", err)
	}
	return s, nil
}

// publish stores a manifest and reads it back, beside the loop.
func (d *driver) publish(a schedule.Publish) {
	d.group.Go("publish", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, storeLimit)
		defer cancel()
		o, err := d.store.Put(ctx, a.Name, int64(len(a.Data)), bytes.NewReader(a.Data))
		stored := &jobpb.StoredObject{Object: o, Stores: []string{snapshot.SharedStore}}
		if err == nil {
			_, err = snapshot.ReadManifest(ctx, snapshot.Shared(d.store), stored, nil)
		}
		d.inbox.put(letter{event: schedule.Published{Job: a.Job, Checkpoint: a.Checkpoint, Object: stored, Err: err}})
		return nil
	})
}

// fetch reads a manifest, beside the loop.
func (d *driver) fetch(a schedule.Fetch) {
	d.group.Go("fetch", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, storeLimit)
		defer cancel()
		m, err := snapshot.ReadManifest(ctx, snapshot.Shared(d.store), a.Object, nil)
		d.inbox.put(letter{event: schedule.Fetched{Job: a.Job, Checkpoint: a.Checkpoint, Manifest: m, Err: err}})
		return nil
	})
}

// Ack takes what an attempt says of a checkpoint.
func (b *inbox) Ack(a *snapshotpb.Ack) { b.put(letter{ack: a}) }

// deleteObjects removes objects that nobody needs, beside the loop. The directory of the run goes at its end in any case.
func (d *driver) deleteObjects(m *controlpb.DeleteObjects) {
	d.group.Go("delete", func(ctx context.Context) error {
		names := make([]snapshot.Name, len(m.Names))
		for i, n := range m.Names {
			names[i] = snapshot.Name(n)
		}
		if err := d.store.Delete(ctx, names...); err != nil {
			if !errors.Is(err, context.Canceled) {
				d.e.Log.Warn("objects of old checkpoints cannot be deleted", "error", err)
			}
			return nil
		}
		d.inbox.put(letter{event: schedule.Objects{
			Worker: workerID, Incarnation: incarnation, Report: &controlpb.ObjectsReport{Job: m.Job, Deleted: m.Names},
		}})
		return nil
	})
}
