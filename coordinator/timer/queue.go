package timer

import (
	"container/heap"
	"time"
)

// Timer asks for a look at the thing of a kind with this id.
type Timer[K any] struct {
	At   time.Time
	Kind K
	ID   string
	n    uint64 // order among equal times
}

// Queue of timers, earliest first. Timers are not removed when they lose their meaning: whoever is woken looks at the
// facts.
type Queue[K any] struct{ h entries[K] }

// Set adds a timer.
func (q *Queue[K]) Set(at time.Time, kind K, id string) {
	q.h.n++
	heap.Push(&q.h, Timer[K]{At: at, Kind: kind, ID: id, n: q.h.n})
}

// Next is the time of the earliest timer; false without any.
func (q *Queue[K]) Next() (time.Time, bool) {
	if len(q.h.all) == 0 {
		return time.Time{}, false
	}
	return q.h.all[0].At, true
}

// Due takes the earliest timer, if its time has come.
func (q *Queue[K]) Due(now time.Time) (Timer[K], bool) {
	if len(q.h.all) == 0 || q.h.all[0].At.After(now) {
		return Timer[K]{}, false
	}
	return heap.Pop(&q.h).(Timer[K]), true
}

type entries[K any] struct {
	all []Timer[K]
	n   uint64
}

func (e *entries[K]) Len() int { return len(e.all) }
func (e *entries[K]) Less(i, j int) bool {
	if !e.all[i].At.Equal(e.all[j].At) {
		return e.all[i].At.Before(e.all[j].At)
	}
	return e.all[i].n < e.all[j].n
}
func (e *entries[K]) Swap(i, j int) { e.all[i], e.all[j] = e.all[j], e.all[i] }
func (e *entries[K]) Push(x any)    { e.all = append(e.all, x.(Timer[K])) }
func (e *entries[K]) Pop() any {
	last := e.all[len(e.all)-1]
	e.all = e.all[:len(e.all)-1]
	return last
}
