package stored

import (
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/shuffle/frame"
	"github.com/sluiceio/sluice/shuffle/stored/partition"
)

// runBuffer is the memory of a writer: encoded records of all subpartitions, until they are written out one subpartition
// behind the other.
//
// It is cut into chunks that subpartitions take as they need them: a buffer per consumer would be either too small to
// be written well or, times thousands of consumers, more than there is. Where consumers are few a chunk holds a whole
// block and is written from where it lies.
type runBuffer struct {
	chunk    int      // bytes of a chunk
	slabs    [][]byte // chunks, a slab of them at a time: most results are small
	perSlab  int32    // chunks of a slab
	chunks   int32
	used     int32   // chunks handed out
	next     []int32 // by chunk: the one behind it in its block, or none
	blocks   []block
	segments []segment
	most     int // segments
}

const none = int32(-1)

// block is a block of the run. Its records lie in a list of chunks.
type block struct {
	first, last int32 // chunks
	bytes       int32 // of records
	records     uint32
	segments    uint16
	firstSeg    int32
	lastSeg     int32
	next        int32 // block of the same subpartition
}

type segment struct {
	frame.Segment
	next int32
}

// outlet is a subpartition of the run, and its open block.
type outlet struct {
	tail    []byte       // the open chunk, as far as it is filled; its capacity ends with it
	room    int32        // records that the open segment may still take; 0: look closer
	limit   int32        // of bytes
	bytes   int32        // of records in the open block
	before  int32        // of these, in closed segments
	records uint32       // in the open segment
	prev    element.Time // of the last record in the open segment
	first   int32        // block of the run; none: there is none
	open    int32        // the last block; none: it is closed
	last    int32
	seen    mark
	base    mark // seen when the open block was begun
}

// mark is what a channel has been told of event time.
type mark struct {
	turn uint64 // of the writer's mark: nothing has changed while they are equal
	at   element.Time
	idle bool
}

// Memory of a run beside the chunks, in bytes.
const (
	outletBytes  = 208 // per consumer: outlet, block, extent
	segmentBytes = 40
	slabBytes    = 256 << 10
	leastChunk   = 256
	chunkBytes   = partition.MaxBlock
)

// newRun divides bytes of memory between chunks and what is kept of them, for so many consumers.
func newRun(bytes, consumers int) *runBuffer {
	most := max(bytes/256, 4*consumers, 64)
	bytes -= most * segmentBytes
	chunk := leastChunk
	for chunk < chunkBytes && 2*chunk*4*consumers <= bytes {
		chunk *= 2
	}
	return &runBuffer{chunk: chunk, chunks: int32(bytes / (chunk + 4)), perSlab: int32(slabBytes / chunk), most: most}
}

func (r *runBuffer) free() int { return int(r.chunks - r.used) }

// take hands out a chunk. There is one.
func (r *runBuffer) take() int32 {
	c := r.used
	r.used++
	if int(c) < len(r.next) {
		r.next[c] = none
		return c
	}
	if c%r.perSlab == 0 {
		n := min(r.perSlab, r.chunks-c)
		r.slabs = append(r.slabs, make([]byte, int(n)*r.chunk))
	}
	r.next = append(r.next, none)
	return c
}

// bytesOf is a chunk, empty.
func (r *runBuffer) bytesOf(c int32) []byte {
	at := int(c%r.perSlab) * r.chunk
	return r.slabs[c/r.perSlab][at : at : at+r.chunk]
}

// begin opens a block for o. There is a chunk.
func (r *runBuffer) begin(o *outlet) {
	c, b := r.take(), int32(len(r.blocks))
	r.blocks = append(r.blocks, block{first: c, last: c, firstSeg: none, lastSeg: none, next: none})
	if o.first == none {
		o.first = b
	} else {
		r.blocks[o.last].next = b
	}
	o.open, o.last = b, b
	o.tail = r.bytesOf(c)
	o.bytes, o.before, o.records, o.prev = 0, 0, 0, 0
	o.limit = partition.MaxBlock - partition.BlockHeader - frame.SegmentLen
	o.room = partition.BatchRecords
	o.base = o.seen
}

// grow gives o's open block another chunk.
func (r *runBuffer) grow(o *outlet) {
	c := r.take()
	b := &r.blocks[o.open]
	r.next[b.last] = c
	b.last = c
	o.tail = r.bytesOf(c)
}

// maxSegments bounds the segments of a block. Events without records between them would fill it otherwise.
const maxSegments = 512

// full: there is no room for the entries of two events and what follows them.
func (r *runBuffer) full(o *outlet) bool {
	return o.bytes >= o.limit-2*frame.SegmentLen || r.blocks[o.open].segments >= maxSegments
}

// cut ends the open segment with ev.
func (r *runBuffer) cut(o *outlet, ev element.Event) {
	r.append(o, frame.Segment{Records: o.records, Bytes: uint32(o.bytes - o.before), Event: ev})
	o.limit -= frame.SegmentLen
	o.before, o.records, o.prev, o.room = o.bytes, 0, 0, partition.BatchRecords
}

func (r *runBuffer) append(o *outlet, s frame.Segment) {
	b, at := &r.blocks[o.open], int32(len(r.segments))
	r.segments = append(r.segments, segment{s, none})
	if b.firstSeg == none {
		b.firstSeg = at
	} else {
		r.segments[b.lastSeg].next = at
	}
	b.lastSeg = at
	b.segments++
	b.records += s.Records
	b.bytes += int32(s.Bytes)
}

// end closes the open block. One without records is taken back, and its events with it.
func (r *runBuffer) end(o *outlet) {
	if o.open == none {
		return
	}
	if o.records > 0 {
		r.append(o, frame.Segment{Records: o.records, Bytes: uint32(o.bytes - o.before)})
	}
	if r.blocks[o.open].records == 0 {
		r.withdraw(o)
	}
	o.open, o.tail, o.room = none, nil, 0
}

// withdraw takes the open block, which is the last one, off o's list.
func (r *runBuffer) withdraw(o *outlet) {
	before := none
	for b := o.first; b != o.open; b = r.blocks[b].next {
		before = b
	}
	if o.last = before; before == none {
		o.first = none
	} else {
		r.blocks[before].next = none
	}
	o.seen = o.base
}

// payload is the content of a block: in the room of dst, which has MaxBlock bytes, unless it can be made where its
// records lie.
func (r *runBuffer) payload(b *block, dst []byte) []byte {
	p := dst[:0]
	table := int(b.segments) * frame.SegmentLen
	if b.first == b.last && int(b.bytes)+table <= r.chunk {
		p = r.bytesOf(b.first)[:b.bytes]
	} else {
		left := int(b.bytes)
		for c := b.first; c != none; c = r.next[c] {
			n := min(left, r.chunk)
			p = append(p, r.bytesOf(c)[:n]...)
			left -= n
		}
	}
	for s := b.firstSeg; s != none; s = r.segments[s].next {
		p = frame.AppendTable(p, []frame.Segment{r.segments[s].Segment})
	}
	return p
}

// reset empties the run.
func (r *runBuffer) reset() { r.used, r.blocks, r.segments = 0, r.blocks[:0], r.segments[:0] }
