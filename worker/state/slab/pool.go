package slab

import "slices"

// Pool gives out the ids of the units of a slab, and knows which of them are used.
type Pool struct {
	mem  Memory
	free []uint32
	at   uint32 // ids from at to end were never used, or not since their extent came back
	end  uint32
	High uint32 // ids from here on were never used
	gone []int  // extents that are released

	Used   Bitmap
	Stored Bitmap   // units that have a record in the overflow
	Refs   []uint64 // units used since the hand of the clock has passed; nil: nobody wants to know
	hand   uint32
	// closing is the extent that is being emptied, + 1; its ids are not given out.
	closing    int
	closed     int // the extent that was closed last
	closeFirst uint32
	closeEnd   uint32
	closeAt    uint32 // how far it is emptied
	passes     int    // how often that was tried
}

// NewPool makes a pool without units.
func NewPool(m Memory) Pool { return Pool{mem: m} }

// NeedsExtent reports whether take would need another extent, and of how many bytes.
func (p *Pool) NeedsExtent() (bytes int, needs bool) {
	if len(p.free) > 0 || p.at < p.end {
		return 0, false
	}
	return p.mem.Next(), true
}

// Take gives out an id.
func (p *Pool) Take() uint32 {
	var id uint32
	switch n := len(p.free); {
	case n > 0:
		id = p.free[n-1]
		p.free = p.free[:n-1]
	case p.at < p.end:
		id = p.at
		p.at++
	default:
		p.extend()
		id = p.at
		p.at++
	}
	p.Used.Add(id)
	return id
}

// extend finds ids that were never used, or whose extent was released.
func (p *Pool) extend() {
	if n := len(p.gone); n > 0 {
		p.at, p.end, _ = p.mem.Extent(p.gone[n-1])
		p.gone = p.gone[:n-1]
		return
	}
	p.at, p.end = p.High, p.High+p.mem.Span()
	p.High = p.end
}

// Give takes an id back.
func (p *Pool) Give(id uint32) {
	p.Used.Remove(id)
	p.Stored.Remove(id)
	if p.closing == 0 || id < p.closeFirst || id >= p.closeEnd {
		p.free = append(p.free, id)
	}
}

// Watch begins to note which units are used.
func (p *Pool) Watch() {
	if p.Refs == nil {
		p.Refs = []uint64{}
	}
}

// Ref notes that a unit is used, if somebody wants to know.
func (p *Pool) Ref(id uint32) {
	if p.Refs != nil {
		p.Note(id)
	}
}

func (p *Pool) Note(id uint32) {
	for int(id/64) >= len(p.Refs) {
		p.Refs = append(p.Refs, make([]uint64, len(p.Refs)+64)...)
	}
	p.Refs[id/64] |= 1 << (id % 64)
}

// Unref reports whether the unit was used since the last call.
func (p *Pool) Unref(id uint32) bool {
	i, bit := int(id/64), uint64(1)<<(id%64)
	if i >= len(p.Refs) || p.Refs[i]&bit == 0 {
		return false
	}
	p.Refs[i] &^= bit
	return true
}

// Advance moves the hand of the clock to the next unit; false if there is none.
func (p *Pool) Advance() (uint32, bool) {
	id, ok := p.Used.Next(p.hand)
	if !ok {
		if id, ok = p.Used.Next(0); !ok {
			return 0, false
		}
	}
	p.hand = id + 1
	return id, true
}

// Closing reports whether an extent is being emptied.
func (p *Pool) Closing() bool { return p.closing > 0 }

// Shrunk is how far Shrink got.
type Shrunk uint8

const (
	// Working: the extent still holds units.
	Working Shrunk = iota
	// Released: it has been given back.
	Released
	// Stuck: there is none to give back, or something in it cannot leave.
	Stuck
)

// maxPasses is how often it is tried to empty an extent.
const maxPasses = 4

// Shrink empties an extent, up to limit units at a time, and releases it. evict moves a unit out if it can.
func (p *Pool) Shrink(limit int, evict func(id uint32)) Shrunk {
	if p.closing == 0 && !p.choose() {
		return Stuck
	}
	for range limit {
		id, ok := p.Used.Next(p.closeAt)
		if ok && id < p.closeEnd {
			p.closeAt = id + 1
			evict(id)
			continue
		}
		if p.closeAt == p.closeFirst {
			p.mem.Release(p.closing - 1)
			p.gone = append(p.gone, p.closing-1)
			p.closing = 0
			return Released
		}
		p.closeAt = p.closeFirst // once more: is anything left?
		if p.passes++; p.passes > maxPasses {
			p.reopen()
			return Stuck
		}
	}
	return Working
}

// choose finds the next extent to empty; false if it would be the only one, or is being filled.
func (p *Pool) choose() bool {
	n, live := p.mem.Extents(), 0
	for i := range n {
		if _, _, ok := p.mem.Extent(i); ok {
			live++
		}
	}
	if live < 2 {
		return false
	}
	for i := 1; i <= n; i++ {
		e := (p.closed + i) % n
		first, end, ok := p.mem.Extent(e)
		if !ok || p.at < p.end && p.at >= first && p.at < end {
			continue
		}
		p.closing, p.closed, p.closeFirst, p.closeEnd = e+1, e, first, end
		p.closeAt, p.passes = first, 0
		p.free = slices.DeleteFunc(p.free, func(id uint32) bool { return first <= id && id < end })
		return true
	}
	return false
}

// reopen gives up closing: the ids that are free are given out again.
func (p *Pool) reopen() {
	for id := p.closeFirst; id < p.closeEnd; id++ {
		if !p.Used.Has(id) {
			p.free = append(p.free, id)
		}
	}
	p.closing = 0
}

// Size is the memory of all extents, in bytes.
func (p *Pool) Size() (bytes int) {
	for i := range p.mem.Extents() {
		if first, end, live := p.mem.Extent(i); live {
			bytes += int(end-first) * p.mem.UnitBytes()
		}
	}
	return bytes
}

// Limit bounds further extents, in bytes.
func (p *Pool) Limit(bytes int) { p.mem.Limit(bytes) }

// Count is the number of units in memory.
func (p *Pool) Count() int {
	n := int(p.High) - len(p.free) - int(p.end-p.at)
	for _, e := range p.gone {
		first, end, _ := p.mem.Extent(e)
		n -= int(end - first)
	}
	return n
}

func (p *Pool) Bytes() int {
	return 4*cap(p.free) + p.Used.Bytes() + p.Stored.Bytes() + 8*cap(p.Refs)
}
