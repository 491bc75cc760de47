package table

import "unsafe"

// Table maps keys of type K to values of type V.
type Table[K comparable, V any] struct {
	slots []slot[K, V]
	used  int
	size  *int64
}

type slot[K comparable, V any] struct {
	tag uint64 // hash with occupied set; 0: free
	key K
	val V
}

// occupied is the highest bit of a hash: it takes part in choosing the key group, not the slot.
const occupied = 1 << 63

const minSlots = 16

// New makes an empty table. Its size in bytes is added to *size, and kept up to date there until Release.
func New[K comparable, V any](size *int64) *Table[K, V] {
	t := &Table[K, V]{slots: make([]slot[K, V], minSlots), size: size}
	*size += t.bytes()
	return t
}

// Find is the value of k, whose hash is h; fresh says that k is new and the value zero. The pointer is valid until the
// next call of Find or Clear.
func (t *Table[K, V]) Find(k K, h uint64) (v *V, fresh bool) {
	tag, mask := h|occupied, uint64(len(t.slots)-1)
	for i := h & mask; ; i = (i + 1) & mask {
		s := &t.slots[i]
		if s.tag == tag && s.key == k {
			return &s.val, false
		}
		if s.tag == 0 {
			return t.insert(k, h, i), true
		}
	}
}

// Lookup is the value of k, whose hash is h, or nil. The pointer is valid until the next call of Find or Clear.
func (t *Table[K, V]) Lookup(k K, h uint64) *V {
	tag, mask := h|occupied, uint64(len(t.slots)-1)
	for i := h & mask; ; i = (i + 1) & mask {
		s := &t.slots[i]
		if s.tag == tag && s.key == k {
			return &s.val
		}
		if s.tag == 0 {
			return nil
		}
	}
}

// insert takes the free slot i, or another one in a larger table.
func (t *Table[K, V]) insert(k K, h, i uint64) *V {
	if t.used >= len(t.slots)/4*3 {
		t.grow()
		mask := uint64(len(t.slots) - 1)
		for i = h & mask; t.slots[i].tag != 0; i = (i + 1) & mask {
		}
	}
	t.used++
	s := &t.slots[i]
	s.tag, s.key = h|occupied, k
	return &s.val
}

func (t *Table[K, V]) grow() {
	old := t.slots
	*t.size += t.bytes() // as much again
	t.slots = make([]slot[K, V], 2*len(old))
	mask := uint64(len(t.slots) - 1)
	for i := range old {
		if old[i].tag == 0 {
			continue
		}
		j := old[i].tag & mask
		for t.slots[j].tag != 0 {
			j = (j + 1) & mask
		}
		t.slots[j] = old[i]
	}
}

// Len is the number of keys.
func (t *Table[K, V]) Len() int { return t.used }

// Each calls f for every key, in an order that the hashes decide, until f returns an error. f must not call Find or Clear.
func (t *Table[K, V]) Each(f func(k K, v *V) error) error {
	for i := range t.slots {
		if s := &t.slots[i]; s.tag != 0 {
			if err := f(s.key, &s.val); err != nil {
				return err
			}
		}
	}
	return nil
}

// Clear forgets every key and keeps the memory, except that of a table which was mostly empty: then it was made for
// a larger task than the last one.
func (t *Table[K, V]) Clear() {
	if len(t.slots) > 8*max(t.used, minSlots) {
		*t.size -= t.bytes()
		t.slots = make([]slot[K, V], minSlots)
		*t.size += t.bytes()
	} else {
		clear(t.slots)
	}
	t.used = 0
}

// Release gives the memory back. The table must not be used afterwards.
func (t *Table[K, V]) Release() {
	*t.size -= t.bytes()
	t.slots, t.used = nil, 0
}

// bytes is the memory of the slots; what keys and values point to is not counted.
func (t *Table[K, V]) bytes() int64 {
	return int64(len(t.slots)) * int64(unsafe.Sizeof(slot[K, V]{}))
}
