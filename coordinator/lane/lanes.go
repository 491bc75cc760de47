package lane

import (
	"time"

	"github.com/sluiceio/sluice/coordinator/state"
)

// Flight is one proposal under way.
type Flight struct {
	Job    string
	Done   func(state.Result) // the command has applied, or never will; nil: nobody wants to know
	Failed func()             // what becomes of it is unknown; nil likewise
	Calm   bool               // if it applies, what changed in the job's records says all
	Takes  map[string]int     // slots by worker that it takes if it applies

	result state.Result
	landed bool
	closed bool // the outcome is unknown, or nothing came of it; the lane opens again after a pause
}

// Result is the outcome of a proposal that has landed.
func (f *Flight) Result() state.Result { return f.result }

// Lanes of one leader.
type Lanes struct {
	flights map[string]*Flight
	vain    map[string]int // proposals in a row that led to nothing
	landed  []string       // lanes whose outcome is known and whose facts are not visible yet
	taken   map[string]int // slots by worker that flights would take
}

// New has every lane open.
func New() *Lanes {
	return &Lanes{flights: map[string]*Flight{}, vain: map[string]int{}, taken: map[string]int{}}
}

// Busy reports whether a lane is closed: something is under way on it.
func (s *Lanes) Busy(lane string) bool { return s.flights[lane] != nil }

// Taken are the slots of a worker that flights would take.
func (s *Lanes) Taken(worker string) int { return s.taken[worker] }

// Begin puts a proposal on a lane, which must be open.
func (s *Lanes) Begin(lane string, f *Flight) {
	s.flights[lane] = f
	for w, n := range f.Takes {
		s.taken[w] += n
	}
}

// Answer notes the outcome of a proposal; it takes effect when the facts contain the command. With err the outcome is
// unknown: the command may have been lost or may still come, so the lane stays closed for the pause that is returned; 0: there
// is none.
func (s *Lanes) Answer(lane string, r state.Result, err error) (pause time.Duration) {
	f := s.flights[lane]
	if f == nil || f.landed || f.closed {
		return 0
	}
	if err == nil {
		f.landed, f.result = true, r
		s.landed = append(s.landed, lane)
		return 0
	}
	s.giveBack(f)
	if f.Failed != nil {
		f.Failed()
	}
	s.vain[lane]++
	return s.close(lane, f)
}

// Visible are the lanes whose outcome is in the facts up to an index, in the order of their answers. Each must be taken by
// Land.
func (s *Lanes) Visible(index uint64) (lanes []string) {
	waiting := s.landed
	s.landed = nil
	for _, k := range waiting {
		if s.flights[k].result.Index > index {
			s.landed = append(s.landed, k)
		} else {
			lanes = append(lanes, k)
		}
	}
	return lanes
}

// Land takes a proposal off its lane, and lets Done know.
func (s *Lanes) Land(lane string) *Flight {
	f := s.flights[lane]
	delete(s.flights, lane)
	s.giveBack(f)
	if f.Done != nil {
		f.Done(f.result)
	}
	return f
}

// Vain notes that nothing came of a proposal that has landed: the facts had moved on under the decision. The next one is made
// from newer facts; if it leads to nothing again, the lane is closed for the pause that is returned, which keeps that from
// becoming a busy loop.
func (s *Lanes) Vain(lane string, f *Flight) (pause time.Duration) {
	if s.vain[lane]++; s.vain[lane] == 1 {
		return 0
	}
	s.flights[lane] = f
	return s.close(lane, f)
}

// Forget begins to count anew what leads to nothing on a lane.
func (s *Lanes) Forget(lane string) { delete(s.vain, lane) }

// Open opens a lane after its pause, and returns what was closed there; nil: it was not closed.
func (s *Lanes) Open(lane string) *Flight {
	f := s.flights[lane]
	if f == nil || !f.closed {
		return nil
	}
	delete(s.flights, lane)
	return f
}

// close keeps a lane closed for a moment, and longer each time in a row.
func (s *Lanes) close(lane string, f *Flight) (pause time.Duration) {
	const first, most = 100 * time.Millisecond, 10 * time.Second
	f.closed = true
	return min(first<<min(s.vain[lane], 10), most)
}

// giveBack forgets the slots that a flight would have taken: the facts know by now whether it did.
func (s *Lanes) giveBack(f *Flight) {
	for w, n := range f.Takes {
		if s.taken[w] -= n; s.taken[w] == 0 {
			delete(s.taken, w)
		}
	}
	f.Takes = nil
}
