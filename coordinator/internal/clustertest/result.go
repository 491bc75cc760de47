package clustertest

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"

	"github.com/sluiceio/sluice/flow/graph"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// disks are the stored results of all workers: any of them asks any other's, as over the data ports.
type disks struct {
	mu struct {
		sync.Mutex
		held map[string]map[result]bool // by worker; survives its incarnations
		down map[string]bool            // workers whose agents do not run
	}
}

// result is the full name of a stored result.
type result struct {
	job                    string
	jobEpoch, regionEpoch  uint64
	region, edge, producer int32
	attempt                uint32
}

func resultOf(job string, n *taskpb.PartitionName) result {
	return result{job: job, jobEpoch: n.JobEpoch, regionEpoch: n.RegionEpoch, region: n.Region, edge: n.Edge, producer: n.Producer, attempt: n.Attempt}
}

func (d *disks) put(worker string, r result) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.held == nil {
		d.mu.held = make(map[string]map[result]bool)
	}
	if d.mu.held[worker] == nil {
		d.mu.held[worker] = make(map[result]bool)
	}
	d.mu.held[worker][r] = true
}

// look reports whether a worker can be asked, and has a result.
func (d *disks) look(worker string, r result) (up, has bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.mu.down[worker], d.mu.held[worker][r]
}

func (d *disks) reach(worker string, up bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.down == nil {
		d.mu.down = make(map[string]bool)
	}
	d.mu.down[worker] = !up
}

// drop deletes the results for which gone is true and tells how many they were.
func (d *disks) drop(worker string, gone func(result) bool) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for r := range d.mu.held[worker] {
		if gone(r) {
			delete(d.mu.held[worker], r)
			n++
		}
	}
	return n
}

func (d *disks) inventory(worker string) []*controlpb.PartitionInventory {
	d.mu.Lock()
	defer d.mu.Unlock()
	byJob := make(map[string]*controlpb.PartitionInventory)
	for r := range d.mu.held[worker] {
		inv := byJob[r.job]
		if inv == nil {
			inv = &controlpb.PartitionInventory{Job: r.job}
			byJob[r.job] = inv
		}
		inv.Partitions = append(inv.Partitions, &taskpb.PartitionName{
			JobEpoch: r.jobEpoch, Region: r.region, RegionEpoch: r.regionEpoch, Edge: r.edge, Producer: r.producer, Attempt: r.attempt,
		})
	}
	var all []*controlpb.PartitionInventory
	for _, inv := range byJob {
		all = append(all, inv)
	}
	return all
}

// Results counts the stored results of a job in the worker's data directory.
func (w *Worker) Results(job string) (n int) {
	w.c.disks.mu.Lock()
	defer w.c.disks.mu.Unlock()
	for r := range w.c.disks.mu.held[w.ID] {
		if r.job == job {
			n++
		}
	}
	return n
}

// DeleteResults deletes every stored result of a job behind the worker's back, as a broken disk does, and tells how many
// they were.
func (w *Worker) DeleteResults(job string) int {
	return w.c.disks.drop(w.ID, func(r result) bool { return r.job == job })
}

// Opened is how often a gate of a job was opened on this worker.
func (w *Worker) Opened(job string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.opened[job]
}

// store keeps what an attempt stored for each BLOCKING edge behind its chain, and reports it.
func (w *Worker) store(p *proc, t *attempt) (ps []*jobpb.Partition) {
	for _, e := range p.plan.Edges {
		if e.FromChain != t.d.Chain || e.Exchange != jobpb.ExchangeKind_EXCHANGE_BLOCKING {
			continue
		}
		r := result{job: p.key.job, jobEpoch: p.epoch, region: t.d.Region, regionEpoch: t.d.RegionEpoch, edge: e.Index, producer: t.d.Index, attempt: t.d.Attempt}
		w.c.disks.put(w.ID, r)
		digest := sha256.Sum256(fmt.Append(nil, r))
		ps = append(ps, &jobpb.Partition{
			Edge: e.Index, State: jobpb.PartitionState_PARTITION_STORED, Bytes: 100, Records: 10, Digest: digest[:], RegionEpoch: t.d.RegionEpoch, Attempt: t.d.Attempt,
		})
	}
	return ps
}

