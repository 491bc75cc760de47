package chunk

import (
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"sort"

	"github.com/klauspost/compress/s2"
)

// Reader reads a chunk.
type Reader struct {
	src    io.ReaderAt
	header *Header
	spans  []span // ascending by group
	end    int64  // of the blocks
}

// NewReader reads the header and the index of a chunk of size bytes, and checks both.
func NewReader(src io.ReaderAt, size int64) (*Reader, error) {
	r := &Reader{src: src}
	first, err := r.readHeader(size)
	if err != nil {
		return nil, err
	}
	if err := r.readIndex(first, size); err != nil {
		return nil, err
	}
	return r, nil
}

// Header describes the chunk.
func (r *Reader) Header() *Header { return r.header }

func (r *Reader) readAt(off int64, n int) ([]byte, error) {
	b := make([]byte, n)
	if _, err := r.src.ReadAt(b, off); err != nil {
		return nil, fmt.Errorf("read chunk at %d: %w", off, err)
	}
	return b, nil
}

func corrupt(what string, off int64) error {
	return fmt.Errorf("%w: %s at byte %d", ErrCorrupt, what, off)
}

// readHeader returns the offset of the first block.
func (r *Reader) readHeader(size int64) (int64, error) {
	if size < int64(preambleSize+trailerSize) {
		return 0, corrupt("too short", size)
	}
	pre, err := r.readAt(0, preambleSize)
	if err != nil {
		return 0, err
	}
	if string(pre[:len(magic)]) != magic {
		return 0, corrupt("bad magic", 0)
	}
	fields := pre[len(magic):]
	if v := binary.LittleEndian.Uint16(fields); v != version {
		return 0, fmt.Errorf("chunk has format version %d, this program reads %d: %w", v, version, ErrVersion)
	}
	n := binary.LittleEndian.Uint32(fields[2:])
	if n > maxHeader || int64(n) > size-int64(preambleSize+trailerSize) {
		return 0, corrupt("bad header length", int64(len(magic)))
	}
	body, err := r.readAt(int64(preambleSize), int(n))
	if err != nil {
		return 0, err
	}
	if checksum(pre[:preambleSize-4], body) != binary.LittleEndian.Uint32(fields[6:]) {
		return 0, corrupt("bad checksum of the header", 0)
	}
	r.header, err = parseHeader(body)
	return int64(preambleSize) + int64(n), err
}

func (r *Reader) readIndex(first, size int64) error {
	trailer, err := r.readAt(size-int64(trailerSize), trailerSize)
	if err != nil {
		return err
	}
	if string(trailer[16:]) != magic {
		return corrupt("no trailer", size-int64(trailerSize))
	}
	at, n := binary.LittleEndian.Uint64(trailer), binary.LittleEndian.Uint32(trailer[8:])
	if end := size - int64(trailerSize); n > maxHeader || int64(n) > end-first || at != uint64(end-int64(n)) {
		return corrupt("bad place of the index", size-int64(trailerSize))
	}
	body, err := r.readAt(int64(at), int(n))
	if err != nil {
		return err
	}
	if checksum(trailer[:12], body) != binary.LittleEndian.Uint32(trailer[12:]) {
		return corrupt("bad checksum of the index", int64(at))
	}
	r.end = int64(at)
	r.spans, err = parseIndex(body, r.header.MaxParallelism, first, r.end)
	return err
}

// Within is the chunk as if it had only the key groups in [first, end).
func (r *Reader) Within(first, end int) *Reader {
	from := sort.Search(len(r.spans), func(i int) bool { return r.spans[i].group >= first })
	to := sort.Search(len(r.spans), func(i int) bool { return r.spans[i].group >= end })
	n := *r
	n.spans = r.spans[from:max(from, to)]
	return &n
}

// Count is the number of entries of the key groups in [first, end).
func (r *Reader) Count(first, end int) (entries int) {
	for _, s := range r.spans {
		if first <= s.group && s.group < end {
			entries += s.entries
		}
	}
	return entries
}

