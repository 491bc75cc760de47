package slab

import "github.com/sluiceio/sluice/worker/spill"

// Index finds rows by 32 bits of the hash of their key: open addressing, the place of a hash is its share of the slots. A
// slot holds the hash and the number of a row, so that rows are looked at only where the hash agrees, and never when the
// index grows.
type Index struct {
	slots  []uint64 // hash<<32 | row+1; 0: free
	used   int
	budget *spill.Budget
}

// MakeIndex makes an index without slots.
func MakeIndex(b *spill.Budget) Index { return Index{budget: b} }

// SlotBytes is the memory per row of an index that was made by Reserve; a slot more may be needed in all.
const SlotBytes = 12

// slotsFor keeps a third of the slots free.
func slotsFor(n int) int { return n + n/2 + 1 }

// Reserve makes room for n rows at once, whatever the budget says: the caller has kept SlotBytes per row free.
func (x *Index) Reserve(n int) {
	if n = slotsFor(n); n > len(x.slots) {
		x.budget.Force(8 * int64(n))
		x.resize(n)
	}
}

// resize moves the entries to n slots, whose memory was taken.
func (x *Index) resize(n int) {
	old := x.slots
	x.slots = make([]uint64, n)
	for _, s := range old {
		if s != 0 {
			x.put(s)
		}
	}
	x.budget.Give(8 * int64(len(old)))
}

func (x *Index) put(s uint64) {
	i := int(s >> 32 * uint64(len(x.slots)) >> 32)
	for x.slots[i] != 0 {
		if i++; i == len(x.slots) {
			i = 0
		}
	}
	x.slots[i] = s
}

// minSlots is the size of the smallest index.
const minSlots = 16

// Full reports that one more row needs Grow.
func (x *Index) Full() bool { return x.used+1 > len(x.slots)/4*3 }

// Grow makes room for more rows. false: the budget does not allow it.
func (x *Index) Grow() bool {
	n := max(minSlots, 2*len(x.slots))
	if !x.budget.Take(8 * int64(n)) {
		return false
	}
	x.resize(n)
	return true
}

// Walk is the search for a hash.
type Walk struct{ i int }

// Find is the first row with this hash. ok is false if there is none. There must be slots.
func (x *Index) Find(hash uint32) (w Walk, row uint32, ok bool) {
	w.i = int(uint64(hash) * uint64(len(x.slots)) >> 32)
	return x.look(w, hash)
}

// Next is the next row with this hash behind that of w.
func (x *Index) Next(w Walk, hash uint32) (Walk, uint32, bool) {
	if w.i++; w.i == len(x.slots) {
		w.i = 0
	}
	return x.look(w, hash)
}

func (x *Index) look(w Walk, hash uint32) (Walk, uint32, bool) {
	slots := x.slots
	for i := w.i; i < len(slots); {
		switch s := slots[i]; {
		case s == 0:
			return Walk{i}, 0, false
		case uint32(s>>32) == hash:
			return Walk{i}, uint32(s) - 1, true
		}
		if i++; i == len(slots) {
			i = 0
		}
	}
	return w, 0, false
}

// Gap is where a row with this hash can be inserted that is not in the index. Without slots it means nothing.
func (x *Index) Gap(hash uint32) (w Walk) {
	if len(x.slots) == 0 {
		return w
	}
	w, _, ok := x.Find(hash)
	for ok {
		w, _, ok = x.Next(w, hash)
	}
	return w
}

// Insert adds a row at w, where Find or Next has found nothing more. There must be room: reserved, or not Full.
func (x *Index) Insert(w Walk, hash uint32, row uint32) {
	x.slots[w.i] = uint64(hash)<<32 | uint64(row) + 1
	x.used++
}

// Replace lets the slot at w lead to another row of the same hash.
func (x *Index) Replace(w Walk, hash uint32, row uint32) {
	x.slots[w.i] = uint64(hash)<<32 | uint64(row) + 1
}

// Len is the number of slots; 0: Find may not be called.
func (x *Index) Len() int { return len(x.slots) }

// Release gives the memory back.
func (x *Index) Release() {
	x.budget.Give(8 * int64(len(x.slots)))
	x.slots, x.used = nil, 0
}
