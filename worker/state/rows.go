package state

import (
	"math/bits"
	"reflect"
	"slices"
	"unsafe"
)

// rows is the memory of the rows: a key and, if a value state was declared first, its cell. The type of a row is only
// known when the handles are declared, so its memory is typed by reflection, for the collector, and addressed by
// offsets. Blocks never move.
type rows struct {
	typ    reflect.Type
	size   uintptr
	blocks []unsafe.Pointer // each to blockLen rows
	next   uint32           // rows from here on were never used
	free   []uint32
	used   bitmap
}

// lineSize is the size of a cache line, in bytes.
const lineSize = 64

// setType makes a row of the fields. Only before the first row. Rows that would straddle cache lines are padded, up to
// a third: a row in two lines costs two misses.
func (r *rows) setType(fields ...reflect.StructField) {
	r.typ = reflect.StructOf(fields)
	size := r.typ.Size()
	if padded := uintptr(1) << bits.Len(uint(size-1)); size > 0 && padded <= lineSize && padded*3 <= size*4 && padded != size {
		pad := reflect.ArrayOf(int(padded-size), reflect.TypeFor[byte]())
		r.typ = reflect.StructOf(append(slices.Clone(fields), reflect.StructField{Name: "Pad", Type: pad}))
	}
	r.size = r.typ.Size()
}

func (r *rows) at(row uint32) unsafe.Pointer {
	return unsafe.Add(r.blocks[row>>blockBits], uintptr(row%blockLen)*r.size)
}

// take gives a row that is zero.
func (r *rows) take() uint32 {
	var row uint32
	if n := len(r.free); n > 0 {
		row = r.free[n-1]
		r.free = r.free[:n-1]
	} else {
		row = r.next
		r.next++
		if int(row>>blockBits) == len(r.blocks) {
			r.blocks = append(r.blocks, reflect.MakeSlice(reflect.SliceOf(r.typ), blockLen, blockLen).UnsafePointer())
		}
	}
	r.used.add(row)
	return row
}

// give takes a row back and drops what it refers to.
func (r *rows) give(row uint32) {
	reflect.NewAt(r.typ, r.at(row)).Elem().SetZero()
	r.used.remove(row)
	r.free = append(r.free, row)
}

func (r *rows) bytes() int {
	return len(r.blocks)*blockLen*int(r.size) + 4*cap(r.free) + r.used.bytes()
}
