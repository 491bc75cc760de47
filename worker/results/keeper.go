package results

import (
	"context"
	"net"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/shuffle/stored"
	"github.com/sluiceio/sluice/shuffle/stored/partition"
)

// dropQueue bounds the plans of deletion that wait. The leader says again what still stands in the inventory.
const dropQueue = 256

// Keeper keeps the stored results of a worker.
type Keeper struct {
	dir    string
	worker string
	store  *stored.Store
	log    hclog.Logger
	drops  chan *taskpb.DropPartitions

	mu struct {
		sync.Mutex
		reads  map[string]int64 // by outcome
		served int64            // bytes
	}
}

// Open takes over the directory of a worker's stored results, which is made if it is missing. No task process may run.
func Open(fsys vfs.FS, dir, worker string, log hclog.Logger) (*Keeper, error) {
	store, err := stored.Open(fsys, dir)
	if err != nil {
		return nil, err
	}
	k := &Keeper{dir: dir, worker: worker, store: store, log: log.Named("results"), drops: make(chan *taskpb.DropPartitions, dropQueue)}
	k.mu.reads = map[string]int64{}
	for _, lost := range store.Damaged() {
		k.log.Error("stored result is damaged and not offered", "job", lost.Name.Job, "error", lost)
	}
	return k, nil
}

// Dir is where task processes write their results.
func (k *Keeper) Dir() string { return k.dir }

// Usage is the number of results kept, and their size in bytes.
func (k *Keeper) Usage() (partitions int, bytes int64) { return k.store.Usage() }

// Reads calls f with the number of finished reads of each outcome, and returns the bytes sent by all.
func (k *Keeper) Reads(f func(outcome string, n int64)) (served int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for outcome, n := range k.mu.reads {
		f(outcome, n)
	}
	return k.mu.served
}

func (k *Keeper) note(outcome string, bytes int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.reads[outcome]++
	k.mu.served += bytes
}

// Serve answers readers on the connections of l, which it closes, until ctx ends.
func (k *Keeper) Serve(ctx context.Context, l net.Listener) error {
	s := &stored.Server{Store: k.store, Worker: k.worker, Log: k.log, Note: k.note}
	return s.Serve(ctx, l)
}

// Finished notes what a subtask has stored. The update was validated.
func (k *Keeper) Finished(job string, jobEpoch uint64, u *taskpb.SubtaskUpdate) {
	for _, p := range u.Partitions {
		k.store.Learn(stored.Found{Bytes: p.Bytes, Name: stored.Name{
			Job: job, JobEpoch: jobEpoch, Region: u.Region, RegionEpoch: p.RegionEpoch, Edge: p.Edge, Producer: u.Index, Attempt: p.Attempt,
		}})
	}
}

// Abandon removes what attempts have left that died while they wrote. Their process is no more, and none of them has
// reported its end.
func (k *Keeper) Abandon(names []stored.Name) {
	if len(names) == 0 {
		return
	}
	if err := k.store.Abandon(names...); err != nil {
		k.log.Error("unfinished results cannot be removed", "job", names[0].Job, "error", err)
	}
}

// Inventory is everything that is kept, by job, for the leader to adopt or to have deleted.
func (k *Keeper) Inventory() []*controlpb.PartitionInventory {
	var all []*controlpb.PartitionInventory
	for _, f := range k.store.Inventory() { // ordered by job
		if n := len(all); n == 0 || all[n-1].Job != f.Name.Job {
			all = append(all, &controlpb.PartitionInventory{Job: f.Name.Job})
		}
		last := all[len(all)-1]
		last.Partitions = append(last.Partitions, f.Name.Proto())
	}
	return all
}

// Drop queues a plan of deletion of a leader. It does not block.
func (k *Keeper) Drop(d *taskpb.DropPartitions) {
	select {
	case k.drops <- d:
	default:
		k.log.Warn("too many deletions at once; the leader will ask again", "job", d.Job)
	}
}

// Delete carries out plans of deletion until ctx ends. A failure is the disk's: it is logged, and what is left stays in
// the directory until the leader asks again.
func (k *Keeper) Delete(ctx context.Context) error {
	for {
		select {
		case d := <-k.drops:
			if err := k.delete(d); err != nil {
				k.log.Error("stored results cannot be deleted", "job", d.Job, "error", err)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

func (k *Keeper) delete(d *taskpb.DropPartitions) error {
	if d.All {
		k.log.Debug("stored results of a job dropped", "job", d.Job)
		return k.store.DropJob(d.Job)
	}
	names := make([]stored.Name, 0, len(d.Partitions))
	for _, p := range d.Partitions {
		names = append(names, partition.FromProto(d.Job, p))
	}
	k.log.Debug("stored results dropped", "job", d.Job, "partitions", len(names))
	return k.store.Drop(names...)
}
