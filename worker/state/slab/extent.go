package slab

import (
	"math/bits"
	"reflect"
	"unsafe"
)

const (
	// BlockBits is the largest number of elements of a block, as a power of two.
	BlockBits = 11
	// SmallBits is for slabs that are many and small.
	SmallBits = 6
	// maxExtent is the size at which extents stop to double, in bytes. Several of them make a run of huge pages.
	maxExtent = 4 << 20
	// hugeExtent is the size from which huge pages are asked for, in bytes.
	hugeExtent = 1 << 20
	// maxBlock bounds a block of large elements, in bytes.
	maxBlock = 256 << 10
)

// extents is the memory of a slab: blocks of 1 << bits elements, several of them in one piece of the heap.
type extents struct {
	base   unsafe.Pointer // of blocks: addressing an element checks no bounds
	size   uintptr        // of an element
	bits   uint
	mask   uint32 // 1 << bits - 1
	meter  *Meter
	alloc  func(elements int) unsafe.Pointer
	blocks []unsafe.Pointer // nil: released
	list   []extent
	limit  int // largest extent, in bytes
}

// extent is a run of blocks that are allocated and released together.
type extent struct {
	first, end int // blocks
	live       bool
}

func newExtents(m *Meter, size uintptr, blockBits uint, alloc func(int) unsafe.Pointer) extents {
	for blockBits > 0 && size<<blockBits > maxBlock {
		blockBits--
	}
	return extents{meter: m, size: size, bits: blockBits, mask: 1<<blockBits - 1, alloc: alloc, limit: maxExtent}
}

// at is the address of an element of a block that exists.
func (x *extents) at(id uint32) unsafe.Pointer {
	block := *(*unsafe.Pointer)(unsafe.Add(x.base, uintptr(id>>(x.bits&31))*unsafe.Sizeof(x.base)))
	return unsafe.Add(block, uintptr(id&x.mask)*x.size)
}

// has reports whether the block of the element exists.
func (x *extents) has(id uint32) bool {
	i := int(id >> x.bits)
	return i < len(x.blocks) && x.blocks[i] != nil
}

func (x *extents) blockBytes() int { return max(int(x.size), 1) << x.bits }

// next is the size in bytes of the extent that would be made next.
func (x *extents) next() int {
	n := max(1, len(x.blocks)/2)
	if most := max(1, x.limit/x.blockBytes()); n > most {
		n = most
	}
	return 1 << (bits.Len(uint(n)) - 1) * x.blockBytes()
}

// grow makes an extent behind the last block.
func (x *extents) grow() {
	n := x.next() / x.blockBytes()
	first := len(x.blocks)
	x.blocks = append(x.blocks, make([]unsafe.Pointer, n)...)
	x.base = unsafe.Pointer(unsafe.SliceData(x.blocks))
	x.list = append(x.list, extent{first: first, end: first + n})
	x.revive(len(x.list) - 1)
}

// revive allocates an extent.
func (x *extents) revive(i int) {
	e := &x.list[i]
	e.live = true
	n := e.end - e.first
	p := x.alloc(n << x.bits)
	for b := range n {
		x.blocks[e.first+b] = unsafe.Add(p, b*x.blockBytes())
	}
	x.meter.Add(n * x.blockBytes())
	adviseHuge(p, n*x.blockBytes())
}

// release gives an extent back to the collector.
func (x *extents) release(i int) {
	e := &x.list[i]
	e.live = false
	clear(x.blocks[e.first:e.end])
	x.meter.Add(-(e.end - e.first) * x.blockBytes())
}

// ensure is element id, of a new block if it has to be.
func (x *extents) ensure(id uint32) Place {
	for int(id>>x.bits) >= len(x.blocks) {
		x.grow()
	}
	if !x.has(id) {
		x.revive(x.of(int(id >> x.bits)))
	}
	return x.at(id)
}

