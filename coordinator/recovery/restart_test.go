package recovery

import (
	"fmt"
	"hash/maphash"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/coordinator/region"
	"github.com/sluiceio/sluice/proto/jobpb"
)

const (
	forward   = jobpb.Partitioner_PARTITIONER_FORWARD
	hashed    = jobpb.Partitioner_PARTITIONER_HASH
	rebalance = jobpb.Partitioner_PARTITIONER_REBALANCE
	rescale   = jobpb.Partitioner_PARTITIONER_RESCALE
	global    = jobpb.Partitioner_PARTITIONER_GLOBAL
	pipelined = jobpb.ExchangeKind_EXCHANGE_PIPELINED
	blocking  = jobpb.ExchangeKind_EXCHANGE_BLOCKING

	created  = jobpb.SubtaskState_SUBTASK_CREATED
	running  = jobpb.SubtaskState_SUBTASK_RUNNING
	finished = jobpb.SubtaskState_SUBTASK_FINISHED
	failed   = jobpb.SubtaskState_SUBTASK_FAILED

	isStored   = jobpb.PartitionState_PARTITION_STORED
	isLost     = jobpb.PartitionState_PARTITION_LOST
	isReleased = jobpb.PartitionState_PARTITION_RELEASED
)

// drawPlan draws chains whose edges lead from lower ones to higher ones, as in every plan.
func drawPlan(t *rapid.T, exchanges ...jobpb.ExchangeKind) *jobpb.Plan {
	p := &jobpb.Plan{Graph: &jobpb.Graph{}}
	var whole []bool
	for i := range rapid.IntRange(1, 5).Draw(t, "chains") {
		p.Graph.Operators = append(p.Graph.Operators, &jobpb.Operator{Id: fmt.Sprint("op", i), Bounded: true})
		p.Chains = append(p.Chains, &jobpb.Chain{Index: int32(i), Operators: []int32{int32(i)}, Name: fmt.Sprint("op", i), Parallelism: rapid.Int32Range(1, 3).Draw(t, "parallelism")})
		whole = append(whole, rapid.IntRange(0, 4).Draw(t, "whole") == 0)
	}
	for to := 1; to < len(p.Chains); to++ {
		for range rapid.IntRange(0, 2).Draw(t, "inputs") {
			from := rapid.IntRange(0, to-1).Draw(t, "from")
			part := rapid.SampledFrom([]jobpb.Partitioner{forward, hashed, rebalance, rescale, global}).Draw(t, "partitioner")
			if part == forward && p.Chains[from].Parallelism != p.Chains[to].Parallelism {
				part = rebalance
			}
			e := &jobpb.Edge{Index: int32(len(p.Edges)), FromChain: int32(from), ToChain: int32(to), Partitioner: part, Exchange: rapid.SampledFrom(exchanges).Draw(t, "exchange")}
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0:
				e.OrderDependent = true
			case 1:
				e.Reproducible, e.OrderDependent = true, true
			case 2:
				e.Reproducible = true
			case 3:
				e.Reproducible, e.Ordered, e.OrderDependent = true, true, true
			default:
				e.Reproducible, e.Ordered = true, true
			}
			p.Edges = append(p.Edges, e)
		}
	}
	p.Regions = region.Build(p.Chains, p.Edges, whole)
	return p
}

// channel is a producer and a consumer of an edge, by position.
type channel struct {
	edge               *jobpb.Edge
	producer, consumer int
}

func channels(l *region.Layout) (cs []channel) {
	for _, e := range l.Plan().Edges {
		if e.Exchange != blocking {
			continue
		}
		for i := range l.Plan().Chains[e.ToChain].Parallelism {
			from := l.Producers(e.Index, i)
			for k := range from.Count {
				cs = append(cs, channel{e, int(from.First + k), int(l.First(e.ToChain) + i)})
			}
		}
	}
	return cs
}

func partition(t *jobpb.Subtask, e *jobpb.Edge) *jobpb.Partition {
	for _, p := range t.Partitions {
		if p.Edge == e.Index {
			return p
		}
	}
	return nil
}

