package state

import "math/bits"

// pageBits is the number of ids of a page of a bitmap, as a power of two.
const pageBits = 12

type page [1 << pageBits / 64]uint64

// bitmap is a set of ids. Pages exist where there are members, so that an empty one costs nothing, whatever the ids.
type bitmap struct {
	pages []*page
}

func (b *bitmap) has(id uint32) bool {
	i := int(id >> pageBits)
	return i < len(b.pages) && b.pages[i] != nil && b.pages[i][id%(1<<pageBits)/64]&(1<<(id%64)) != 0
}

// add reports whether id is new.
func (b *bitmap) add(id uint32) bool {
	i := int(id >> pageBits)
	for i >= len(b.pages) {
		b.pages = append(b.pages, nil)
	}
	if b.pages[i] == nil {
		b.pages[i] = new(page)
	}
	w := &b.pages[i][id%(1<<pageBits)/64]
	old := *w
	*w |= 1 << (id % 64)
	return *w != old
}

func (b *bitmap) remove(id uint32) {
	if b.has(id) {
		b.pages[id>>pageBits][id%(1<<pageBits)/64] &^= 1 << (id % 64)
	}
}

// next is the smallest member that is at least id.
func (b *bitmap) next(id uint32) (uint32, bool) {
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

// merge adds the members of o.
func (b *bitmap) merge(o *bitmap) {
	for i, p := range o.pages {
		switch {
		case p == nil:
		case i < len(b.pages) && b.pages[i] != nil:
			for w, x := range p {
				b.pages[i][w] |= x
			}
		default:
			for i >= len(b.pages) {
				b.pages = append(b.pages, nil)
			}
			c := *p
			b.pages[i] = &c
		}
	}
}

func (b *bitmap) bytes() int {
	n := 8 * len(b.pages)
	for _, p := range b.pages {
		if p != nil {
			n += 1 << pageBits / 8
		}
	}
	return n
}

// queue is a set of ids that are handed out one by one. Sets are added as they are, without a look at their members.
type queue struct {
	sets []bitmap
	at   uint32 // members of sets[0] below are handed out
}

func (q *queue) push(b bitmap) {
	if len(b.pages) > 0 {
		q.sets = append(q.sets, b)
	}
}

// add puts one id behind the set that is being handed out.
func (q *queue) add(id uint32) {
	for len(q.sets) < 2 {
		q.sets = append(q.sets, bitmap{})
	}
	q.sets[len(q.sets)-1].add(id)
}

func (q *queue) pop() (id uint32, ok bool) {
	for len(q.sets) > 0 {
		if id, ok = q.sets[0].next(q.at); ok {
			q.at = id + 1
			return id, true
		}
		q.sets, q.at = q.sets[1:], 0
	}
	return 0, false
}

func (q *queue) bytes() int {
	n := 0
	for i := range q.sets {
		n += q.sets[i].bytes()
	}
	return n
}
