package chunks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"

	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/snapshot"
	"github.com/sluiceio/sluice/snapshot/fs"
	"github.com/sluiceio/sluice/snapshot/peer"
)

// Bounds.
const (
	orders  = 256 // plans that wait; the leader says again what still stands in the facts
	reports = 256 // reports that wait for a session; the next inventory says the same
	// mostNames is how many objects one report names.
	mostNames = 1000
)

// Config of a Keeper.
type Config struct {
	FS     vfs.FS
	Dir    string
	Worker string // store id
	Dial   func(address string) (*grpc.ClientConn, error)
	Log    hclog.Logger
	// Scrub is how often every object is read and compared with what its last reader was told; 0: never.
	Scrub time.Duration
}

// Keeper keeps the objects of a worker.
type Keeper struct {
	cfg    Config
	store  *fs.Store
	peers  *peer.Stores
	work   chan func(context.Context) error
	report chan *controlpb.ObjectsReport

	mu struct {
		sync.Mutex
		digests map[snapshot.Name]*jobpb.Object // that were compared, by this incarnation
		objects int64
		bytes   int64
	}
}

// Open takes over the directory, which is made if it is missing. No task process may run.
func Open(c Config) (*Keeper, error) {
	store, err := fs.Open(c.FS, c.Dir)
	if err != nil {
		return nil, err
	}
	c.Log = c.Log.Named("snapshots")
	k := &Keeper{
		cfg: c, store: store, peers: peer.New(peer.Config{Own: store, ID: c.Worker, Dial: c.Dial}),
		work: make(chan func(context.Context) error, orders), report: make(chan *controlpb.ObjectsReport, reports),
	}
	k.mu.digests = map[snapshot.Name]*jobpb.Object{}
	return k, nil
}

// Dir is where task processes write their objects.
func (k *Keeper) Dir() string { return k.store.Dir() }

// Reports tell what has changed in the store, for the leader.
func (k *Keeper) Reports() <-chan *controlpb.ObjectsReport { return k.report }

// tell reports what it can. What nobody takes in time is told by the next inventory.
func (k *Keeper) tell(r *controlpb.ObjectsReport) {
	select {
	case k.report <- r:
	default:
	}
}

// Inventory is everything that is kept, by job.
func (k *Keeper) Inventory(ctx context.Context) ([]*controlpb.ObjectInventory, error) {
	var all []*controlpb.ObjectInventory
	err := k.store.List(ctx, "", func(o *jobpb.Object) error {
		job := jobOf(o.Name)
		if n := len(all); n == 0 || all[n-1].Job != job {
			all = append(all, &controlpb.ObjectInventory{Job: job})
		}
		last := all[len(all)-1]
		last.Objects = append(last.Objects, o)
		return nil
	})
	return all, err
}

func jobOf(name string) string {
	for i := range len(name) {
		if name[i] == '/' {
			return name[:i]
		}
	}
	return name
}

// Delete carries out a committed plan. It does not block.
func (k *Keeper) Delete(m *controlpb.DeleteObjects) {
	k.queue(func(ctx context.Context) error {
		for _, name := range m.Names {
			if err := k.store.Delete(ctx, snapshot.Name(name)); err != nil {
				return err
			}
			k.mu.Lock()
			delete(k.mu.digests, snapshot.Name(name))
			k.mu.Unlock()
		}
		k.tell(&controlpb.ObjectsReport{Job: m.Job, Deleted: m.Names})
		return nil
	})
}

// Copy fetches objects from other stores. It does not block.
func (k *Keeper) Copy(m *controlpb.CopyObjects) {
	k.queue(func(ctx context.Context) error {
		var errs []error
		for _, o := range m.Objects {
			if err := k.fetch(ctx, o, m.Stores); err != nil {
				errs = append(errs, err)
				continue
			}
			k.tell(&controlpb.ObjectsReport{Job: m.Job, Stored: []*jobpb.Object{o.Object}})
		}
		return errors.Join(errs...)
	})
}

// fetch copies one object into this store.
func (k *Keeper) fetch(ctx context.Context, o *jobpb.StoredObject, stores []*taskpb.StoreAddress) error {
	r, err := k.peers.Open(ctx, o, stores)
	if err != nil {
		return err
	}
	defer func() {
		if err := r.Close(); err != nil {
			k.cfg.Log.Warn("closing failed", "object", o.Object.Name, "error", err)
		}
	}()
	u, err := k.store.Draft(ctx, snapshot.Name(o.Object.Name))
	if err != nil {
		return err
	}
	defer u.Abort()
	digest, err := snapshot.Copy(ctx, u, io.NewSectionReader(r, 0, r.Size()), o.Object.Size)
	if err != nil {
		return err
	}
	if !bytes.Equal(digest, o.Object.Digest) {
		return &snapshot.DamagedError{Name: snapshot.Name(o.Object.Name), Where: "other stores", Cause: errors.New("its digest differs")}
	}
	_, err = u.Commit(ctx)
	return err
}

func (k *Keeper) queue(f func(context.Context) error) {
	select {
	case k.work <- f:
	default:
		k.cfg.Log.Warn("too many orders at once; the leader will ask again")
	}
}

// Run carries out orders, and scrubs between them, until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	defer func() {
		if err := k.peers.Close(); err != nil {
			k.cfg.Log.Warn("closing failed", "error", err)
		}
	}()
	var tick <-chan time.Time
	if k.cfg.Scrub > 0 {
		t := time.NewTicker(k.cfg.Scrub)
		defer t.Stop()
		tick = t.C
	}
	for {
		select {
		case f := <-k.work:
			if err := f(ctx); err != nil && ctx.Err() == nil {
				k.cfg.Log.Error("an order cannot be carried out", "error", err)
			}
		case <-tick:
			if err := k.scrub(ctx); err != nil && ctx.Err() == nil {
				k.cfg.Log.Error("scrubbing failed", "error", err)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// scrub reads every object whose digest is known once more.
func (k *Keeper) scrub(ctx context.Context) error {
	k.mu.Lock()
	known := make([]*jobpb.Object, 0, len(k.mu.digests))
	for _, o := range k.mu.digests { // in any order: each is looked at by itself
		known = append(known, o)
	}
	clear(k.mu.digests)
	k.mu.Unlock()
	for _, o := range known {
		if err := k.check(ctx, o); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			k.cfg.Log.Error("an object is no copy any more", "object", o.Name, "error", err)
		}
	}
	return nil
}

// check compares an object with its digest, unless that was done since the last scrubbing. One that is damaged is removed and
// reported.
func (k *Keeper) check(ctx context.Context, o *jobpb.Object) error {
	name := snapshot.Name(o.GetName())
	k.mu.Lock()
	have := k.mu.digests[name]
	k.mu.Unlock()
	if have != nil && have.Size == o.Size && string(have.Digest) == string(o.Digest) {
		return nil
	}
	r, err := k.store.Open(ctx, name)
	if err != nil {
		return err
	}
	err = errors.Join(snapshot.Verify(ctx, r, o, k.store.Dir()), r.Close())
	var damaged *snapshot.DamagedError
	switch {
	case errors.As(err, &damaged):
		if err := k.store.Delete(ctx, name); err != nil {
			return fmt.Errorf("remove a damaged object: %w", err)
		}
		k.tell(&controlpb.ObjectsReport{Job: jobOf(o.Name), Damaged: []string{o.Name}})
		return damaged
	case err != nil:
		return err
	}
	k.mu.Lock()
	k.mu.digests[name] = o
	k.mu.Unlock()
	return nil
}
