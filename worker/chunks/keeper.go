package chunks

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/internal/wire"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/snapshot"
	"github.com/sluiceio/sluice/snapshot/fs"
	"github.com/sluiceio/sluice/snapshot/peer"
)

// Bounds of what waits. What does not fit is asked for again by the leader, which compares with inventories.
const (
	orderQueue  = 256
	reportQueue = 256
)

// DefaultScrubInterval is how often every object is read.
const DefaultScrubInterval = 24 * time.Hour

// Config of a Keeper.
type Config struct {
	FS     vfs.FS
	Dir    string // made if it is missing
	Worker string // id of the data directory: the name of this store
	Policy wire.Policy
	// Shared: the directory is that of other workers, too. Nothing that is being written there is removed.
	Shared bool
	Scrub  time.Duration // 0: DefaultScrubInterval
	Log    hclog.Logger
}

// Keeper keeps the objects of a worker.
type Keeper struct {
	cfg     Config
	store   *fs.Store
	peers   *peer.Stores
	log     hclog.Logger
	orders  chan order
	reports chan *controlpb.ObjectsReport
}

// order is what the leader wants: one of them is set.
type order struct {
	remove *controlpb.DeleteObjects
	fetch  *controlpb.CopyObjects
}

// Open takes over the directory. No task process of this worker may run.
func Open(cfg Config) (*Keeper, error) {
	if cfg.Scrub == 0 {
		cfg.Scrub = DefaultScrubInterval
	}
	open := fs.Open
	if cfg.Shared {
		open = fs.Join
	}
	store, err := open(cfg.FS, filepath.ToSlash(cfg.Dir))
	if err != nil {
		return nil, err
	}
	return &Keeper{
		cfg: cfg, store: store, log: cfg.Log.Named("objects"), peers: peer.New(peer.Config{Policy: cfg.Policy, Own: store, ID: cfg.Worker, Shared: cfg.Shared}),
		orders: make(chan order, orderQueue), reports: make(chan *controlpb.ObjectsReport, reportQueue),
	}, nil
}

// Dir is where task processes write.
func (k *Keeper) Dir() string { return k.cfg.Dir }

// Inventory is everything that is kept, by job.
func (k *Keeper) Inventory() []*controlpb.ObjectInventory {
	var all []*controlpb.ObjectInventory
	err := k.store.List(context.Background(), "", func(o *jobpb.Object) error {
		p, err := snapshot.Name(o.Name).Parse()
		if err != nil {
			return err
		}
		if n := len(all); n == 0 || all[n-1].Job != p.Job {
			all = append(all, &controlpb.ObjectInventory{Job: p.Job})
		}
		last := all[len(all)-1]
		last.Objects = append(last.Objects, &jobpb.Object{Name: o.Name, Size: o.Size})
		return nil
	})
	if err != nil { // what is not told counts as lost, and is copied from elsewhere
		k.log.Error("objects cannot be listed", "dir", k.cfg.Dir, "error", err)
	}
	return all
}

// Reports are what has changed, for the leader.
func (k *Keeper) Reports() <-chan *controlpb.ObjectsReport { return k.reports }

func (k *Keeper) report(r *controlpb.ObjectsReport) {
	select {
	case k.reports <- r:
	default:
		k.log.Warn("nobody takes reports of objects; the next inventory tells", "job", r.Job)
	}
}

// Delete queues a committed plan of deletion. It does not block.
func (k *Keeper) Delete(d *controlpb.DeleteObjects) { k.queue(order{remove: d}, d.Job) }

// Copy queues objects to fetch. It does not block.
func (k *Keeper) Copy(c *controlpb.CopyObjects) { k.queue(order{fetch: c}, c.Job) }

func (k *Keeper) queue(o order, job string) {
	select {
	case k.orders <- o:
	default:
		k.log.Warn("too many orders at once; the leader will ask again", "job", job)
	}
}

// Work carries out orders until ctx ends.
func (k *Keeper) Work(ctx context.Context) error {
	for {
		select {
		case o := <-k.orders:
			if o.remove != nil {
				k.remove(ctx, o.remove)
			} else {
				k.fetch(ctx, o.fetch)
			}
		case <-ctx.Done():
			return k.peers.Close()
		}
	}
}

// remove deletes one after the other, so that what the disk refuses stops nothing else, and answers with what is gone.
func (k *Keeper) remove(ctx context.Context, d *controlpb.DeleteObjects) {
	r := &controlpb.ObjectsReport{Job: d.Job}
	for _, n := range d.Names {
		p, err := snapshot.Name(n).Parse()
		if err == nil && p.Job != d.Job {
			err = fmt.Errorf("it belongs to job %s", p.Job)
		}
		if err == nil {
			err = k.store.Delete(ctx, snapshot.Name(n))
		}
		if err != nil {
			k.log.Error("object cannot be deleted", "job", d.Job, "object", n, "error", err)
			continue
		}
		r.Deleted = append(r.Deleted, n)
	}
	k.report(r)
}

// fetch copies objects from other stores.
func (k *Keeper) fetch(ctx context.Context, c *controlpb.CopyObjects) {
	r := &controlpb.ObjectsReport{Job: c.Job}
	for _, o := range c.Objects {
		got, err := k.fetchOne(ctx, c, o)
		if err != nil {
			k.log.Error("object cannot be copied", "job", c.Job, "object", o.GetObject().GetName(), "error", err)
			continue
		}
		r.Stored = append(r.Stored, got)
	}
	k.report(r)
}

func (k *Keeper) fetchOne(ctx context.Context, c *controlpb.CopyObjects, o *jobpb.StoredObject) (got *jobpb.Object, err error) {
	if err := snapshot.CheckObject(o.GetObject()); err != nil {
		return nil, err
	}
	name := snapshot.Name(o.Object.Name)
	if p, err := name.Parse(); err != nil || p.Job != c.Job {
		return nil, fmt.Errorf("%s does not belong to job %s", name, c.Job)
	}
	r, err := k.peers.Elsewhere(ctx, o, c.Stores)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return k.take(ctx, o.Object, sectionOf(r))
}
