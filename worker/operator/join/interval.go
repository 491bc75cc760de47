package join

import (
	"fmt"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/state"
	"github.com/sluiceio/sluice/worker/task"
)

// Interval pairs records of equal keys whose event times are near each other.
type Interval[K comparable, L, R, Out any] struct {
	LeftKey  func(L) K
	RightKey func(R) K
	// Lower and Upper limit the time of the right record less that of the left one, in microseconds, both included.
	Lower, Upper element.Time
	// Match is called for each pair. It may emit any number of records.
	Match func(l L, r R, emit func(Out))
	// Registry has the codecs of the pipeline; nil: none.
	Registry *codec.Registry
}

// least is the shortest bucket of time, in microseconds: shorter ones would be more to open and to drop than to look through.
const least element.Time = 100_000

// buckets is into how many buckets the length of an interval is divided. A record looks through one more, and is kept for as
// much longer than it can find a partner.
const buckets = 4

// Stages are the inputs, left and right.
//
// Each side keeps its records in buckets of event time, each a table of its own, so that what the clock has passed goes as
// a whole: no timer, and no record is looked at again to be removed.
//
// A record at or below the watermark is late: its partners may be gone. It is counted and dropped.
func (s Interval[K, L, R, Out]) Stages() (task.StageOf[L, Out], task.StageOf[R, Out]) {
	return stages(func(rt *task.Runtime, out task.Push[Out]) (operator[L, R], error) { return s.open(rt, out) })
}

func (s Interval[K, L, R, Out]) open(rt *task.Runtime, out task.Push[Out]) (*interval[K, L, R], error) {
	hash, err := codec.Hasher[K]()
	if err != nil {
		return nil, err
	}
	emit := (func(Out))(out)
	width := max(least, (s.Upper-s.Lower)/buckets)
	o := &interval[K, L, R]{
		rt: rt, hash: hash, leftKey: s.LeftKey, rightKey: s.RightKey,
		ofLeft:  matcher[L, R]{rt: rt, lower: s.Lower, upper: s.Upper, pair: func(l L, r R) { s.Match(l, r, emit) }},
		ofRight: matcher[R, L]{rt: rt, lower: -s.Upper, upper: -s.Lower, pair: func(r R, l L) { s.Match(l, r, emit) }},
	}
	o.withRight = func(r Stamped[R]) bool { return o.ofLeft.meet(r.At, r.V) }
	o.withLeft = func(l Stamped[L]) bool { return o.ofRight.meet(l.At, l.V) }
	if o.left, err = newSide[K, L](rt, "left", s.Registry, width, s.Upper); err != nil {
		return nil, err
	}
	o.right, err = newSide[K, R](rt, "right", s.Registry, width, -s.Lower)
	return o, err
}

type interval[K comparable, L, R any] struct {
	task.Base
	rt        *task.Runtime
	hash      func(K) uint64
	leftKey   func(L) K
	rightKey  func(R) K
	left      *side[K, L]
	right     *side[K, R]
	ofLeft    matcher[L, R]
	ofRight   matcher[R, L]
	withRight func(Stamped[R]) bool
	withLeft  func(Stamped[L]) bool
}

func (o *interval[K, L, R]) pushLeft(v L) {
	if o.late() {
		return
	}
	k := o.leftKey(v)
	h := o.hash(k)
	o.rt.Fail(o.left.put(k, h, o.rt.At, v, o.rt.Watermark))
	o.ofLeft.begin(v)
	o.right.each(k, h, later(o.rt.At, o.ofLeft.lower), later(o.rt.At, o.ofLeft.upper), o.withRight)
	o.ofLeft.end()
}

func (o *interval[K, L, R]) pushRight(v R) {
	if o.late() {
		return
	}
	k := o.rightKey(v)
	h := o.hash(k)
	o.rt.Fail(o.right.put(k, h, o.rt.At, v, o.rt.Watermark))
	o.ofRight.begin(v)
	o.left.each(k, h, later(o.rt.At, o.ofRight.lower), later(o.rt.At, o.ofRight.upper), o.withLeft)
	o.ofRight.end()
}

func (o *interval[K, L, R]) late() bool {
	late := o.rt.At <= o.rt.Watermark && o.rt.Watermark > element.MinTime // which promises nothing
	if late {
		o.rt.Counters.Late++
	}
	return late
}

// OnWatermark frees what can find no partner any more.
func (o *interval[K, L, R]) OnWatermark(t element.Time) error {
	o.left.free(t)
	o.right.free(t)
	return nil
}

// OnRestored implements task.Restorer.
func (o *interval[K, L, R]) OnRestored() error {
	o.left.plan()
	o.right.plan()
	return nil
}

// side is what is kept of one input.
type side[K comparable, T any] struct {
	spaces *state.Spaces[K, *state.List[Stamped[T]]]
	width  element.Time
	keep   element.Time // a record may find partners of the other side that are so much newer
	next   element.Time // watermark at which the oldest bucket goes
}

func newSide[K comparable, T any](rt *task.Runtime, name string, r *codec.Registry, width, keep element.Time) (*side[K, T], error) {
	spaces, err := state.NewSpaces(rt.Options(name, r), rt.KeyGroups.First, rt.KeyGroups.End, func(d *state.Directory[K]) (*state.List[Stamped[T]], error) {
		return state.ListOf[Stamped[T]](d, name)
	})
	if err != nil {
		return nil, fmt.Errorf("%s side: %w", name, err)
	}
	rt.Keep(spaces.Table())
	return &side[K, T]{spaces: spaces, width: width, keep: keep, next: element.MaxTime}, nil
}

// bucket is the number of that of t: t divided by the width, rounded down.
func (s *side[K, T]) bucket(t element.Time) int64 {
	id := t / s.width
	if t%s.width < 0 {
		id--
	}
	return int64(id)
}

// ends is the watermark at which a bucket can find no partner any more.
func (s *side[K, T]) ends(id int64) element.Time {
	last := element.MaxTime
	if next := element.Time(id) + 1; next <= element.MaxTime/s.width {
		last = next*s.width - 1
	}
	return later(last, s.keep)
}

// put keeps a record, unless no partner can come any more.
func (s *side[K, T]) put(k K, h uint64, at element.Time, v T, watermark element.Time) error {
	if later(at, s.keep) <= watermark && watermark > element.MinTime { // which promises nothing
		return nil
	}
	id := s.bucket(at)
	sp := s.spaces.Find(id)
	if sp == nil {
		var err error
		if sp, err = s.spaces.Open(id); err != nil {
			return err
		}
		s.next = min(s.next, s.ends(id))
	}
	sp.Dir.Seek(k, h)
	sp.Handles.Append(Stamped[T]{at, v})
	return nil
}

// each yields the records of a key in the buckets from one time to another.
func (s *side[K, T]) each(k K, h uint64, from, to element.Time, yield func(Stamped[T]) bool) {
	for id, last := s.bucket(from), s.bucket(to); id <= last; id++ {
		if sp := s.spaces.Find(id); sp != nil {
			sp.Dir.Seek(k, h)
			sp.Handles.All()(yield)
		}
	}
}

// free drops the buckets whose time is over.
func (s *side[K, T]) free(watermark element.Time) {
	if watermark < s.next {
		return
	}
	for sp := range s.spaces.All() {
		if s.ends(sp.ID) > watermark {
			break
		}
		s.spaces.Drop(sp)
	}
	s.plan()
}

// plan finds out when the oldest bucket goes.
func (s *side[K, T]) plan() {
	s.next = element.MaxTime
	for sp := range s.spaces.All() {
		s.next = s.ends(sp.ID)
		break
	}
}
