package shuffle

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

// compare orders comparable fences by age. A restart moves the region's epoch, so attempts decide only between
// deployments that should not both exist.
func (f Fence) compare(o Fence) int {
	return cmp.Or(cmp.Compare(f.JobEpoch, o.JobEpoch), cmp.Compare(f.RegionEpoch, o.RegionEpoch),
		cmp.Compare(f.Producer, o.Producer), cmp.Compare(f.Consumer, o.Consumer))
}

// comparable: there is an order. Regions are numbered anew when the job's epoch moves.
func (f Fence) comparable(o Fence) bool {
	return f.Job == o.Job && (f.JobEpoch != o.JobEpoch || f.Region == o.Region)
}

// channelID is a channel's place in the plan: the same for all attempts.
type channelID struct{ edge, producer, consumer int32 }

func (c channelID) lost(r Reason, cause error) *LossError {
	return &LossError{Edge: c.edge, Producer: c.producer, Consumer: c.consumer, Reason: r, Cause: cause}
}

// endpoint is an end of a channel, as the meeting of its two ends sees it.
type endpoint interface {
	// lose fails the attempt that the end belongs to. It may be called more than once and takes locks of its own.
	lose(r Reason, cause error)
}

type side uint8

const (
	producing side = iota
	consuming
)

// seat is one side's place in a meeting. After its end has left, the fence stays: nobody with the same or an older one
// sits down again.
type seat struct {
	taken bool
	fence Fence
	end   endpoint // nil: has left
}

// meeting is where the two ends of a channel find each other, whichever comes first. A meeting with an end in another
// process has one seat taken here; the other end comes with a partition request.
//
// The rule for both sides: the newer one waits until the older one is replaced, the older one is refused.
type meeting struct{ seats [2]seat }

// entered is what becomes of those at a meeting when an end has sat down.
type entered struct {
	displaced []endpoint // older: to be failed as Stale
	partner   endpoint   // has the same fence; nil: not there yet
}

// enter seats e, or refuses it: Stale if anyone newer was here, Gone if its own attempt has left, Protocol if the same
// attempt is here already or belongs elsewhere.
func (m *meeting) enter(s side, f Fence, e endpoint) (entered, Reason) {
	own, other := &m.seats[s], &m.seats[1-s]
	for _, x := range m.seats {
		if x.taken && !x.fence.comparable(f) {
			return entered{}, Protocol
		}
		if x.taken && f.compare(x.fence) < 0 {
			return entered{}, Stale
		}
	}
	for _, x := range m.seats {
		if x.taken && x.fence == f && x.end == nil {
			return entered{}, Gone
		}
	}
	if own.taken && own.fence == f {
		return entered{}, Protocol
	}
	var r entered
	if own.end != nil {
		r.displaced = append(r.displaced, own.end)
	}
	if other.end != nil {
		if other.fence == f {
			r.partner = other.end
		} else {
			r.displaced = append(r.displaced, other.end)
			other.end = nil
		}
	}
	*own = seat{taken: true, fence: f, end: e}
	return r, none
}

// leave ends the stay of the end with fence f. Nobody newer is touched.
func (m *meeting) leave(s side, f Fence) {
	if own := &m.seats[s]; own.taken && own.fence == f {
		own.end = nil
	}
}

// find is the producing end that a partition request with fence f asks for.
func (m *meeting) find(f Fence) (endpoint, Reason) {
	own := &m.seats[producing]
	switch {
	case !own.taken:
		return nil, notYet
	case !own.fence.comparable(f):
		return nil, Protocol
	case f.compare(own.fence) > 0:
		return nil, notYet
	case f.compare(own.fence) < 0:
		return nil, Stale
	case own.end == nil:
		return nil, Gone
	}
	return own.end, none
}
