package unkeyed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/snapshot/chunk"
	"github.com/sluiceio/sluice/worker/state"
)

// Groups is the half-open range of the key groups of a subtask.
type Groups struct{ First, End int }

// Slot is the place of an element: where it belongs, and its number among the elements there.
type Slot struct {
	Group uint16
	N     uint64
}

// KeyGroup tells the directory where the element belongs.
func (s Slot) KeyGroup() int { return int(s.Group) }

// elements is a list in the order of adding.
type elements[T any] struct {
	*state.Directory[Slot]
	value *state.Value[T]
	own   Groups
	next  uint64 // number of the next element
}

var errNoGroups = errors.New("a subtask without key groups")

func newElements[T any](o state.Options, own Groups, scope chunk.Scope) (*elements[T], error) {
	if own.First < 0 || own.First >= own.End || own.End > o.MaxParallelism {
		return nil, fmt.Errorf("%w: [%d, %d) of %d", errNoGroups, own.First, own.End, o.MaxParallelism)
	}
	o.Scope, o.Budget, o.Overflow = scope, nil, nil
	d, err := state.NewDirectory[Slot](o)
	if err != nil {
		return nil, err
	}
	v, err := state.ValueOf[T](d, "element")
	if err != nil {
		return nil, err
	}
	return &elements[T]{Directory: d, value: v, own: own}, nil
}

// Add adds elements at the end.
func (l *elements[T]) Add(vs ...T) {
	for _, v := range vs {
		width := uint64(l.own.End - l.own.First)
		s := Slot{uint16(uint64(l.own.First) + l.next%width), l.next}
		l.next++
		l.Seek(s, l.Hash(s))
		l.value.Set(v)
	}
}

// Clear removes all own elements.
func (l *elements[T]) Clear() {
	// Clearing only fails with the directory, whose error stays there.
	_ = l.Each(func(Slot) error {
		l.value.Clear()
		return nil
	})
}

// Own yields the elements of this subtask, in the order of adding.
func (l *elements[T]) Own() iter.Seq[T] {
	return func(yield func(T) bool) {
		var slots []Slot
		_ = l.Each(func(s Slot) error { // as in Clear
			slots = append(slots, s)
			return nil
		})
		slices.SortFunc(slots, func(a, b Slot) int { return cmp.Or(cmp.Compare(a.N, b.N), cmp.Compare(a.Group, b.Group)) })
		for _, s := range slots {
			l.Seek(s, l.Hash(s))
			if v, ok := l.value.Load(); ok && !yield(v) {
				return
			}
		}
	}
}

// count moves the number of the next element behind all that are there.
func (l *elements[T]) count() error {
	return l.Each(func(s Slot) error {
		l.next = max(l.next, s.N+1)
		return nil
	})
}

// Import takes the elements of the subtask's key groups, whatever the range says.
func (l *elements[T]) Import(ctx context.Context, chain []*chunk.Reader, _, _ int) error {
	if err := l.Directory.Import(ctx, chain, l.own.First, l.own.End); err != nil {
		return err
	}
	return l.count()
}

// List is a list whose elements are redistributed: after a restore at another parallelism each belongs to some subtask.
type List[T any] struct{ *elements[T] }

// NewList makes an empty list of the subtask that owns these key groups.
func NewList[T any](o state.Options, own Groups) (List[T], error) {
	l, err := newElements[T](o, own, chunk.Redistributed)
	return List[T]{l}, err
}

// All yields the elements in the order of adding.
func (l List[T]) All() iter.Seq[T] { return l.Own() }

// Union is a list of which every subtask has its own part, and reads all parts as they were at the restore.
type Union[T any] struct {
	*elements[T]
	others []T
}

// NewUnion makes an empty part of the subtask that owns these key groups.
func NewUnion[T any](o state.Options, own Groups) (*Union[T], error) {
	l, err := newElements[T](o, own, chunk.Union)
	return &Union[T]{elements: l}, err
}

// All yields the elements that other subtasks had at the restore, and then the own ones.
func (l *Union[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, v := range l.others {
			if !yield(v) {
				return
			}
		}
		l.Own()(yield)
	}
}

// Import takes the own part from the key groups of the subtask, and reads the rest.
func (l *Union[T]) Import(ctx context.Context, chain []*chunk.Reader, first, end int) error {
	if err := l.elements.Import(ctx, chain, first, end); err != nil {
		return err
	}
	o := l.Options()
	o.Checkpoints = false
	all, err := newElements[T](o, Groups{0, o.MaxParallelism}, chunk.Union)
	if err != nil {
		return err
	}
	for _, r := range []Groups{{0, l.own.First}, {l.own.End, o.MaxParallelism}} {
		if err := all.Directory.Import(ctx, chain, r.First, r.End); err != nil {
			return err
		}
	}
	l.others = slices.Collect(all.Own())
	return all.Close()
}

// place is a key of a broadcast: they all belong to subtask 0.
type place[K comparable] struct{ Key K }

// KeyGroup is that of subtask 0.
func (place[K]) KeyGroup() int { return 0 }

// Broadcast is a map that is the same in every subtask.
type Broadcast[K comparable, V any] struct {
	*state.Directory[place[K]]
	value *state.Value[V]
}

// NewBroadcast makes an empty map. Only the snapshots of subtask 0 have entries.
func NewBroadcast[K comparable, V any](o state.Options, subtask int) (*Broadcast[K, V], error) {
	if _, err := codec.Hasher[K](); err != nil {
		return nil, err
	}
	o.Scope, o.Budget, o.Overflow, o.Silent = chunk.Broadcast, nil, nil, subtask != 0
	d, err := state.NewDirectory[place[K]](o)
	if err != nil {
		return nil, err
	}
	v, err := state.ValueOf[V](d, "value")
	return &Broadcast[K, V]{d, v}, err
}

func (b *Broadcast[K, V]) at(k K) *state.Value[V] {
	p := place[K]{k}
	b.Seek(p, b.Hash(p))
	return b.value
}

// Get is the value of k and whether there is one.
func (b *Broadcast[K, V]) Get(k K) (V, bool) { return b.at(k).Load() }

// Put sets the value of k.
func (b *Broadcast[K, V]) Put(k K, v V) { b.at(k).Set(v) }

// Delete removes k.
func (b *Broadcast[K, V]) Delete(k K) { b.at(k).Clear() }

// All yields the entries in no particular order. The loop may delete the current one.
func (b *Broadcast[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		_ = b.Each(func(p place[K]) error { // fails with the directory, whose error stays there
			if !yield(p.Key, b.value.Get()) {
				return errStop
			}
			return nil
		})
	}
}

var errStop = errors.New("enough")

// Import takes all entries, whatever the range says.
func (b *Broadcast[K, V]) Import(ctx context.Context, chain []*chunk.Reader, _, _ int) error {
	return b.Directory.Import(ctx, chain, 0, 1)
}