// readStored looks for all stored inputs of an attempt. ready is false while a producer has not finished or its worker is
// not there; lost are those that should be there and are not.
func (w *Worker) readStored(p *proc, t *attempt) (ready bool, lost []*jobpb.PartitionRef) {
	ready = true
	for _, e := range p.plan.Edges {
		if e.ToChain != t.d.Chain || e.Exchange != jobpb.ExchangeKind_EXCHANGE_BLOCKING {
			continue
		}
		producers, consumers := p.plan.Chains[e.FromChain].Parallelism, p.plan.Chains[e.ToChain].Parallelism
		first, n := graph.Producers(e.Partitioner, producers, consumers, t.d.Index)
		for i := first; i < first+n; i++ {
			l := p.locations[[2]int32{e.FromChain, i}]
			if l == nil {
				return false, nil
			}
			r := result{job: p.key.job, jobEpoch: p.epoch, region: l.Region, regionEpoch: l.RegionEpoch, edge: e.Index, producer: i, attempt: l.Attempt}
			listed := false
			for _, s := range l.Partitions {
				if s.Edge == e.Index {
					listed, r.regionEpoch, r.attempt = true, s.RegionEpoch, s.Attempt
				}
			}
			switch up, has := w.c.disks.look(l.Worker, r); {
			case up && has:
			case up && listed:
				lost = append(lost, &jobpb.PartitionRef{Edge: e.Index, Producer: i, Attempt: r.attempt})
			default:
				ready = false
			}
		}
	}
	return ready, lost
}

// lose reports that stored inputs of an attempt cannot be read.
func (w *Worker) lose(p *proc, t *attempt, lost []*jobpb.PartitionRef) {
	t.state = jobpb.SubtaskState_SUBTASK_FAILED
	u := t.update()
	u.Failure = &jobpb.Failure{Code: "E121", Kind: jobpb.FailureKind_FAILURE_LOSS, Message: fmt.Sprintf("%d stored results are gone", len(lost)), Lost: lost}
	w.report(p.key, p.epoch, &controlpb.Report{Fact: &controlpb.Report_Subtask{Subtask: u}})
}

// progress reports once that an attempt has handed over records, and once that it has loaded what stands in front of its
// gates.
func (w *Worker) progress(p *proc, t *attempt) {
	produced := !t.produced && (!t.d.Gated || t.open) && slices.ContainsFunc(p.plan.Edges, func(e *jobpb.Edge) bool {
		return e.FromChain == t.d.Chain && e.Exchange != jobpb.ExchangeKind_EXCHANGE_BLOCKING
	})
	loaded := !t.loaded && slices.ContainsFunc(p.plan.Chains[t.d.Chain].Operators, func(o int32) bool {
		return slices.ContainsFunc(p.plan.Graph.Operators[o].Inputs, (*jobpb.Input).GetGated)
	})
	if !produced && !loaded {
		return
	}
	t.produced, t.loaded = t.produced || produced, t.loaded || loaded
	w.report(p.key, p.epoch, &controlpb.Report{Fact: &controlpb.Report_Subtask{Subtask: t.update()}})
}

func (w *Worker) openGate(m *taskpb.OpenGate) {
	p := w.procs[procKey{m.Job, m.Process}]
	if p == nil || m.JobEpoch < p.epoch {
		return
	}
	w.mu.Lock()
	w.mu.opened[m.Job]++
	w.mu.Unlock()
	for _, t := range p.tasks {
		t.open = t.open || slices.ContainsFunc(m.Regions, func(r *taskpb.RegionEpoch) bool { return r.Region == t.d.Region && r.Epoch == t.d.RegionEpoch })
	}
}

func (w *Worker) dropPartitions(m *taskpb.DropPartitions) {
	named := make(map[result]bool)
	for _, n := range m.Partitions {
		named[resultOf(m.Job, n)] = true
	}
	w.c.disks.drop(w.ID, func(r result) bool { return r.job == m.Job && (m.All || named[r]) })
}
