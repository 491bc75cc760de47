package coordinator

import (
	"context"
	"time"

	"github.com/sluiceio/sluice/coordinator/schedule"
	"github.com/sluiceio/sluice/snapshot"
)

// storeLimit bounds one step with the stores of snapshots. A manifest is small: whoever has not taken it by then will not.
const storeLimit = 30 * time.Second

// publish stores a manifest and reads it back, beside the loop. That it cannot is an answer, too.
func (d *driver) publish(a schedule.Publish) {
	d.r.stores.Go("publish", func(group context.Context) error {
		ctx, cancel := context.WithTimeout(group, storeLimit)
		defer cancel()
		o, err := snapshot.Publish(ctx, d.r.n.parts.Snapshots, a.Name, a.Data, a.Targets, a.Copies)
		d.post(schedule.Published{Job: a.Job, Checkpoint: a.Checkpoint, Object: o, Err: err}, group.Done())
		return nil
	})
}

// fetch reads a manifest, beside the loop.
func (d *driver) fetch(a schedule.Fetch) {
	d.r.stores.Go("fetch", func(group context.Context) error {
		ctx, cancel := context.WithTimeout(group, storeLimit)
		defer cancel()
		m, err := snapshot.ReadManifest(ctx, d.r.n.parts.Snapshots, a.Object, a.Stores)
		d.post(schedule.Fetched{Job: a.Job, Checkpoint: a.Checkpoint, Manifest: m, Err: err}, group.Done())
		return nil
	})
}