// Memory is how the owner of a slab's ids sees its extents.
type Memory interface {
	// Next is the size in bytes of the extent that would be made next, behind all others.
	Next() int
	// Span is how many ids the next extent has room for.
	Span() uint32
	// Extents is the number of extents, released ones included.
	Extents() int
	// Extent is the half-open range of the ids of extent i; live is false if it is released.
	Extent(i int) (first, end uint32, live bool)
	// Release gives an extent back to the collector. Nothing in it may be in use.
	Release(i int)
	// Limit bounds further extents, in bytes.
	Limit(bytes int)
	// UnitBytes is the size of an element.
	UnitBytes() int
}

// Next implements Memory.
func (x *extents) Next() int { return x.next() }

// Span implements Memory.
func (x *extents) Span() uint32 { return uint32(x.next()/x.blockBytes()) << x.bits }

// Extents implements Memory.
func (x *extents) Extents() int { return len(x.list) }

// Extent implements Memory.
func (x *extents) Extent(i int) (first, end uint32, live bool) {
	e := x.list[i]
	return uint32(e.first) << x.bits, uint32(e.end) << x.bits, e.live
}

// Release implements Memory.
func (x *extents) Release(i int) { x.release(i) }

// Limit implements Memory.
func (x *extents) Limit(bytes int) { x.limit = bytes }

// UnitBytes implements Memory.
func (x *extents) UnitBytes() int { return int(x.size) }

// of is the number of the extent of a block.
func (x *extents) of(block int) int {
	for i, e := range x.list { // few: they double
		if block < e.end {
			return i
		}
	}
	return -1
}

// Slab is an array by id whose blocks appear when they are needed.
type Slab struct{ extents }

// NewSlab makes an empty slab with blocks of 1 << bits elements, or fewer if they are large.
func NewSlab(m *Meter, k *Kind, bits uint) Slab { return Slab{newExtents(m, k.Size(), bits, k.Make)} }

// At is element id; nil if its block does not exist.
func (s *Slab) At(id uint32) Place {
	if !s.has(id) {
		return nil
	}
	return s.at(id)
}

// Ensure is element id, of a new block if it has to be.
func (s *Slab) Ensure(id uint32) Place { return s.ensure(id) }

// Rows is a slab whose elements are structs of types that are known at run time only.
type Rows struct {
	extents
	typ reflect.Type
}

// lineSize is the size of a cache line, in bytes.
const lineSize = 64

// NewRows makes an empty slab of structs of these fields. Elements that would straddle cache lines are padded if that costs
// an eighth at most: one in two lines costs less than the cache that more padding wastes (measured with 24 bytes).
func NewRows(m *Meter, blockBits uint, fields ...reflect.StructField) Rows {
	typ := reflect.StructOf(fields)
	size := typ.Size()
	if size > 0 {
		if padded := uintptr(1) << bits.Len(uint(size-1)); padded <= lineSize && padded*7 <= size*8 && padded != size {
			pad := reflect.ArrayOf(int(padded-size), reflect.TypeFor[byte]())
			typ = reflect.StructOf(append(fields[:len(fields):len(fields)], reflect.StructField{Name: "Pad", Type: pad}))
		}
	}
	return Rows{typ: typ, extents: newExtents(m, typ.Size(), blockBits, func(n int) unsafe.Pointer {
		return reflect.MakeSlice(reflect.SliceOf(typ), n, n).UnsafePointer()
	})}
}

// Offset is where field i lies.
func (r *Rows) Offset(i int) uintptr { return r.typ.Field(i).Offset }

// At is the address of element id, whose block exists.
func (r *Rows) At(id uint32) unsafe.Pointer { return r.at(id) }

// Ensure makes the block of element id.
func (r *Rows) Ensure(id uint32) Place { return r.ensure(id) }

// Zero makes element id what it was when it was new.
func (r *Rows) Zero(id uint32) { reflect.NewAt(r.typ, r.at(id)).Elem().SetZero() }
