package coordinator

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/sluiceio/sluice/coordinator/schedule"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/snapshot"
)

// storeLimit bounds one step with the stores of snapshots. A manifest is small: whoever has not taken it by then will not.
const storeLimit = 30 * time.Second

var errNoStores = errors.New("this coordinator has no way to the stores of snapshots")

// publish stores a manifest and reads it back, beside the loop. That it cannot is an answer, too.
func (d *driver) publish(a schedule.Publish) {
	d.r.stores.Go("publish", func(group context.Context) error {
		ctx, cancel := context.WithTimeout(group, storeLimit)
		defer cancel()
		o, err := d.store(ctx, a)
		d.post(schedule.Published{Job: a.Job, Checkpoint: a.Checkpoint, Object: o, Err: err}, group.Done())
		return nil
	})
}

func (d *driver) store(ctx context.Context, a schedule.Publish) (*jobpb.StoredObject, error) {
	stores := d.r.n.parts.Snapshots
	if stores == nil {
		return nil, errNoStores
	}
	u, err := stores.Create(ctx, a.Name)
	if err != nil {
		return nil, err
	}
	defer u.Abort()
	if _, err := u.Write(a.Data); err != nil {
		return nil, err
	}
	o, err := u.Commit(ctx, a.Targets, a.Copies)
	if err != nil {
		return nil, err
	}
	_, err = snapshot.ReadManifest(ctx, stores, o, a.Targets)
	return o, err
}

// fetch reads a manifest, beside the loop.
func (d *driver) fetch(a schedule.Fetch) {
	d.r.stores.Go("fetch", func(group context.Context) error {
		ctx, cancel := context.WithTimeout(group, storeLimit)
		defer cancel()
		answer := schedule.Fetched{Job: a.Job, Checkpoint: a.Checkpoint, Err: errNoStores}
		if stores := d.r.n.parts.Snapshots; stores != nil {
			answer.Manifest, answer.Err = snapshot.ReadManifest(ctx, stores, a.Object, a.Stores)
		}
		d.post(answer, group.Done())
		return nil
	})
}

// closeSnapshots ends the connections to the stores, if they are ones with connections.
func closeSnapshots(s snapshot.Stores) error {
	if c, ok := s.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
