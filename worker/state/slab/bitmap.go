package slab

import "math/bits"

// pageBits is the number of ids of a page of a bitmap, as a power of two.
const pageBits = 12

const pageBytes = 1 << pageBits / 8

type page [1 << pageBits / 64]uint64

// Bitmap is a set of ids. Pages exist where there are members, so that an empty one costs nothing, whatever the ids.
// It counts its pages itself (Bytes): sets are handed from one owner to another.
type Bitmap struct {
	pages []*page
	full  int // pages that exist
}

// Has reports whether id is a member.
func (b *Bitmap) Has(id uint32) bool {
	i := int(id >> pageBits)
	return i < len(b.pages) && b.pages[i] != nil && b.pages[i][id%(1<<pageBits)/64]&(1<<(id%64)) != 0
}

// Add reports whether id is new.
func (b *Bitmap) Add(id uint32) bool {
	i := int(id >> pageBits)
	if i >= len(b.pages) || b.pages[i] == nil {
		b.addPage(i)
	}
	w := &b.pages[i][id%(1<<pageBits)/64]
	old := *w
	*w |= 1 << (id % 64)
	return *w != old
}

func (b *Bitmap) addPage(i int) {
	for i >= len(b.pages) {
		b.pages = append(b.pages, nil)
	}
	b.pages[i] = new(page)
	b.full++
}

// Remove reports whether id was a member.
func (b *Bitmap) Remove(id uint32) bool {
	if !b.Has(id) {
		return false
	}
	b.pages[id>>pageBits][id%(1<<pageBits)/64] &^= 1 << (id % 64)
	return true
}

// Next is the smallest member that is at least id.
func (b *Bitmap) Next(id uint32) (uint32, bool) {
	i, w := int(id>>pageBits), id%(1<<pageBits)/64
	mask := ^uint64(0) << (id % 64)
	for ; i < len(b.pages); i, w, mask = i+1, 0, ^uint64(0) {
		if b.pages[i] == nil {
			continue
		}
		for ; int(w) < len(b.pages[i]); w, mask = w+1, ^uint64(0) {
			if x := b.pages[i][w] & mask; x != 0 {
				return uint32(i)<<pageBits | w*64 | uint32(bits.TrailingZeros64(x)), true
			}
		}
	}
	return 0, false
}

// Merge adds the members of o.
func (b *Bitmap) Merge(o *Bitmap) {
	for i, p := range o.pages {
		if p == nil {
			continue
		}
		if i >= len(b.pages) || b.pages[i] == nil {
			b.addPage(i)
		}
		for w, x := range p {
			b.pages[i][w] |= x
		}
	}
}

// Empty reports that nothing was ever added.
func (b *Bitmap) Empty() bool { return b.full == 0 }

// Bytes is the memory that the set takes.
func (b *Bitmap) Bytes() int { return 8*cap(b.pages) + pageBytes*b.full }

// Queue is a set of ids that are handed out one by one. Sets are added as they are, without a look at their members.
type Queue struct {
	sets []Bitmap
	at   uint32 // members of sets[0] below are handed out
}

// Push adds all members of b, which must not change any more.
func (q *Queue) Push(b Bitmap) {
	if !b.Empty() {
		q.sets = append(q.sets, b)
	}
}

// Add puts one id behind the set that is being handed out.
func (q *Queue) Add(id uint32) {
	for len(q.sets) < 2 {
		q.sets = append(q.sets, Bitmap{})
	}
	q.sets[len(q.sets)-1].Add(id)
}

// Pop hands out the next id.
func (q *Queue) Pop() (id uint32, ok bool) {
	for len(q.sets) > 0 {
		if id, ok = q.sets[0].Next(q.at); ok {
			q.at = id + 1
			return id, true
		}
		q.sets, q.at = q.sets[1:], 0
	}
	return 0, false
}

// Bytes is the memory that the queue takes.
func (q *Queue) Bytes() int {
	n := 0
	for i := range q.sets {
		n += q.sets[i].Bytes()
	}
	return n
}
