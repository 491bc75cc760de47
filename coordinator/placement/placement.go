package placement

import (
	"container/heap"
	"slices"
)

// Worker can take slots.
type Worker struct {
	ID   string
	Free int // slots that it can take
	Held int // slots of the same job that it has
}

// Slot needs a worker.
type Slot struct {
	Number   int
	Previous string // worker of its subtasks' previous attempts; empty: none
	// Inputs are the stored results that its subtasks read, by worker. Slots that read the same ones may share the list.
	Inputs []Bytes
}

// Bytes that lie on a worker.
type Bytes struct {
	Worker string
	Count  int64
}

// Merge adds up two lists. It changes neither.
func Merge(a, b []Bytes) []Bytes {
	if len(a) == 0 {
		return b
	}
	if len(b) == 0 {
		return a
	}
	sum := slices.Clone(a)
	for _, x := range b {
		if i := slices.IndexFunc(sum, func(y Bytes) bool { return y.Worker == x.Worker }); i >= 0 {
			sum[i].Count += x.Count
		} else {
			sum = append(sum, x)
		}
	}
	return sum
}

// Choose gives each slot a worker: the previous one if it has room; else one that holds stored inputs; else the freest.
// The workers, ordered by id, must have room for all of them.
//
// Of the workers that hold inputs, the one with most bytes per slot is taken (D'Hondt's rule), counting the slots that
// the job has there already. So a slot whose inputs lie on one worker goes there, and slots that all read from everywhere
// are spread as the bytes are. "The worker with most bytes" was rejected: of two workers with 51 and 49 percent of a
// shuffle the second would get nothing to do.
func Choose(slots []Slot, workers []Worker) map[int]string {
	c := &chooser{workers: slices.Clone(workers), index: make(map[string]int, len(workers)), places: make(map[int]string, len(slots))}
	for i, w := range workers {
		c.index[w.ID] = i
	}
	rest := c.each(slots, c.previous)
	rest = c.each(rest, c.nearest)
	c.spread(rest)
	return c.places
}

type chooser struct {
	workers []Worker
	index   map[string]int
	places  map[int]string
}

// each gives slots the worker that a rule finds, and returns those for which it finds none.
func (c *chooser) each(slots []Slot, rule func(Slot) int) (rest []Slot) {
	for _, s := range slots {
		if i := rule(s); i >= 0 {
			c.take(s, i)
		} else {
			rest = append(rest, s)
		}
	}
	return rest
}

func (c *chooser) take(s Slot, i int) {
	w := &c.workers[i]
	w.Free--
	w.Held++
	c.places[s.Number] = w.ID
}

func (c *chooser) previous(s Slot) int {
	if i, ok := c.index[s.Previous]; ok && c.workers[i].Free > 0 {
		return i
	}
	return -1
}

func (c *chooser) nearest(s Slot) int {
	best, most := -1, 0.0
	for _, b := range s.Inputs {
		i, ok := c.index[b.Worker]
		if !ok || c.workers[i].Free <= 0 || b.Count <= 0 {
			continue
		}
		if share := float64(b.Count) / float64(1+c.workers[i].Held); best < 0 || share > most || share == most && c.freer(i, best) {
			best, most = i, share
		}
	}
	return best
}

// freer orders workers by their room, and among equals by id.
func (c *chooser) freer(i, j int) bool {
	a, b := c.workers[i], c.workers[j]
	return a.Free > b.Free || a.Free == b.Free && a.ID < b.ID
}

// spread gives each slot to the worker that has most room at that moment, so that load is even.
func (c *chooser) spread(slots []Slot) {
	if len(slots) == 0 {
		return
	}
	h := &byRoom{c: c}
	for i := range c.workers {
		h.order = append(h.order, i)
	}
	heap.Init(h)
	for _, s := range slots {
		c.take(s, h.order[0])
		heap.Fix(h, 0)
	}
}

// byRoom is a heap of indices: the freest worker first.
type byRoom struct {
	c     *chooser
	order []int
}

func (h *byRoom) Len() int           { return len(h.order) }
func (h *byRoom) Less(i, j int) bool { return h.c.freer(h.order[i], h.order[j]) }
func (h *byRoom) Swap(i, j int)      { h.order[i], h.order[j] = h.order[j], h.order[i] }
func (h *byRoom) Push(x any)         { h.order = append(h.order, x.(int)) }
func (h *byRoom) Pop() any {
	last := h.order[len(h.order)-1]
	h.order = h.order[:len(h.order)-1]
	return last
}