// Read yields the entries of the key groups in [first, end), in ascending order of group and within a group in the
// order of writing. It ends after the first error.
func (r *Reader) Read(first, end int) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		c := r.Cursor()
		i := sort.Search(len(r.spans), func(i int) bool { return r.spans[i].group >= first })
		for ; i < len(r.spans) && r.spans[i].group < end; i++ {
			if !c.walk(r.spans[i], yield) {
				return
			}
		}
	}
}

// Cursor reads a chunk key group by key group and keeps the block that it stands in.
type Cursor struct {
	r      *Reader
	at     int64 // of the block in data; -1: none
	next   int64 // of the block behind it
	data   []byte
	pos    int
	buf    []byte // of the file
	unpack []byte
}

// Cursor makes a cursor.
func (r *Reader) Cursor() *Cursor { return &Cursor{r: r, at: -1} }

// Group yields the entries of one key group in the order of writing. It ends after the first error.
func (c *Cursor) Group(group int) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		spans := c.r.spans
		i := sort.Search(len(spans), func(i int) bool { return spans[i].group >= group })
		if i < len(spans) && spans[i].group == group {
			c.walk(spans[i], yield)
		}
	}
}

// walk yields the entries of s; false ends the walk.
func (c *Cursor) walk(s span, yield func(Entry, error) bool) bool {
	if c.at != s.block {
		if err := c.load(s.block); err != nil {
			yield(Entry{}, err)
			return false
		}
	}
	if s.at > len(c.data) {
		yield(Entry{}, corrupt("index points behind its block", s.block))
		return false
	}
	c.pos = s.at
	for range s.entries {
		e, err := c.entry(s.group)
		if !yield(e, err) || err != nil {
			return false
		}
	}
	return true
}

func (c *Cursor) entry(group int) (Entry, error) {
	if c.pos == len(c.data) {
		if err := c.load(c.next); err != nil {
			return Entry{}, err
		}
	}
	d := decoder{rest: c.data[c.pos:]}
	e := c.r.header.entry(&d, group)
	if d.bad {
		return Entry{}, corrupt("bad entry in the block", c.at)
	}
	c.pos = len(c.data) - len(d.rest)
	return e, nil
}

// load reads the block at offset off.
func (c *Cursor) load(off int64) error {
	if off > c.r.end-int64(blockHeaderSize) {
		return corrupt("entries continue behind the last block", off)
	}
	head, err := c.read(off, blockHeaderSize)
	if err != nil {
		return err
	}
	form, packed, size := head[0], binary.LittleEndian.Uint32(head[1:]), binary.LittleEndian.Uint32(head[5:])
	sum := binary.LittleEndian.Uint32(head[9:])
	c.next = off + int64(blockHeaderSize) + int64(packed)
	if form > compressed || size == 0 || size > maxBlock || form == stored && packed != size || c.next > c.r.end {
		return corrupt("bad block header", off)
	}
	all, err := c.read(off, blockHeaderSize+int(packed))
	if err != nil {
		return err
	}
	body := all[blockHeaderSize:]
	if checksum(all[:blockHeaderSize-4], body) != sum {
		return corrupt("bad checksum of the block", off)
	}
	if form == compressed {
		if n, err := s2.DecodedLen(body); err != nil || n != int(size) {
			return corrupt("bad compressed length of the block", off)
		}
		if body, err = s2.Decode(c.unpack[:cap(c.unpack)], body); err != nil {
			return fmt.Errorf("%w: block at byte %d: %w", ErrCorrupt, off, err)
		}
		c.unpack = body
	}
	c.at, c.data, c.pos = off, body, 0
	return nil
}

// read reuses the memory of the block before.
func (c *Cursor) read(off int64, n int) ([]byte, error) {
	if cap(c.buf) < n {
		c.buf = make([]byte, n+n/4)
	}
	b := c.buf[:n]
	if _, err := c.r.src.ReadAt(b, off); err != nil {
		return nil, fmt.Errorf("read chunk at %d: %w", off, err)
	}
	return b, nil
}

// Verify reads all of the chunk and returns the number of entries.
func (r *Reader) Verify() (entries int, err error) {
	for _, err := range r.Read(0, r.header.MaxParallelism) {
		if err != nil {
			return 0, err
		}
		entries++
	}
	return entries, nil
}