// reference is the text of RestartSet, rule by rule and channel by channel, until nothing changes.
func reference(j *job, broken []int32, missing Missing) (in []bool, input []change) {
	in, input = make([]bool, len(j.regions)), make([]change, len(j.regions))
	for i, r := range j.regions {
		if r.Reordered {
			input[i] = reordered
		}
	}
	all := channels(j.l)
	unreadable := func(c channel) bool {
		p := partition(j.tasks[c.producer], c.edge)
		return p == nil || p.State != isStored || missing(j.tasks[c.producer], p)
	}
	again := true
	add := func(r int32) {
		if !waiting(j.regions[r]) && !in[r] {
			in[r], again = true, true
		}
	}
	for _, r := range broken {
		add(r)
	}
	for _, c := range all {
		p := j.tasks[c.producer]
		if p.State == finished && unreadable(c) && j.tasks[c.consumer].State != finished {
			add(p.Region)
		}
	}
	for again {
		again = false
		for _, c := range all {
			p, r := j.tasks[c.producer], j.tasks[c.consumer]
			if in[r.Region] && p.State != running && unreadable(c) {
				add(p.Region)
			}
			if !in[p.Region] && (!j.waits(p) || input[p.Region] < reordered) {
				continue
			}
			out := untouched
			switch of := input[p.Region]; {
			case !c.edge.Reproducible, of == changed, of == reordered && c.edge.OrderDependent:
				out = changed
			case !c.edge.Ordered, of == reordered:
				out = reordered
			}
			if out > input[r.Region] {
				input[r.Region], again = out, true
			}
			if r.State != created && (r.State != finished || out == changed) {
				add(r.Region)
			}
		}
	}
	return in, input
}

func TestRestartSetIsWhatItsTextSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := newJob(t, drawPlan(t, pipelined, blocking, blocking))
		var broken []int32
		for _, r := range j.regions {
			r.Status = rapid.SampledFrom([]jobpb.RegionStatus{
				jobpb.RegionStatus_REGION_CREATED, jobpb.RegionStatus_REGION_RESTARTING, jobpb.RegionStatus_REGION_RUNNING,
				jobpb.RegionStatus_REGION_RUNNING, jobpb.RegionStatus_REGION_RUNNING,
			}).Draw(t, "status")
			r.Reordered = !waiting(r) && rapid.IntRange(0, 3).Draw(t, "reordered") == 0
		}
		for _, s := range j.tasks {
			s.Worker = rapid.SampledFrom([]string{"w1", "w2"}).Draw(t, "worker")
			switch {
			case j.regions[s.Region].Status == jobpb.RegionStatus_REGION_RESTARTING:
				s.State = rapid.SampledFrom([]jobpb.SubtaskState{created, running}).Draw(t, "fenced")
			case !j.waits(s):
				s.State = rapid.SampledFrom([]jobpb.SubtaskState{running, finished, finished, finished, failed}).Draw(t, "state")
			}
			if s.State == failed {
				broken = append(broken, s.Region)
			}
			if s.State == finished {
				j.store(s)
			}
			for _, p := range s.Partitions {
				p.State = rapid.SampledFrom([]jobpb.PartitionState{isStored, isStored, isStored, isLost, isReleased}).Draw(t, "partition")
			}
		}
		gone := rapid.SampledFrom([]string{"", "w1"}).Draw(t, "gone")
		missing := func(s *jobpb.Subtask, _ *jobpb.Partition) bool { return s.Worker == gone }
		got := RestartSet(j, broken, missing)
		in, input := reference(j, broken, missing)
		var want, marked []int32
		for i, r := range j.regions {
			if in[i] {
				want = append(want, int32(i))
			} else if input[i] == reordered && !waiting(r) && !r.Reordered {
				marked = append(marked, int32(i))
			}
		}
		if !slices.Equal(got.Regions, want) || !slices.Equal(got.Reordered, marked) {
			t.Fatalf("restarts %v and marks %v; by the text %v and %v", got.Regions, got.Reordered, want, marked)
		}
		for _, ref := range got.Lost {
			s := j.tasks[int(j.l.First(j.l.Plan().Edges[ref.Edge].FromChain)+ref.Producer)]
			if p := partition(s, j.l.Plan().Edges[ref.Edge]); p.State != isStored || s.Worker != gone || !in[s.Region] {
				t.Fatalf("%v is not lost", ref)
			}
		}
	})
}

// history is a job that runs, fails and recovers, with what its results hold. Records are not modelled, only which
// distribution of them over the consumers an attempt wrote: two attempts that write the same hand out the same records.
type history struct {
	*job
	t     *rapid.T
	all   []channel
	wrote map[channel]content // by the newest attempt
	read  map[channel]content // by the newest attempt that has finished
	fresh uint64
	gone  map[string]bool
	eager bool
	again int // attempts that were taken back
}

type content struct{ records, order uint64 }

var seed = maphash.MakeSeed()

func hash(parts ...uint64) uint64 { return maphash.Comparable(seed, fmt.Sprint(parts)) }

