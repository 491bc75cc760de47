package chunks

import (
	"context"
	"errors"
	"time"

	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/snapshot"
)

// looks is how many times per interval the directory is looked at for objects whose turn it is.
const looks = 24

// Scrub reads every object once per interval until ctx ends, and removes those that are not what was written. One that is new here
// has its turn an interval later.
func (k *Keeper) Scrub(ctx context.Context) error {
	ticker := time.NewTicker(k.cfg.Scrub / looks)
	defer ticker.Stop()
	last := map[string]time.Time{}
	for {
		k.scrub(ctx, last)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// scrub reads what is due. last is kept for what is there.
func (k *Keeper) scrub(ctx context.Context, last map[string]time.Time) {
	var due []*jobpb.Object
	there := map[string]bool{}
	now := time.Now()
	err := k.store.List(ctx, "", func(o *jobpb.Object) error {
		there[o.Name] = true
		switch before, known := last[o.Name]; {
		case !known:
			last[o.Name] = now
		case now.Sub(before) >= k.cfg.Scrub:
			due = append(due, o)
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		k.log.Error("objects cannot be listed", "dir", k.cfg.Dir, "error", err)
	}
	for name := range last {
		if err == nil && !there[name] {
			delete(last, name)
		}
	}
	for _, o := range due {
		if ctx.Err() != nil {
			return
		}
		last[o.Name] = time.Now()
		k.examine(ctx, o)
	}
}

// examine reads one object. A disk that refuses to read it has lost it as well.
func (k *Keeper) examine(ctx context.Context, o *jobpb.Object) {
	name := snapshot.Name(o.Name)
	r, err := k.store.Open(ctx, name)
	if errors.Is(err, snapshot.ErrNotFound) {
		return // deleted meanwhile
	}
	if err == nil {
		err = errors.Join(snapshot.Verify(ctx, r, o, k.cfg.Worker), r.Close())
	}
	if err != nil && ctx.Err() == nil {
		k.lose(ctx, name, err)
	}
}

// lose removes an object that is not what was written, and tells of it.
func (k *Keeper) lose(ctx context.Context, name snapshot.Name, why error) {
	k.log.Error("object is damaged and removed", "object", name, "error", why)
	if err := k.store.Delete(ctx, name); err != nil {
		k.log.Error("damaged object cannot be removed", "object", name, "error", err)
		return
	}
	p, err := name.Parse()
	if err != nil {
		return
	}
	k.report(&controlpb.ObjectsReport{Job: p.Job, Damaged: []string{string(name)}})
}
