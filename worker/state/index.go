package state

const (
	// leafBits bounds a leaf to 2^leafBits slots, so that growth costs about a millisecond at a time instead of a copy
	// of the whole table.
	leafBits = 16
	// firstSlots is the size of a new index.
	firstSlots = 16
	// maxDepth is the number of hash bits above those that index a leaf: ids are found by the low half of a hash.
	maxDepth = 32 - leafBits
	// firstIDBits is the part of a slot that holds an id, at first; the rest is a tag. It may grow to 31.
	firstIDBits = 24
)

// index finds ids by a hash: extendible hashing over open-addressing leaves. It holds no keys, only eight bits of the
// hash beside each id; who looks something up compares the key behind each id that find proposes:
//
//	l, i := x.head(h), h
//	for id, ok := l.find(h, &i); ok; id, ok = l.find(h, &i) {
//
// Rejected: one big table (doubling it at ten million keys stops the subtask for a third of a second); entries inside
// the table (they would move when it grows, and with them what columns, dirty sets and pre-images call them); eight
// bytes a slot (twice the cache lines and pages that a lookup misses).
type index struct {
	heads  []head  // of leaves, at hand: a lookup has one pointer less to follow
	leaves []*leaf // by the hash bits from leafBits up; neighbours may be the same leaf
	top    uint64  // len(leaves) - 1
	// hashOf is the hash of an id, for growing; the low half is enough.
	hashOf func(id uint32) uint64
}

// head is what a lookup needs of a leaf. A slot holds bits 32 and up of the hash above id + 1; 0 is empty.
type head struct {
	slots  []uint32 // a power of two
	idBits uint     // of a slot
}

// leaf is one open-addressing table with linear probing.
type leaf struct {
	head
	mask  uint64
	used  int
	depth uint // all ids agree in that many hash bits above leafBits
}

func newLeaf(slots int, like *leaf) *leaf {
	return &leaf{head: head{make([]uint32, slots), like.idBits}, mask: uint64(slots - 1), depth: like.depth}
}

func newIndex(hashOf func(id uint32) uint64) index {
	first := newLeaf(firstSlots, &leaf{head: head{idBits: firstIDBits}})
	return index{heads: []head{first.head}, leaves: []*leaf{first}, hashOf: hashOf}
}

// reserve makes room for n ids in an empty index, which then does not have to grow.
func (x *index) reserve(n int) {
	depth := uint(0)
	for depth < maxDepth && n>>depth > 1<<leafBits/2 {
		depth++
	}
	slots := firstSlots
	for slots < 1<<leafBits && slots*5 < (n>>depth)*8 { // with room for uneven hashes
		slots *= 2
	}
	x.leaves, x.heads, x.top = nil, nil, 1<<depth-1
	for range 1 << depth {
		l := newLeaf(slots, &leaf{head: head{idBits: firstIDBits}, depth: depth})
		x.leaves, x.heads = append(x.leaves, l), append(x.heads, l.head)
	}
}

func (x *index) leaf(h uint64) *leaf { return x.leaves[h>>leafBits&x.top] }

func (x *index) head(h uint64) *head { return &x.heads[h>>leafBits&x.top] }

// find is the next id from slot *at on whose tag is that of h. *at is the hash at first, and moves on.
func (l *head) find(h uint64, at *uint64) (id uint32, ok bool) {
	slots, idBits := l.slots, l.idBits&31
	mask, tag := uint64(len(slots)-1), uint32(h>>32)<<idBits
	for i := *at & mask; ; i = (i + 1) & mask {
		s := slots[i&mask]
		if s == 0 {
			return 0, false
		}
		if (s^tag)>>idBits == 0 {
			*at = i + 1
			return s&(1<<idBits-1) - 1, true
		}
	}
}

// insert adds id, which is not there.
func (x *index) insert(h uint64, id uint32) {
	l := x.leaf(h)
	for (l.used+1)*4 > len(l.slots)*3 {
		x.grow(l, h)
		l = x.leaf(h)
	}
	for uint64(id)+1 >= 1<<l.idBits {
		l.widen()
		x.replace(l, h, func(uint64) *leaf { return l })
	}
	l.put(h, id)
}

func (l *leaf) put(h uint64, id uint32) {
	i := h & l.mask
	for l.slots[i] != 0 {
		i = (i + 1) & l.mask
	}
	l.slots[i] = uint32(h>>32)<<l.idBits | (id + 1)
	l.used++
}

// widen gives ids one bit of the tags.
func (l *leaf) widen() {
	for i, s := range l.slots {
		if s != 0 {
			id := s & (1<<l.idBits - 1)
			l.slots[i] = s>>l.idBits<<(l.idBits+1) | id
		}
	}
	l.idBits++
}

// each calls f for every id.
func (l *leaf) each(f func(id uint32)) {
	for _, s := range l.slots {
		if s != 0 {
			f(s&(1<<l.idBits-1) - 1)
		}
	}
}

// grow makes room in the leaf of hash h: by doubling while it is small, then by splitting it.
func (x *index) grow(l *leaf, h uint64) {
	if len(l.slots) < 1<<leafBits || l.depth == maxDepth {
		bigger := newLeaf(2*len(l.slots), l)
		l.each(func(id uint32) { bigger.put(x.hashOf(id), id) })
		x.replace(l, h, func(uint64) *leaf { return bigger })
		return
	}
	if 1<<l.depth == len(x.leaves) {
		x.leaves, x.heads = append(x.leaves, x.leaves...), append(x.heads, x.heads...)
		x.top = uint64(len(x.leaves) - 1)
	}
	halves := [2]*leaf{newLeaf(len(l.slots), l), newLeaf(len(l.slots), l)}
	halves[0].depth++
	halves[1].depth++
	bit := leafBits + l.depth
	l.each(func(id uint32) {
		h := x.hashOf(id)
		halves[h>>bit&1].put(h, id)
	})
	x.replace(l, h, func(i uint64) *leaf { return halves[i>>l.depth&1] })
}

// replace puts the leaf by(i) at every place i of l, which is the leaf of hash h.
func (x *index) replace(l *leaf, h uint64, by func(i uint64) *leaf) {
	step := uint64(1) << l.depth
	for i := h >> leafBits & (step - 1); i <= x.top; i += step {
		x.leaves[i] = by(i)
		x.heads[i] = x.leaves[i].head
	}
}

// remove takes out id, which is there, and closes the gap: entries behind it move towards their place.
func (x *index) remove(h uint64, id uint32) {
	l := x.leaf(h)
	i := h & l.mask
	for l.slots[i]&(1<<l.idBits-1) != id+1 {
		i = (i + 1) & l.mask
	}
	for j := (i + 1) & l.mask; l.slots[j] != 0; j = (j + 1) & l.mask {
		home := x.hashOf(l.slots[j]&(1<<l.idBits-1)-1) & l.mask
		if (j-home)&l.mask >= (j-i)&l.mask { // the gap lies between home and j
			l.slots[i] = l.slots[j]
			i = j
		}
	}
	l.slots[i] = 0
	l.used--
}

// bytes is the size of the index in memory.
func (x *index) bytes() int {
	n := (8 + 32) * len(x.leaves)
	for i, l := range x.leaves {
		if i>>l.depth == 0 { // the first place of l
			n += 4 * len(l.slots)
		}
	}
	return n
}