func (h *history) missing(s *jobpb.Subtask, _ *jobpb.Partition) bool { return h.gone[s.Worker] }

func (h *history) readable(c channel) bool {
	p := partition(h.tasks[c.producer], c.edge)
	return p != nil && p.State == isStored && !h.gone[h.tasks[c.producer].Worker]
}

func (h *history) inputs(pos int) (cs []channel) {
	for _, c := range h.all {
		if c.consumer == pos {
			cs = append(cs, c)
		}
	}
	return cs
}

func (h *history) ready(pos int) bool {
	return !slices.ContainsFunc(h.inputs(pos), func(c channel) bool { return !h.readable(c) })
}

// finish lets an attempt read all and store what the properties of the edges promise, and nothing better.
func (h *history) finish(pos int) {
	s := h.tasks[pos]
	records, order := []uint64{uint64(pos)}, []uint64{uint64(pos)}
	for _, c := range h.inputs(pos) {
		in := h.wrote[channel{c.edge, c.producer, 0}]
		h.read[c] = in
		records, order = append(records, in.records), append(order, in.order)
	}
	s.State = finished
	h.store(s)
	for _, i := range h.l.Out(s.Chain) {
		e := h.l.Plan().Edges[i]
		h.fresh += 2
		out := content{records: h.fresh, order: h.fresh + 1}
		switch {
		case !e.Reproducible:
		case e.OrderDependent:
			out.records = hash(append(append([]uint64{uint64(i)}, records...), order...)...)
		default:
			out.records = hash(append([]uint64{uint64(i)}, records...)...)
		}
		if e.Ordered {
			out.order = hash(out.records, hash(order...), hash(records...))
		}
		h.wrote[channel{e, pos, 0}] = out
	}
}

// recover restarts what has to be restarted.
func (h *history) recover() {
	for {
		var broken []int32
		for _, s := range h.tasks {
			if s.State == failed {
				broken = append(broken, s.Region)
			}
		}
		set := RestartSet(h, broken, h.missing)
		if len(set.Regions)+len(set.Reordered) == 0 {
			return
		}
		for _, r := range set.Reordered {
			h.regions[r].Reordered = true
		}
		for _, r := range set.Regions {
			if waiting(h.regions[r]) {
				h.t.Fatalf("region %d is restarted while it waits", r)
			}
			h.regions[r] = &jobpb.RegionState{Index: r, Epoch: h.regions[r].Epoch + 1, Status: jobpb.RegionStatus_REGION_RESTARTING}
		}
		for _, s := range h.tasks {
			if slices.Contains(set.Regions, s.Region) {
				s.State, s.Partitions = created, nil
				h.again++
			}
		}
	}
}

func (h *history) done(r int32) bool {
	return !slices.ContainsFunc(h.tasks, func(s *jobpb.Subtask) bool { return s.Region == r && s.State != finished })
}

func (h *history) release() {
	n := region.Need(h.l, h.done)
	for _, s := range h.tasks {
		for _, p := range s.Partitions {
			if !n.Partition(p.Edge, s.Index) {
				p.State = isReleased
			}
		}
	}
}

// schedule gives attempts to the regions that may have one.
func (h *history) schedule(workers []string) {
	for _, r := range h.regions {
		if !waiting(r) {
			continue
		}
		may := h.eager
		if !may {
			may = !slices.ContainsFunc(h.all, func(c channel) bool {
				return h.tasks[c.consumer].Region == r.Index && h.tasks[c.producer].Region != r.Index && !h.readable(c)
			})
		}
		if !may {
			continue
		}
		r.Status = jobpb.RegionStatus_REGION_RUNNING
		for _, s := range h.tasks {
			if s.Region == r.Index {
				s.State, s.Worker = running, rapid.SampledFrom(workers).Draw(h.t, "worker")
				s.Attempt++
			}
		}
	}
}

func (h *history) some(name string, state jobpb.SubtaskState, ok func(pos int) bool) int {
	var fit []int
	for pos, s := range h.tasks {
		if s.State == state && ok(pos) {
			fit = append(fit, pos)
		}
	}
	if len(fit) == 0 {
		return -1
	}
	return rapid.SampledFrom(fit).Draw(h.t, name)
}

