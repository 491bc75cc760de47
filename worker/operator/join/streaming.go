package join

import (
	"time"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/state"
	"github.com/sluiceio/sluice/worker/task"
)

// Streaming pairs records of equal keys, as long as they live.
type Streaming[K comparable, L, R, Out any] struct {
	LeftKey  func(L) K
	RightKey func(R) K
	// Match is called for each pair. It may emit any number of records.
	Match func(l L, r R, emit func(Out))
	// LeftOnly is called for a record that finds no partner when it arrives; one that comes later takes nothing back. Nil:
	// nothing is emitted. RightOnly is the same for the other side.
	LeftOnly  func(l L, emit func(Out))
	RightOnly func(r R, emit func(Out))
	// TTL is how long a record is kept after its arrival. It must be set.
	TTL time.Duration
	// Registry has the codecs of the pipeline; nil: none.
	Registry *codec.Registry
}

// Stages are the inputs, left and right.
func (s Streaming[K, L, R, Out]) Stages() (task.StageOf[L, Out], task.StageOf[R, Out]) {
	return stages(func(rt *task.Runtime, out task.Push[Out]) (operator[L, R], error) { return s.open(rt, out) })
}

func (s Streaming[K, L, R, Out]) open(rt *task.Runtime, out task.Push[Out]) (*streaming[K, L, R], error) {
	dir, err := state.NewDirectory[K](rt.Options("", s.Registry))
	if err != nil {
		return nil, err
	}
	rt.Keep(dir.Table())
	life := state.Option{TTL: s.TTL}
	left, err := state.ListOf[living[L]](dir, "left", life)
	if err != nil {
		return nil, err
	}
	right, err := state.ListOf[living[R]](dir, "right", life)
	if err != nil {
		return nil, err
	}
	emit := (func(Out))(out)
	o := &streaming[K, L, R]{
		rt: rt, dir: dir, leftKey: s.LeftKey, rightKey: s.RightKey, left: left, right: right,
		ofLeft:  matcher[L, R]{rt: rt, lower: element.MinTime, upper: element.MaxTime, pair: func(l L, r R) { s.Match(l, r, emit) }},
		ofRight: matcher[R, L]{rt: rt, lower: element.MinTime, upper: element.MaxTime, pair: func(r R, l L) { s.Match(l, r, emit) }},
	}
	ttl := s.TTL.Microseconds()
	o.withRight = func(r living[R]) bool { return dir.Now()-r.Born >= ttl || o.ofLeft.meet(r.At, r.V) }
	o.withLeft = func(l living[L]) bool { return dir.Now()-l.Born >= ttl || o.ofRight.meet(l.At, l.V) }
	if f := s.LeftOnly; f != nil {
		o.leftOnly = func(v L) { f(v, emit) }
	}
	if f := s.RightOnly; f != nil {
		o.rightOnly = func(v R) { f(v, emit) }
	}
	return o, nil
}

// living is a record as it is kept.
type living[T any] struct {
	// Born is when it arrived, in microseconds since the Unix epoch.
	Born int64
	At   element.Time
	V    T
}

// Stamp is Born.
func (l *living[T]) Stamp() int64 { return l.Born }

type streaming[K comparable, L, R any] struct {
	task.Base
	rt        *task.Runtime
	dir       *state.Directory[K]
	leftKey   func(L) K
	rightKey  func(R) K
	left      *state.List[living[L]]
	right     *state.List[living[R]]
	ofLeft    matcher[L, R]
	ofRight   matcher[R, L]
	withRight func(living[R]) bool
	withLeft  func(living[L]) bool
	leftOnly  func(L) // nil: nothing
	rightOnly func(R)
}

func (o *streaming[K, L, R]) pushLeft(v L) {
	k := o.leftKey(v)
	o.dir.Seek(k, o.dir.Hash(k))
	o.left.Append(living[L]{o.dir.Now(), o.rt.At, v})
	o.ofLeft.begin(v)
	o.right.All()(o.withRight)
	o.ofLeft.end()
	if o.ofLeft.found == 0 && o.leftOnly != nil {
		o.leftOnly(v)
	}
}

func (o *streaming[K, L, R]) pushRight(v R) {
	k := o.rightKey(v)
	o.dir.Seek(k, o.dir.Hash(k))
	o.right.Append(living[R]{o.dir.Now(), o.rt.At, v})
	o.ofRight.begin(v)
	o.left.All()(o.withLeft)
	o.ofRight.end()
	if o.ofRight.found == 0 && o.rightOnly != nil {
		o.rightOnly(v)
	}
}
