package join

import (
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/task"
)

// Stamped is a record with its event time, as it is kept.
type Stamped[T any] struct {
	At element.Time
	V  T
}

// operator is a join of one subtask.
type operator[L, R any] interface {
	task.Operator
	pushLeft(v L)
	pushRight(v R)
}

// stages are the two inputs of what open makes, left and right.
func stages[L, R, Out any](open func(*task.Runtime, task.Push[Out]) (operator[L, R], error)) (task.StageOf[L, Out], task.StageOf[R, Out]) {
	shared := func(rt *task.Runtime, out task.Push[Out]) (operator[L, R], error) {
		return task.Shared(rt, func() (operator[L, R], error) { return open(rt, out) })
	}
	left := func(rt *task.Runtime, out task.Push[Out]) (task.Push[L], task.Operator, error) {
		o, err := shared(rt, out)
		if err != nil {
			return nil, nil, err
		}
		return o.pushLeft, o, nil
	}
	right := func(rt *task.Runtime, out task.Push[Out]) (task.Push[R], task.Operator, error) {
		o, err := shared(rt, out)
		if err != nil {
			return nil, nil, err
		}
		return o.pushRight, o, nil
	}
	return left, right
}

// matcher makes pairs of one record and those that are kept of the other side. It lives as long as the operator, so that a
// record costs no allocation.
type matcher[T, Kept any] struct {
	rt           *task.Runtime
	pair         func(T, Kept)
	v            T
	at           element.Time
	lower, upper element.Time // of the kept record's time less that of v
	found        int
}

// begin prepares for the record in flight.
func (m *matcher[T, Kept]) begin(v T) { m.v, m.at, m.found = v, m.rt.At, 0 }

// meet makes the pair with a kept record, if their times are near enough. It reports whether more pairs are wanted.
func (m *matcher[T, Kept]) meet(at element.Time, kept Kept) bool {
	if d := distance(m.at, at); d < m.lower || d > m.upper {
		return true
	}
	m.found++
	m.rt.At = max(m.at, at)
	m.pair(m.v, kept)
	return m.rt.Stopped() == nil
}

// end forgets the record.
func (m *matcher[T, Kept]) end() {
	m.rt.At = m.at
	m.v = *new(T)
}

// distance is the time from one to another, within the limits of time.
func distance(from, to element.Time) element.Time {
	d := to - from
	switch {
	case to > from && d < 0:
		return element.MaxTime
	case to < from && d > 0:
		return element.MinTime
	}
	return d
}

// later is t moved by d, within the limits of time.
func later(t, d element.Time) element.Time {
	switch sum := t + d; {
	case d > 0 && sum < t:
		return element.MaxTime
	case d < 0 && sum > t:
		return element.MinTime
	default:
		return sum
	}
}
