package region

import (
	"container/heap"
	"slices"
)

// group is one region: the positions of its subtasks.
type group struct{ positions []int32 }

// order merges each circle of nodes into one group and numbers the groups so that each reads only from lower ones; among
// those that are free to go first, the one with the lowest position does.
func order(ns []node) []group {
	of, n := components(ns)
	groups := make([]group, n)
	out := make([][]int32, n)
	waits := make([]int32, n)
	for i, x := range ns {
		c := of[i]
		groups[c].positions = append(groups[c].positions, x.positions...)
		for _, y := range x.out {
			if of[y] != c {
				out[c] = append(out[c], of[y])
				waits[of[y]]++
			}
		}
	}
	var sorted []group
	ready := &queue{groups: groups}
	for c := range groups {
		if waits[c] == 0 {
			ready.push(int32(c))
		}
	}
	for ready.Len() > 0 {
		c := heap.Pop(ready).(int32)
		if len(groups[c].positions) > 0 { // a meeting point has none
			sorted = append(sorted, groups[c])
		}
		for _, to := range out[c] {
			if waits[to]--; waits[to] == 0 {
				ready.push(to)
			}
		}
	}
	return sorted
}

// queue hands out the group with the lowest position; meeting points, which have none, come at once.
type queue struct {
	groups []group
	ids    []int32
}

func (q *queue) lowest(i int) int32 {
	if p := q.groups[q.ids[i]].positions; len(p) > 0 {
		return p[0]
	}
	return -1
}

func (q *queue) Len() int           { return len(q.ids) }
func (q *queue) Less(i, j int) bool { return q.lowest(i) < q.lowest(j) }
func (q *queue) Swap(i, j int)      { q.ids[i], q.ids[j] = q.ids[j], q.ids[i] }
func (q *queue) Push(x any)         { q.ids = append(q.ids, x.(int32)) }
func (q *queue) Pop() any {
	last := q.ids[len(q.ids)-1]
	q.ids = q.ids[:len(q.ids)-1]
	return last
}

func (q *queue) push(c int32) {
	slices.Sort(q.groups[c].positions)
	heap.Push(q, c)
}

// components numbers the strongly connected components (Tarjan 1972, without recursion: a chain of ten thousand regions
// must not need a stack of that depth).
func components(ns []node) (of []int32, count int32) {
	t := &tarjan{ns: ns, of: make([]int32, len(ns)), index: make([]int32, len(ns)), low: make([]int32, len(ns)), next: make([]int32, len(ns))}
	for i := range t.of {
		t.of[i] = -1
	}
	for i := range ns {
		if t.index[i] == 0 {
			t.visit(int32(i))
		}
	}
	return t.of, t.count
}

type tarjan struct {
	ns         []node
	of         []int32
	index, low []int32 // from 1; 0: not seen
	next       []int32 // edge to look at next
	stack      []int32 // nodes without a component yet
	path       []int32 // from the root to the node at work
	seen       int32
	count      int32
}

func (t *tarjan) enter(i int32) {
	t.seen++
	t.index[i], t.low[i] = t.seen, t.seen
	t.stack = append(t.stack, i)
	t.path = append(t.path, i)
}

func (t *tarjan) visit(root int32) {
	t.enter(root)
	for len(t.path) > 0 {
		i := t.path[len(t.path)-1]
		if int(t.next[i]) < len(t.ns[i].out) {
			j := t.ns[i].out[t.next[i]]
			t.next[i]++
			switch {
			case t.index[j] == 0:
				t.enter(j)
			case t.of[j] < 0:
				t.low[i] = min(t.low[i], t.index[j])
			}
			continue
		}
		t.leave(i)
	}
}

// leave closes a component at its root and tells the node above what was reached.
func (t *tarjan) leave(i int32) {
	t.path = t.path[:len(t.path)-1]
	if t.low[i] == t.index[i] {
		for {
			j := t.stack[len(t.stack)-1]
			t.stack = t.stack[:len(t.stack)-1]
			t.of[j] = t.count
			if j == i {
				break
			}
		}
		t.count++
	}
	if len(t.path) > 0 {
		up := t.path[len(t.path)-1]
		t.low[up] = min(t.low[up], t.low[i])
	}
}
