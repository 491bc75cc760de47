package schedule

import (
	"container/heap"
	"time"
)

// timerKind says what a timer is for; its id names the worker, the job or the proposal.
type timerKind uint8

const (
	timerWorker timerKind = iota
	timerJob
	timerFlight
)

type timer struct {
	at   time.Time
	n    uint64 // order among equal times
	kind timerKind
	id   string
}

// timers is a heap. Timers are not removed when they lose their meaning: whoever is woken looks at the facts.
type timers struct {
	all []timer
	n   uint64
}

func (t *timers) Len() int { return len(t.all) }
func (t *timers) Less(i, j int) bool {
	if !t.all[i].at.Equal(t.all[j].at) {
		return t.all[i].at.Before(t.all[j].at)
	}
	return t.all[i].n < t.all[j].n
}
func (t *timers) Swap(i, j int) { t.all[i], t.all[j] = t.all[j], t.all[i] }
func (t *timers) Push(x any)    { t.all = append(t.all, x.(timer)) }
func (t *timers) Pop() any {
	last := t.all[len(t.all)-1]
	t.all = t.all[:len(t.all)-1]
	return last
}

func (t *timers) set(at time.Time, kind timerKind, id string) {
	t.n++
	heap.Push(t, timer{at: at, n: t.n, kind: kind, id: id})
}

// due takes the next timer whose time has come.
func (t *timers) due(now time.Time) (timer, bool) {
	if len(t.all) == 0 || t.all[0].at.After(now) {
		return timer{}, false
	}
	return heap.Pop(t).(timer), true
}
