package glance

import (
	"slices"
	"time"

	"github.com/sluiceio/sluice/coordinator/checkpoint"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/coordinator/state/ledger"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/snapshot"
)

// Addresses tell where the stores answer that hold objects.
func Addresses(v *state.View, objects ...*jobpb.StoredObject) (as []*taskpb.StoreAddress) {
	known := map[string]bool{}
	for _, o := range objects {
		for _, s := range o.Stores {
			if f := v.Worker(s); f != nil && !known[s] {
				known[s] = true
				as = append(as, &taskpb.StoreAddress{Store: s, Address: f.Address})
			}
		}
	}
	return as
}

// Restore is what the subtasks of a deployment need that begin with a checkpoint; nil: they begin anew.
func Restore(v *state.View, facts *state.Job, id uint64) *taskpb.Restore {
	k := facts.Checkpoints()
	d := ledger.Find(k, id)
	if id == 0 || d == nil {
		return nil
	}
	r := &taskpb.Restore{Checkpoint: id, Manifest: checkpoint.Placed(facts, d)}
	for _, o := range k.Objects {
		if _, ok := slices.BinarySearch(d.Objects, o.Object.Name); ok && o.Object.Name != d.Manifest.Name {
			r.Objects = append(r.Objects, o)
		}
	}
	r.Stores = Addresses(v, append(r.Objects, r.Manifest)...)
	return r
}

// Targets are the stores for copies of what is written on a worker, those in other zones first. Each writer begins at another
// one, so that all of them get their share. reaches tells of a worker whether it can be spoken to.
func Targets(v *state.View, own string, turn uint64, reaches func(worker string) bool) []*taskpb.StoreAddress {
	var far, near []*taskpb.StoreAddress
	zone := v.Worker(own).GetZone()
	for f := range v.Workers() {
		if f.Id == own || f.Draining || !reaches(f.Id) {
			continue
		}
		if a := (&taskpb.StoreAddress{Store: f.Id, Address: f.Address}); zone != "" && f.Zone != zone {
			far = append(far, a)
		} else {
			near = append(near, a)
		}
	}
	return slices.Concat(checkpoint.Rotated(far, turn), checkpoint.Rotated(near, turn))
}

// holds reports whether a store counts as one that has what the facts say: its worker is alive, or was lost after a time. What lies in a
// shared one is there for all.
func holds(v *state.View, store string, since time.Time) bool {
	w := v.Worker(store)
	return store == snapshot.SharedStore || w != nil && (w.Health == commandpb.WorkerHealth_WORKER_ALIVE || w.SinceUs > since.UnixMicro())
}

// Ended are the jobs that have ended and may be forgotten, oldest first: those whose savepoints somebody keeps may not.
func Ended(v *state.View) (ids []string) {
	for f := range v.Jobs() {
		if state.Terminal(f.Status()) && !slices.ContainsFunc(f.Checkpoints().GetCompleted(), func(d *jobpb.CheckpointDone) bool { return ledger.Savepoint(d.Kind) }) {
			ids = append(ids, f.ID())
		}
	}
	return ids
}

// Stores are the stores of the cluster. reaches tells of one whether it can be spoken to.
func Stores(v *state.View, now time.Time, reaches func(store string) bool) checkpoint.Stores {
	return checkpoint.Stores{
		Reaches: reaches,
		Known:   func(store string) bool { return store == snapshot.SharedStore || v.Worker(store) != nil },
		Holds:   func(store string) bool { return holds(v, store, now.Add(-LostFor)) },
		Targets: Targets(v, "", 0, reaches),
		Addresses: func(objects ...*jobpb.StoredObject) []*taskpb.StoreAddress {
			return Addresses(v, objects...)
		},
	}
}

// LostFor is how long a worker is lost before what it has counts as gone: most come back.
const LostFor = 10 * time.Second
