package slab

import "unsafe"

const (
	// leafBits bounds a leaf to 1 << leafBits slots, so that growth costs about a millisecond at a time instead of a copy
	// of the whole table.
	leafBits = 16
	// firstSlots is the size of a new index.
	firstSlots = 16
	// maxDepth is the number of hash bits above those that index a leaf: ids are found by the low half of a hash.
	maxDepth = 32 - leafBits
	// firstIDBits is the part of a slot that holds an id, at first; the rest is a tag. It may grow to 31.
	firstIDBits = 24
	// leavesAtOnce is how many full leaves lie in one piece of memory, so that huge pages can hold them.
	leavesAtOnce = 16
	leafBytes    = 4 << leafBits
)

// tagShift says which bits of a hash may be in a tag: those below the ones that choose the key group, which all ids of
// one subtask may share.
const tagShift = 24

// Index finds ids by a hash: extendible hashing over open-addressing leaves. It holds no keys, only eight bits of the
// hash beside each id; who looks something up compares the key behind each id that Find proposes:
//
//	l, i := x.Head(h), h
//	for id, ok := l.Find(h, &i); ok; id, ok = l.Find(h, &i) {
//
// Rejected: one big table (doubling it at ten million keys stops the subtask for a third of a second); entries inside
// the table (they would move when it grows, and with them what columns, dirty sets and pre-images call them); eight
// bytes a slot (twice the cache lines and pages that a lookup misses).
type Index struct {
	base   unsafe.Pointer // of heads: a lookup checks no bounds
	heads  []Head         // of leaves, at hand: a lookup has one pointer less to follow
	leaves []*leaf        // by the hash bits from leafBits up; neighbours may be the same leaf
	top    uint64         // len(leaves) - 1
	// hashOf is the hash of an id, for growing; the low half is enough.
	hashOf func(id uint32) uint64
	meter  *Meter
	spare  [][]uint32 // full leaves that nobody uses
}

// Head is what a lookup needs of a leaf.
type Head struct {
	Slots unsafe.Pointer // to Mask + 1 slots of 32 bits: the tag in the high bits, id + 1 in the low ones; 0 is empty
	Mask  uint32
	Tags  uint32 // mask of the tag in a slot
}

// Slot is slot i of the leaf.
func (l *Head) Slot(i uint64) *uint32 {
	return (*uint32)(unsafe.Add(l.Slots, uintptr(uint32(i)&l.Mask)*4))
}

// Tag is what a hash leaves in a slot.
func (l *Head) Tag(h uint64) uint32 { return uint32(h>>tagShift) & l.Tags }

// leaf is one open-addressing table with linear probing.
type leaf struct {
	Head
	slots []uint32
	used  int
	depth uint // all ids agree in that many hash bits above leafBits
}

// NewIndex makes an empty index.
func NewIndex(m *Meter, hashOf func(id uint32) uint64) Index {
	x := Index{hashOf: hashOf, meter: m}
	l := x.newLeaf(firstSlots, 0, tagMask(firstIDBits))
	x.heads, x.leaves = []Head{l.Head}, []*leaf{l}
	x.rebase()
	return x
}

func tagMask(idBits uint) uint32 { return ^uint32(0) << idBits }

func (x *Index) newLeaf(slots int, depth uint, tags uint32) *leaf {
	s := x.slots(slots)
	x.meter.Add(4 * slots)
	return &leaf{Head: Head{unsafe.Pointer(unsafe.SliceData(s)), uint32(slots - 1), tags}, slots: s, depth: depth}
}

func (x *Index) slots(n int) []uint32 {
	if n != 1<<leafBits { // larger ones are those that cannot be split
		return make([]uint32, n)
	}
	if len(x.spare) == 0 {
		count := min(leavesAtOnce, max(1, len(x.leaves)/2))
		piece := make([]uint32, count<<leafBits)
		adviseHuge(unsafe.Pointer(unsafe.SliceData(piece)), count*leafBytes)
		for i := range count {
			x.spare = append(x.spare, piece[i<<leafBits:(i+1)<<leafBits:(i+1)<<leafBits])
		}
		x.meter.Add(count * leafBytes)
	}
	s := x.spare[len(x.spare)-1]
	x.spare = x.spare[:len(x.spare)-1]
	x.meter.Add(-leafBytes)
	return s
}

func (x *Index) rebase() { x.base = unsafe.Pointer(unsafe.SliceData(x.heads)) }

// drop takes a leaf's memory back.
func (x *Index) drop(l *leaf) {
	x.meter.Add(-4 * len(l.slots))
	if len(l.slots) == 1<<leafBits {
		clear(l.slots)
		x.spare = append(x.spare, l.slots)
		x.meter.Add(leafBytes)
	}
}

