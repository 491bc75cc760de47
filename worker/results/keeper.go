package results

import (
	"context"
	"maps"
	"net"
	"slices"
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

// What is told of lost results without an answer being expected.
const (
	lostQueue = 16     // messages that wait for a session
	mostLost  = 10_000 // results that one of them names
)

// Keeper keeps the stored results of a worker.
type Keeper struct {
	dir    string
	worker string
	store  *stored.Store
	log    hclog.Logger
	drops  chan *taskpb.DropPartitions
	doubt  chan struct{} // rings when there are suspects
	lost   chan *controlpb.PartitionInventory

	mu struct {
		sync.Mutex
		suspects map[string]bool  // jobs of which something was found to be lost
		reads    map[string]int64 // by outcome
		served   int64            // bytes
	}
}

// Open takes over the directory of a worker's stored results, which is made if it is missing. No task process may run.
func Open(fsys vfs.FS, dir, worker string, log hclog.Logger) (*Keeper, error) {
	store, err := stored.Open(fsys, dir)
	if err != nil {
		return nil, err
	}
	k := &Keeper{
		dir: dir, worker: worker, store: store, log: log.Named("results"), drops: make(chan *taskpb.DropPartitions, dropQueue),
		doubt: make(chan struct{}, 1), lost: make(chan *controlpb.PartitionInventory, lostQueue),
	}
	k.mu.reads, k.mu.suspects = map[string]int64{}, map[string]bool{}
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
	s := &stored.Server{Store: k.store, Worker: k.worker, Log: k.log, Note: k.note, Suspect: k.Suspect}
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

// Suspect has the results of a job looked at, because one was found to be lost: what is lost is seldom lost alone. It does not
// block.
func (k *Keeper) Suspect(job string) {
	k.mu.Lock()
	k.mu.suspects[job] = true
	k.mu.Unlock()
	select {
	case k.doubt <- struct{}{}:
	default:
	}
}

// Lost are results that Audit has found to be lost, for the leader. What nobody takes in time is told by the next inventory,
// which lacks them.
func (k *Keeper) Lost() <-chan *controlpb.PartitionInventory { return k.lost }

// Audit looks at the results of suspects until ctx ends.
func (k *Keeper) Audit(ctx context.Context) error {
	for {
		select {
		case <-k.doubt:
		case <-ctx.Done():
			return nil
		}
		k.mu.Lock()
		jobs := slices.Sorted(maps.Keys(k.mu.suspects))
		clear(k.mu.suspects)
		k.mu.Unlock()
		for _, job := range jobs {
			k.audit(ctx, job)
		}
	}
}

func (k *Keeper) audit(ctx context.Context, job string) {
	names := k.store.Audit(ctx, job)
	if len(names) == 0 {
		return
	}
	k.log.Error("stored results are lost", "job", job, "partitions", len(names), "first", names[0].String())
	for some := range slices.Chunk(names, mostLost) {
		m := &controlpb.PartitionInventory{Job: job}
		for _, n := range some {
			m.Partitions = append(m.Partitions, n.Proto())
		}
		select {
		case k.lost <- m:
		default:
		}
	}
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
