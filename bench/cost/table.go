package cost

import "math/bits"

// Table maps integers above 0 to values by open addressing. The zero value is of no use: see NewTable.
type Table[V any] struct {
	slots []slot[V]
	shift uint8
	used  int
}

type slot[V any] struct {
	k uint64 // 0: free
	v V
}

// NewTable makes an empty table with room for so many keys at first.
func NewTable[V any](room int) *Table[V] {
	size := 1 << bits.Len(uint(max(8, room*4/3)))
	return &Table[V]{slots: make([]slot[V], size), shift: uint8(64 - bits.Len(uint(size-1)))}
}

func (t *Table[V]) home(k uint64) uint64 { return k * 0x9E3779B97F4A7C15 >> t.shift }

// Find is the value of k; nil: there is none. It is good until the next At.
func (t *Table[V]) Find(k uint64) *V {
	mask := uint64(len(t.slots) - 1)
	for i := t.home(k); ; i++ {
		s := &t.slots[i&mask]
		if s.k == k {
			return &s.v
		}
		if s.k == 0 {
			return nil
		}
	}
}

// At is the value of k, the zero value at first. It is good until the next At.
func (t *Table[V]) At(k uint64) *V {
	mask := uint64(len(t.slots) - 1)
	for i := t.home(k); ; i++ {
		s := &t.slots[i&mask]
		if s.k == k {
			return &s.v
		}
		if s.k == 0 {
			return t.insert(k, s)
		}
	}
}

func (t *Table[V]) insert(k uint64, s *slot[V]) *V {
	if t.Full() {
		t.Keep(func(*V) bool { return true })
		return t.At(k)
	}
	t.used++
	s.k = k
	return &s.v
}

// Full reports whether the next new key makes the table grow.
func (t *Table[V]) Full() bool { return t.used >= len(t.slots)/4*3 }

// Keep leaves out the values that keep does not want, and makes room for as many again as are left.
func (t *Table[V]) Keep(keep func(*V) bool) {
	old, left := t.slots, 0
	for i := range old {
		if old[i].k != 0 && keep(&old[i].v) {
			left++
		} else {
			old[i].k = 0
		}
	}
	*t = *NewTable[V](2 * left)
	mask := uint64(len(t.slots) - 1)
	for i := range old {
		if old[i].k == 0 {
			continue
		}
		j := t.home(old[i].k)
		for t.slots[j&mask].k != 0 {
			j++
		}
		t.slots[j&mask] = old[i]
	}
	t.used = left
}

// Each calls f with every key.
func (t *Table[V]) Each(f func(k uint64, v *V)) {
	for i := range t.slots {
		if t.slots[i].k != 0 {
			f(t.slots[i].k, &t.slots[i].v)
		}
	}
}

// Clear takes out everything and keeps the memory.
func (t *Table[V]) Clear() {
	clear(t.slots)
	t.used = 0
}
