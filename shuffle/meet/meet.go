package meet

import "cmp"

// Fence identifies the two attempts that a channel joins, and the epochs that they belong to. Both ends of a channel
// have the same, or they do not meet.
type Fence struct {
	Job                string
	JobEpoch           uint64
	Region             int32
	RegionEpoch        uint64
	Producer, Consumer uint32 // attempts
}

// Compare orders comparable fences by age. A restart moves the region's epoch, so attempts decide only between
// deployments that should not both exist.
func (f Fence) Compare(o Fence) int {
	return cmp.Or(cmp.Compare(f.JobEpoch, o.JobEpoch), cmp.Compare(f.RegionEpoch, o.RegionEpoch),
		cmp.Compare(f.Producer, o.Producer), cmp.Compare(f.Consumer, o.Consumer))
}

// Comparable: there is an order. Regions are numbered anew when the job's epoch moves.
func (f Fence) Comparable(o Fence) bool {
	return f.Job == o.Job && (f.JobEpoch != o.JobEpoch || f.Region == o.Region)
}

// Side of a channel.
type Side uint8

const (
	// Producing is the writer's side.
	Producing Side = iota
	// Consuming is the gate's side.
	Consuming
)

// Verdict on an end that wants to sit down, or on a request for one.
type Verdict uint8

const (
	// Accepted: it has its place.
	Accepted Verdict = iota
	// NotYet: the end that was asked for has not come, or an older one sits there still.
	NotYet
	// Stale: somebody newer was here.
	Stale
	// Gone: the attempt that was asked for, or that wants to come, has left.
	Gone
	// Foreign: the same attempt is here already, or the fence belongs elsewhere.
	Foreign
)

// Meeting is where the two ends of a channel find each other, whichever comes first. A meeting with an end in another
// process has one seat taken here; the other end comes with a partition request.
//
// The rule for both sides: the newer one waits until the older one is replaced, the older one is refused.
type Meeting[E any] struct{ seats [2]seat[E] }

// seat is one side's place. After its end has left, the fence stays: nobody with the same or an older one sits down
// again.
type seat[E any] struct {
	taken bool
	fence Fence
	here  bool
	end   E
}

// Entered is what becomes of those at a meeting when an end has sat down.
type Entered[E any] struct {
	Displaced []E // older: to be failed as stale
	Partner   E   // has the same fence, if Paired
	Paired    bool
}

// Enter seats e, or says why not.
func (m *Meeting[E]) Enter(s Side, f Fence, e E) (Entered[E], Verdict) {
	own, other := &m.seats[s], &m.seats[1-s]
	if v := m.judge(own, f); v != Accepted {
		return Entered[E]{}, v
	}
	var r Entered[E]
	if own.here {
		r.Displaced = append(r.Displaced, own.end)
	}
	switch {
	case !other.here:
	case other.fence == f:
		r.Partner, r.Paired = other.end, true
	default:
		r.Displaced = append(r.Displaced, other.end)
		other.leave()
	}
	*own = seat[E]{taken: true, fence: f, here: true, end: e}
	return r, Accepted
}

func (m *Meeting[E]) judge(own *seat[E], f Fence) Verdict {
	for _, x := range m.seats {
		if x.taken && !x.fence.Comparable(f) {
			return Foreign
		}
		if x.taken && f.Compare(x.fence) < 0 {
			return Stale
		}
	}
	for _, x := range m.seats {
		if x.taken && x.fence == f && !x.here {
			return Gone
		}
	}
	if own.taken && own.fence == f {
		return Foreign
	}
	return Accepted
}

func (s *seat[E]) leave() {
	var none E
	s.here, s.end = false, none
}

// Leave ends the stay of the end with fence f. Nobody newer is touched.
func (m *Meeting[E]) Leave(s Side, f Fence) {
	if own := &m.seats[s]; own.taken && own.fence == f {
		own.leave()
	}
}

// Find is the producing end that a partition request with fence f asks for.
func (m *Meeting[E]) Find(f Fence) (end E, v Verdict) {
	own := &m.seats[Producing]
	switch {
	case !own.taken:
		return end, NotYet
	case !own.fence.Comparable(f):
		return end, Foreign
	case f.Compare(own.fence) > 0:
		return end, NotYet
	case f.Compare(own.fence) < 0:
		return end, Stale
	case !own.here:
		return end, Gone
	}
	return own.end, Accepted
}

// Here lists the ends that have not left.
func (m *Meeting[E]) Here() (ends []E) {
	for _, s := range m.seats {
		if s.here {
			ends = append(ends, s.end)
		}
	}
	return ends
}
