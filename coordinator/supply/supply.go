package supply

import (
	"cmp"
	"iter"
	"slices"

	"github.com/sluiceio/sluice/coordinator/placement"
	"github.com/sluiceio/sluice/coordinator/region"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// Condition of one stored result.
type Condition uint8

// The conditions.
const (
	Absent Condition = iota // its producer has not finished
	Stored                  // it can be read
	Away                    // its worker is alive and has no session: it comes back, or will be declared lost
	Lost                    // it cannot be read any more
)

// Holding is what is known of what one producer stored for one edge.
type Holding struct {
	Condition Condition
	Worker    string
	Bytes     int64
}

// Supply of one job. It begins with every result absent and every region neither waiting nor finished.
type Supply struct {
	l       *region.Layout
	edges   []edge // by index; of PIPELINED edges nothing is known
	regions []reader
	ready   set
	count   [Lost + 1]int // holdings by condition
	closed  int           // how often an edge that everybody reads was read to its end
	visits  int
}

// edge counts what its consumers lack. A region that waits has not produced anything itself, so what it writes for its own
// use is not counted as lacking.
type edge struct {
	near bool
	of   []Holding // by producer

	// Not near: the producers are the same for all consumers.
	short   int32             // producers whose result cannot be read
	open    int32             // regions that read it and have not finished
	readers []int32           // regions that read it and write nothing of it
	inner   []inner           // regions that read it and write some of it
	bytes   map[string]int64  // that can be read, by worker
	list    []placement.Bytes // what a consumer reads of them; nil: to be found out

	// Near: each consumer has producers of its own.
	shorts []int32 // by consumer: those in other regions whose result cannot be read
}

// inner is a region that reads an edge for which it writes itself.
type inner struct {
	region int32
	writes int32 // producers of the edge in it
}

// reader is a region as a consumer.
type reader struct {
	lacks    int32 // edges (near ones: consumers) that are not complete
	waits    bool
	finished bool
}

// New begins with nothing stored.
func New(l *region.Layout) *Supply {
	p := l.Plan()
	s := &Supply{l: l, edges: make([]edge, len(p.Edges)), regions: make([]reader, len(p.Regions)), ready: makeSet(len(p.Regions))}
	for _, e := range p.Edges {
		if l.Blocking(e.Index) {
			s.open(e)
		}
	}
	return s
}

func (s *Supply) open(e *jobpb.Edge) {
	p := s.l.Plan()
	n := &s.edges[e.Index]
	n.near, n.of = s.l.Near(e.Index), make([]Holding, p.Chains[e.FromChain].Parallelism)
	s.count[Absent] += len(n.of)
	if n.near {
		n.shorts = make([]int32, p.Chains[e.ToChain].Parallelism)
		for c := range n.shorts {
			from, own := s.l.Producers(e.Index, int32(c)), s.l.Of(int(s.l.First(e.ToChain))+c)
			for i := range from.Count {
				if s.l.Of(int(from.First+i)) != own {
					n.shorts[c]++
				}
			}
			if n.shorts[c] > 0 {
				s.regions[own].lacks++
			}
		}
		return
	}
	n.short, n.bytes = int32(len(n.of)), map[string]int64{}
	writes := make([]int32, len(p.Regions))
	for i := range n.of {
		writes[s.l.Of(int(s.l.First(e.FromChain))+i)]++
	}
	for _, r := range p.Regions {
		switch {
		case !slices.Contains(r.InputEdges, e.Index):
			continue
		case writes[r.Index] == 0:
			n.readers = append(n.readers, r.Index)
		default:
			n.inner = append(n.inner, inner{region: r.Index, writes: writes[r.Index]})
		}
		if n.short > writes[r.Index] {
			s.regions[r.Index].lacks++
		}
		n.open++
	}
}

// Put says what is known of a result now.
func (s *Supply) Put(edge, producer int32, h Holding) {
	e := &s.edges[edge]
	old := e.of[producer]
	s.visits++
	if old == h {
		return
	}
	e.of[producer] = h
	s.count[old.Condition]--
	s.count[h.Condition]++
	if !e.near {
		e.hold(old, -1)
		e.hold(h, +1)
	}
	switch before, now := old.Condition == Stored, h.Condition == Stored; {
	case before == now:
	case e.near:
		s.moveNear(edge, producer, now)
	default:
		s.moveAll(e, now)
	}
}

func (e *edge) hold(h Holding, sign int64) {
	if h.Condition != Stored || h.Bytes == 0 {
		return
	}
	e.list = nil
	if e.bytes[h.Worker] += sign * h.Bytes; e.bytes[h.Worker] == 0 {
		delete(e.bytes, h.Worker)
	}
}

// moveAll follows one result of an edge that everybody reads.
func (s *Supply) moveAll(e *edge, stored bool) {
	was := e.short
	if stored {
		e.short--
	} else {
		e.short++
	}
	cross := func(r, spare int32) {
		if before, now := was > spare, e.short > spare; before != now {
			s.lack(r, now)
		}
	}
	if was == 0 || e.short == 0 {
		for _, r := range e.readers {
			cross(r, 0)
		}
	}
	for _, in := range e.inner {
		cross(in.region, in.writes)
	}
}

// moveNear follows one result of an edge whose producers have few consumers each.
func (s *Supply) moveNear(edge, producer int32, stored bool) {
	e, p := &s.edges[edge], s.l.Plan().Edges[edge]
	from := s.l.Of(int(s.l.First(p.FromChain) + producer))
	to := s.l.Consumers(edge, producer)
	for i := range to.Count {
		pos := to.First + i
		r := s.l.Of(int(pos))
		if s.visits++; r == from {
			continue
		}
		n := &e.shorts[pos-s.l.First(p.ToChain)]
		was := *n
		if stored {
			*n--
		} else {
			*n++
		}
		if (was == 0) != (*n == 0) {
			s.lack(r, *n > 0)
		}
	}
}

// lack notes that an input of a region is no longer complete, or is now.
func (s *Supply) lack(r int32, lacks bool) {
	s.visits++
	if lacks {
		s.regions[r].lacks++
	} else {
		s.regions[r].lacks--
	}
	s.look(r)
}

func (s *Supply) look(r int32) {
	s.ready.put(r, s.regions[r].waits && s.regions[r].lacks == 0)
}

// Region says how far a region is.
func (s *Supply) Region(r int32, status jobpb.RegionStatus) {
	x := &s.regions[r]
	s.visits++
	finished := status == jobpb.RegionStatus_REGION_FINISHED
	if finished != x.finished {
		x.finished = finished
		for _, i := range s.l.Plan().Regions[r].InputEdges {
			e := &s.edges[i]
			if !finished {
				e.open++
				continue
			}
			if e.open--; e.open == 0 && !e.near {
				s.closed++
			}
		}
	}
	x.waits = status == jobpb.RegionStatus_REGION_CREATED || status == jobpb.RegionStatus_REGION_RESTARTING
	s.look(r)
}

// Waits reports whether a region waits for its attempts.
func (s *Supply) Waits(r int32) bool { return s.regions[r].waits }

// Lacks reports whether a region reads something that cannot be read now.
func (s *Supply) Lacks(r int32) bool { return s.regions[r].lacks > 0 }

// Ready are the regions that wait and lack nothing, lowest first.
func (s *Supply) Ready() iter.Seq[int32] {
	return func(yield func(int32) bool) {
		for r := s.ready.next(0); r >= 0; r = s.ready.next(r + 1) {
			if s.visits++; !yield(r) {
				return
			}
		}
	}
}

// Waiting are the regions that wait, whether they lack something or not, lowest first.
func (s *Supply) Waiting() iter.Seq[int32] {
	return func(yield func(int32) bool) {
		for r := range s.regions {
			if s.regions[r].waits && !yield(int32(r)) {
				return
			}
		}
	}
}

// Holding is what is known of a result.
func (s *Supply) Holding(edge, producer int32) Holding { return s.edges[edge].of[producer] }

// Count is the number of results in a condition.
func (s *Supply) Count(c Condition) int { return s.count[c] }

// Closed is how often all readers of an edge that everybody reads had finished.
func (s *Supply) Closed() int { return s.closed }

// Bytes is what a consumer reads over an edge and where it lies, ordered by worker. Of an edge that everybody reads each
// consumer reads an equal share; then all get the same list.
func (s *Supply) Bytes(edge, consumer int32) []placement.Bytes {
	e, p := &s.edges[edge], s.l.Plan().Edges[edge]
	switch {
	case e.near:
		sum := map[string]int64{}
		from := s.l.Producers(edge, consumer)
		for i := range from.Count {
			if h := e.of[from.First+i-s.l.First(p.FromChain)]; h.Condition == Stored && h.Bytes > 0 {
				sum[h.Worker] += h.Bytes
			}
		}
		return sorted(sum, 1)
	case p.Partitioner == jobpb.Partitioner_PARTITIONER_GLOBAL && consumer > 0:
		return nil
	case e.list == nil:
		parts := int64(1)
		if x := p.Partitioner; x != jobpb.Partitioner_PARTITIONER_GLOBAL && x != jobpb.Partitioner_PARTITIONER_BROADCAST {
			parts = int64(s.l.Plan().Chains[p.ToChain].Parallelism)
		}
		e.list = sorted(e.bytes, parts)
	}
	return e.list
}

func sorted(sum map[string]int64, parts int64) []placement.Bytes {
	list := make([]placement.Bytes, 0, len(sum))
	for w, n := range sum { // any order: sorted below
		list = append(list, placement.Bytes{Worker: w, Count: (n + parts - 1) / parts})
	}
	slices.SortFunc(list, func(a, b placement.Bytes) int { return cmp.Compare(a.Worker, b.Worker) })
	return list
}

// Visits counts the steps of all calls so far: what a test holds against the number of reports.
func (s *Supply) Visits() int { return s.visits }