// step lets one thing happen.
func (h *history) step() {
	any := func(int) bool { return true }
	switch rapid.IntRange(0, 9).Draw(h.t, "event") {
	case 0:
		if pos := h.some("fails", running, any); pos >= 0 {
			h.tasks[pos].State = failed
		}
	case 1:
		if pos := h.some("loses a result", finished, func(pos int) bool { return len(h.tasks[pos].Partitions) > 0 }); pos >= 0 {
			p := rapid.SampledFrom(h.tasks[pos].Partitions).Draw(h.t, "result")
			if p.State == isStored {
				p.State = isLost
			}
		}
	case 2:
		gone := rapid.SampledFrom([]string{"w1", "w2", "w3"}).Draw(h.t, "gone")
		h.gone = map[string]bool{gone: true} // another one comes back, with what it has
		for _, s := range h.tasks {
			if s.State == running && s.Worker == gone {
				s.State = failed
			}
		}
	case 3:
		h.release()
	default:
		if pos := h.some("finishes", running, h.ready); pos >= 0 {
			h.finish(pos)
		}
	}
}

// Whatever fails and whenever: a job recovers by itself, and when it has finished no record was read by two consumers of an
// edge or by none, although finished ones were left alone.
func TestEveryRecordIsReadOnceWhateverFails(t *testing.T) {
	spared := false
	rapid.Check(t, func(t *rapid.T) {
		j := newJob(t, drawPlan(t, blocking))
		h := &history{job: j, t: t, all: channels(j.l), wrote: map[channel]content{}, read: map[channel]content{}, gone: map[string]bool{}, eager: rapid.Bool().Draw(t, "eager")}
		for range rapid.IntRange(0, 80).Draw(t, "events") {
			if rapid.Bool().Draw(t, "schedules") {
				h.schedule([]string{"w1", "w2", "w3"})
			}
			h.step()
			h.recover()
		}
		for range 10 * len(h.tasks) * (len(h.regions) + 1) {
			h.schedule([]string{"w4"})
			pos := slices.IndexFunc(h.tasks, func(s *jobpb.Subtask) bool { return s.State == running && h.ready(int(h.l.First(s.Chain)+s.Index)) })
			if pos < 0 {
				break
			}
			h.finish(pos)
			h.recover()
		}
		for pos, s := range h.tasks {
			if s.State != finished {
				t.Fatalf("subtask %d of chain %d is %s for ever", s.Index, s.Chain, h.tasks[pos].State)
			}
			spared = spared || h.again > 0 && s.Attempt == 1
		}
		for _, a := range h.all {
			for _, b := range h.all {
				if a.edge == b.edge && a.producer == b.producer && h.read[a].records != h.read[b].records {
					t.Fatalf("consumers %d and %d of edge %d have read what different attempts of producer %d wrote", a.consumer, b.consumer, a.edge.Index, a.producer)
				}
			}
		}
	})
	if !spared {
		t.Error("everything ran again every time: nothing was tested")
	}
}

// wide is a job of 10,000 subtasks that have finished, and as many that read all of them.
func wide(t fataler) *job {
	j := newJob(t, parsePlan(t, "src 10000\nout 10000\nsrc -> out hash blocking unordered\n"))
	for _, r := range j.regions {
		r.Status = jobpb.RegionStatus_REGION_RUNNING
	}
	for _, s := range j.tasks {
		s.State, s.Worker, s.Attempt = running, fmt.Sprint("w", s.Index%100), 1
		if s.Chain == 0 {
			s.State = finished
			j.store(s)
		}
	}
	return j
}

func BenchmarkRestartSetOfTenThousandByTenThousand(b *testing.B) {
	j := wide(b)
	missing := func(s *jobpb.Subtask, _ *jobpb.Partition) bool { return s.Worker == "w7" }
	b.ReportAllocs()
	for b.Loop() {
		if set := RestartSet(j, nil, missing); len(set.Regions) != 10_100 || len(set.Lost) != 100 {
			b.Fatal(len(set.Regions), len(set.Lost))
		}
	}
}

// Each subtask is looked at a bounded number of times, however many channels there are.
func TestRestartSetIsLinear(t *testing.T) {
	j := &counting{job: wide(t)}
	asked := 0
	set := RestartSet(j, nil, func(s *jobpb.Subtask, _ *jobpb.Partition) bool { asked++; return s.Worker == "w7" })
	if len(set.Regions) != 10_100 {
		t.Fatal(len(set.Regions))
	}
	if n := len(j.tasks); j.looks > 12*n || asked > 6*n {
		t.Errorf("%d subtasks: %d looks at them, %d at their results", n, j.looks, asked)
	}
}

type counting struct {
	*job
	looks int
}

func (c *counting) At(position int) *jobpb.Subtask {
	c.looks++
	return c.job.At(position)
}