// Reserve makes room for n ids in an empty index, which then does not have to grow.
func (x *Index) Reserve(n int) {
	depth := uint(0)
	for depth < maxDepth && n>>depth > 1<<leafBits/2 {
		depth++
	}
	slots := firstSlots
	for slots < 1<<leafBits && slots*5 < (n>>depth)*8 { // with room for uneven hashes
		slots *= 2
	}
	x.drop(x.leaves[0])
	x.leaves, x.heads, x.top = make([]*leaf, 0, 1<<depth), nil, 1<<depth-1
	for range 1 << depth {
		l := x.newLeaf(slots, depth, tagMask(firstIDBits))
		x.leaves, x.heads = append(x.leaves, l), append(x.heads, l.Head)
	}
	x.rebase()
}

func (x *Index) leaf(h uint64) *leaf { return x.leaves[h>>leafBits&x.top] }

// Head is the leaf of a hash.
func (x *Index) Head(h uint64) *Head {
	return (*Head)(unsafe.Add(x.base, uintptr(h>>leafBits&x.top)*unsafe.Sizeof(Head{})))
}

// Find is the next id from slot *at on whose tag is that of h. *at is the hash at first, and moves on.
func (l *Head) Find(h uint64, at *uint64) (id uint32, ok bool) {
	tag := l.Tag(h)
	for i := *at; ; i++ {
		s := *l.Slot(i)
		if s == 0 {
			return 0, false
		}
		if (s^tag)&l.Tags == 0 {
			*at = i + 1
			return s&^l.Tags - 1, true
		}
	}
}

// Insert adds id, which is not there.
func (x *Index) Insert(h uint64, id uint32) {
	l := x.leaf(h)
	for (l.used+1)*4 > len(l.slots)*3 {
		x.grow(l, h)
		l = x.leaf(h)
	}
	for id+1 > ^l.Tags {
		l.widen()
		x.replace(l, h, func(uint64) *leaf { return l })
	}
	l.put(h, id)
}

func (l *leaf) put(h uint64, id uint32) {
	i := h
	for *l.Slot(i) != 0 {
		i++
	}
	*l.Slot(i) = l.Tag(h) | (id + 1)
	l.used++
}

// widen gives ids one bit of the tags.
func (l *leaf) widen() {
	old := l.Tags
	l.Tags <<= 1
	for i, s := range l.slots {
		l.slots[i] = s&l.Tags | s&^old
	}
}

// each calls f for every id.
func (l *leaf) each(f func(id uint32)) {
	for _, s := range l.slots {
		if s != 0 {
			f(s&^l.Tags - 1)
		}
	}
}

// grow makes room in the leaf of hash h: by doubling while it is small, then by splitting it.
func (x *Index) grow(l *leaf, h uint64) {
	if len(l.slots) < 1<<leafBits || l.depth == maxDepth {
		bigger := x.newLeaf(2*len(l.slots), l.depth, l.Tags)
		l.each(func(id uint32) { bigger.put(x.hashOf(id), id) })
		x.replace(l, h, func(uint64) *leaf { return bigger })
		x.drop(l)
		return
	}
	if 1<<l.depth == len(x.leaves) {
		x.leaves, x.heads = append(x.leaves, x.leaves...), append(x.heads, x.heads...)
		x.top = uint64(len(x.leaves) - 1)
		x.rebase()
	}
	halves := [2]*leaf{x.newLeaf(len(l.slots), l.depth+1, l.Tags), x.newLeaf(len(l.slots), l.depth+1, l.Tags)}
	bit := leafBits + l.depth
	l.each(func(id uint32) {
		h := x.hashOf(id)
		halves[h>>bit&1].put(h, id)
	})
	x.replace(l, h, func(i uint64) *leaf { return halves[i>>l.depth&1] })
	x.drop(l)
}

// replace puts the leaf by(i) at every place i of l, which is the leaf of hash h.
func (x *Index) replace(l *leaf, h uint64, by func(i uint64) *leaf) {
	step := uint64(1) << l.depth
	for i := h >> leafBits & (step - 1); i <= x.top; i += step {
		x.leaves[i] = by(i)
		x.heads[i] = x.leaves[i].Head
	}
}

// Remove takes out id, which is there, and closes the gap: entries behind it move towards their place.
func (x *Index) Remove(h uint64, id uint32) {
	l := x.leaf(h)
	mask := uint64(l.Mask)
	i := h & mask
	for l.slots[i]&^l.Tags != id+1 {
		i = (i + 1) & mask
	}
	for j := (i + 1) & mask; l.slots[j] != 0; j = (j + 1) & mask {
		home := x.hashOf(l.slots[j]&^l.Tags-1) & mask
		if (j-home)&mask >= (j-i)&mask { // the gap lies between home and j
			l.slots[i] = l.slots[j]
			i = j
		}
	}
	l.slots[i] = 0
	l.used--
}

// Len is the number of ids.
func (x *Index) Len() (n int) {
	for i, l := range x.leaves {
		if i>>l.depth == 0 { // the first place of l
			n += l.used
		}
	}
	return n
}
