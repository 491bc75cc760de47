package timer

import (
	"iter"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/state"
)

// Timer is one deadline per key.
type Timer struct {
	value *state.Value[Deadline]
	call  func(at element.Time) error
	arm   func(at element.Time, seq uint64)
	next  func(old *Deadline) uint64
	spoil func()
}

// Set sets the deadline of the current key, in place of the one before.
func (t *Timer) Set(at element.Time) {
	old := t.value.Look()
	if old != nil && old.At == at {
		return
	}
	seq := t.next(old)
	cover := seq
	if old != nil && old.At < at {
		cover = old.Cover // its entry moves on when it comes up
	} else {
		if old != nil {
			t.spoil()
		}
		t.arm(at, seq)
	}
	*t.value.Ref() = Deadline{at, seq, cover}
}

// Clear takes the deadline of the current key, if there is one.
func (t *Timer) Clear() {
	if t.value.Exists() {
		t.value.Clear()
		t.spoil()
	}
}

// At is the deadline of the current key.
func (t *Timer) At() (at element.Time, ok bool) {
	if d := t.value.Look(); d != nil {
		return d.At, true
	}
	return 0, false
}

func (t *Timer) due(at element.Time, seq uint64) (due bool, again *Deadline) {
	d := t.value.Look()
	switch {
	case d == nil || d.Cover != seq:
		return false, nil
	case d.At == at:
		t.value.Clear()
		return true, nil
	}
	d = t.value.Ref()
	d.Cover = d.Seq
	return false, d
}

func (t *Timer) stale(_ element.Time, seq uint64) bool {
	d := t.value.Look()
	return d == nil || d.Cover != seq
}

func (t *Timer) fire(at element.Time) error { return t.call(at) }

// Timers is a set of deadlines per key.
type Timers struct {
	set   *state.Map[element.Time, uint64]
	call  func(at element.Time) error
	arm   func(at element.Time, seq uint64)
	next  func(old *Deadline) uint64
	spoil func()
}

// Add adds a deadline for the current key; one that is there stays as it is.
func (t *Timers) Add(at element.Time) {
	if t.set.Has(at) {
		return
	}
	seq := t.next(nil)
	t.arm(at, seq)
	t.set.Put(at, seq)
}

// Remove takes a deadline of the current key.
func (t *Timers) Remove(at element.Time) {
	if t.set.Has(at) {
		t.set.Delete(at)
		t.spoil()
	}
}

// Has reports whether the current key has this deadline.
func (t *Timers) Has(at element.Time) bool { return t.set.Has(at) }

// Len is the number of deadlines of the current key.
func (t *Timers) Len() int { return t.set.Len() }

// All yields the deadlines of the current key, in no particular order.
func (t *Timers) All() iter.Seq[element.Time] {
	return func(yield func(element.Time) bool) {
		for at := range t.set.All() {
			if !yield(at) {
				return
			}
		}
	}
}

// Clear takes all deadlines of the current key.
func (t *Timers) Clear() {
	for range t.set.Len() {
		t.spoil()
	}
	t.set.Clear()
}

func (t *Timers) due(at element.Time, seq uint64) (bool, *Deadline) {
	if t.stale(at, seq) {
		return false, nil
	}
	t.set.Delete(at)
	return true, nil
}

func (t *Timers) stale(at element.Time, seq uint64) bool {
	p := t.set.Look(at)
	return p == nil || *p != seq
}

func (t *Timers) fire(at element.Time) error { return t.call(at) }
