package state

import (
	"iter"

	"github.com/sluiceio/sluice/coordinator/state/jobid"
	"github.com/sluiceio/sluice/coordinator/state/ordered"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// View is an immutable picture of all facts. Everything in it is shared and must not be changed. The zero View is the
// state before the first command.
type View struct {
	cluster     string
	index       uint64
	term        uint64
	leader      string
	now         int64 // newest committed time, microseconds since the Unix epoch
	nextJob     uint64
	nextProcess uint64
	chain       Chain

	nodes     ordered.Map[string, *commandpb.Node]
	workers   ordered.Map[string, *commandpb.Worker]
	artifacts ordered.Map[string, *commandpb.Artifact]
	jobs      ordered.Map[uint64, *Job]   // by number
	changed   ordered.Map[uint64, uint64] // revision → number: a command changes one job at most
	used      ordered.Map[string, int32]  // granted slots by incarnation of a worker

	requests    ordered.Map[string, *commandpb.Request]
	requestAge  ordered.Map[uint64, string] // order of arrival → request id
	nextRequest uint64
	events      ordered.Map[uint64, *jobpb.Event] // by number
	nextEvent   uint64
}

// Index is the Raft index of the last applied command.
func (v *View) Index() uint64 { return v.index }

// Term is the newest term in which a leader announced itself.
func (v *View) Term() uint64 { return v.term }

// Leader is the coordinator that announced itself last.
func (v *View) Leader() string { return v.leader }

// Cluster is the cluster's id; empty before InitCluster.
func (v *View) Cluster() string { return v.cluster }

// TimeMicros is the newest committed time in microseconds since the Unix epoch; it never falls.
func (v *View) TimeMicros() int64 { return v.now }

// Chain is the hash chain at Index.
func (v *View) Chain() Chain { return v.chain }

// Job is nil if there is no such job.
func (v *View) Job(id string) *Job {
	n, ok := jobid.Number(id)
	if !ok {
		return nil
	}
	j, ok := v.jobs.Get(n)
	if !ok || j.head.Id != id {
		return nil
	}
	return j
}

// Jobs are all jobs in the order of their submission.
func (v *View) Jobs() iter.Seq[*Job] { return values(v.jobs.All()) }

// JobsAfter are the jobs that changed after index, in the order of their last change. A job that was forgotten is not
// among them.
func (v *View) JobsAfter(index uint64) iter.Seq[*Job] {
	return func(yield func(*Job) bool) {
		for _, n := range v.changed.After(index) {
			if j, ok := v.jobs.Get(n); ok && !yield(j) {
				return
			}
		}
	}
}

// Worker is nil if the worker is not known.
func (v *View) Worker(id string) *commandpb.Worker {
	w, _ := v.workers.Get(id)
	return w
}

// Workers are ordered by id.
func (v *View) Workers() iter.Seq[*commandpb.Worker] { return values(v.workers.All()) }

// SameWorkers reports whether no worker differs from those of another view.
func (v *View) SameWorkers(o *View) bool { return o != nil && v.workers.Same(o.workers) }

// Alive reports whether this incarnation of a worker is the present one and not lost.
func (v *View) Alive(worker string, incarnation uint64) bool {
	w := v.Worker(worker)
	return w != nil && w.Incarnation == incarnation && w.Health == commandpb.WorkerHealth_WORKER_ALIVE
}

// UsedSlots counts the slots of a worker's present incarnation that are granted to jobs.
func (v *View) UsedSlots(worker string) int {
	w := v.Worker(worker)
	if w == nil {
		return 0
	}
	n, _ := v.used.Get(place(w.Id, w.Incarnation))
	return int(n)
}

// Node is nil if there is no such coordinator.
func (v *View) Node(id string) *commandpb.Node {
	n, _ := v.nodes.Get(id)
	return n
}

// Nodes are ordered by id.
func (v *View) Nodes() iter.Seq[*commandpb.Node] { return values(v.nodes.All()) }

// Artifact is nil if it is not known to be durable.
func (v *View) Artifact(digest string) *commandpb.Artifact {
	a, _ := v.artifacts.Get(digest)
	return a
}

// Artifacts are ordered by digest.
func (v *View) Artifacts() iter.Seq[*commandpb.Artifact] { return values(v.artifacts.All()) }

// Source is nil if the job has no such source, is not planned, or is terminal.
func (v *View) Source(job string, operator int32) *Source {
	if j := v.Job(job); j != nil {
		return j.Source(operator)
	}
	return nil
}

// Events are those with an index above after, oldest first. The history is bounded by MaxEvents.
func (v *View) Events(after uint64) iter.Seq[*jobpb.Event] {
	return func(yield func(*jobpb.Event) bool) {
		for _, e := range v.events.All() {
			if e.Index > after && !yield(e) {
				return
			}
		}
	}
}

// Request tells what a request id was used for; nil if it is not remembered.
func (v *View) Request(id string) *commandpb.Request {
	r, _ := v.requests.Get(id)
	return r
}

func values[K, V any](all iter.Seq2[K, V]) iter.Seq[V] {
	return func(yield func(V) bool) {
		for _, v := range all {
			if !yield(v) {
				return
			}
		}
	}
}
