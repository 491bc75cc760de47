package top

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/operator/batch/aggregate"
	"github.com/sluiceio/sluice/worker/operator/batch/sort"
	"github.com/sluiceio/sluice/worker/spill"
	"github.com/sluiceio/sluice/worker/task"
)

// Spec says which records are the first ones.
type Spec[T any] struct {
	N int // 1 or more
	// Compare is negative if a comes before b. Of records that compare equal the one that arrived first comes first.
	Compare func(a, b T) int
	// Registry holds the codecs of the pipeline; nil: none.
	Registry *codec.Registry
}

func (s *Spec[T]) validate() error {
	if s.N < 1 {
		return fmt.Errorf("the first %d records are none", s.N)
	}
	return nil
}

// Overall emits the first N records of the subtask in order when the input has ended, each with its own event time.
func Overall[T any](s Spec[T]) task.StageOf[T, T] {
	return func(rt *task.Runtime, out task.Push[T]) (task.Push[T], task.Operator, error) {
		if err := s.validate(); err != nil {
			return nil, nil, err
		}
		return sort.Sorted(sort.Spec[T, T]{
			Key: func(v T) T { return v }, Order: sort.Order[T]{Compare: s.Compare}, Most: int64(s.N), Registry: s.Registry,
		})(rt, out)
	}
}

// PerKey emits the first N records of each key in order when the input has ended, each with its own event time.
func PerKey[K comparable, T any](key func(T) K, s Spec[T]) task.StageOf[T, T] {
	return func(rt *task.Runtime, out task.Push[T]) (task.Push[T], task.Operator, error) {
		if err := s.validate(); err != nil {
			return nil, nil, err
		}
		c, err := codec.Of[T](s.Registry)
		if err != nil {
			return nil, nil, err
		}
		o := &order[T]{Spec: s, size: spill.SizerOf(c)}
		return aggregate.Open(rt, aggregate.Fold[K, T, Heap[T]]{
			Key: key, Registry: s.Registry, Update: o.update, Size: o.measure,
			Emit: func(_ K, h *Heap[T]) error {
				for _, it := range o.ordered(h) {
					rt.At = it.At
					out(it.Value)
					if err := rt.Stopped(); err != nil {
						return err
					}
				}
				return nil
			},
		})
	}
}

// Heap is what is kept of a key: the last one of its records in order lies in front. It is exported for its codec.
type Heap[T any] struct{ Items []Item[T] }

// Item is a record in a Heap.
type Item[T any] struct {
	Value T
	At    element.Time
	Seq   int64 // of arrival
}

// order is what the heaps of a subtask have in common.
type order[T any] struct {
	Spec[T]
	size *spill.Sizer[T]
	seq  int64 // of the last record
}

// after reports that a comes after b.
func (o *order[T]) after(a, b *Item[T]) bool {
	if c := o.Compare(a.Value, b.Value); c != 0 {
		return c > 0
	}
	return a.Seq > b.Seq
}

// update offers a record to a heap.
func (o *order[T]) update(h *Heap[T], v T, at element.Time, _ bool) (grown int64) {
	o.seq++
	if len(h.Items) < o.N {
		before := cap(h.Items)
		h.Items = append(h.Items, Item[T]{v, at, o.seq})
		last := len(h.Items) - 1
		grown = int64(cap(h.Items)-before)*int64(unsafe.Sizeof(Item[T]{})) + o.extra(&h.Items[last])
		o.up(h.Items, last)
		return grown
	}
	root := &h.Items[0]
	if o.Compare(v, root.Value) >= 0 { // what arrives later comes later
		return 0
	}
	grown = -o.extra(root)
	*root = Item[T]{v, at, o.seq}
	grown += o.extra(root)
	o.down(h.Items)
	return grown
}

func (o *order[T]) extra(it *Item[T]) int64 {
	if o.size.Fixed() {
		return 0
	}
	return o.size.Extra(&it.Value)
}

// measure is the memory of a heap.
func (o *order[T]) measure(h *Heap[T]) int64 {
	n := int64(cap(h.Items)) * int64(unsafe.Sizeof(Item[T]{}))
	for i := range h.Items {
		n += o.extra(&h.Items[i])
	}
	return n
}

func (o *order[T]) up(items []Item[T], i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !o.after(&items[i], &items[parent]) {
			return
		}
		items[i], items[parent] = items[parent], items[i]
		i = parent
	}
}

func (o *order[T]) down(items []Item[T]) {
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(items) {
			return
		}
		if child+1 < len(items) && o.after(&items[child+1], &items[child]) {
			child++
		}
		if !o.after(&items[child], &items[i]) {
			return
		}
		items[i], items[child] = items[child], items[i]
		i = child
	}
}

// ordered sorts the items of a heap, which is none afterwards.
func (o *order[T]) ordered(h *Heap[T]) []Item[T] {
	slices.SortFunc(h.Items, func(a, b Item[T]) int {
		if o.after(&a, &b) {
			return 1
		}
		return -1
	})
	return h.Items
}
