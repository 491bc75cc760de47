package chunk

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/klauspost/compress/s2"
)

// Writer collects the entries of a chunk.
type Writer struct {
	header  Header
	buckets []bucket // by key group
	entries int
	bytes   int
}

// bucket holds the entries of one key group, one after the other.
type bucket struct {
	data    []byte
	entries int
}

// NewWriter makes an empty chunk.
func NewWriter(h Header) (*Writer, error) {
	if err := h.validate(); err != nil {
		return nil, fmt.Errorf("chunk header: %w", err)
	}
	return &Writer{header: h, buckets: make([]bucket, h.MaxParallelism)}, nil
}

// Put adds an entry. key and value are copied. Of two entries of the same state and key a reader takes the later one.
func (w *Writer) Put(group, state int, key, value []byte) error {
	return w.add(group, state, 0, key, value)
}

// Delete adds a tombstone: the entry existed at the base of this chunk and is gone.
func (w *Writer) Delete(group, state int, key []byte) error {
	return w.add(group, state, 1, key, nil)
}

func (w *Writer) add(group, state int, deleted uint64, key, value []byte) error {
	if len(key)+len(value) > MaxEntry {
		return fmt.Errorf("entry of state %q has %d bytes, at most %d can be stored", w.header.States[state].Name, len(key)+len(value), MaxEntry)
	}
	b := &w.buckets[group]
	old := len(b.data)
	b.data = appendEntry(b.data, state, deleted, key, value)
	b.entries++
	w.entries++
	w.bytes += len(b.data) - old
	return nil
}

// Len is the number of entries.
func (w *Writer) Len() int { return w.entries }

// Bytes is the size of all entries in memory.
func (w *Writer) Bytes() int { return w.bytes }

// Reset empties w and keeps its memory.
func (w *Writer) Reset() {
	for i := range w.buckets {
		w.buckets[i] = bucket{data: w.buckets[i].data[:0]}
	}
	w.entries, w.bytes = 0, 0
}

// WriteTo writes the chunk. It does not change w.
func (w *Writer) WriteTo(out io.Writer) (int64, error) {
	l := layout{out: out, block: make([]byte, 0, blockSize+blockSize/4)}
	l.preamble(&w.header)
	for group := range w.buckets {
		if b := &w.buckets[group]; b.entries > 0 {
			l.group(group, b)
		}
	}
	l.flush()
	l.index()
	return l.offset, l.err
}

// layout writes the parts of a chunk in order. The first error stops it.
type layout struct {
	out    io.Writer
	offset int64
	err    error
	block  []byte // the open block
	packed []byte
	spans  []span
}

func (l *layout) write(parts ...[]byte) {
	for _, p := range parts {
		if l.err != nil {
			return
		}
		var n int
		n, l.err = l.out.Write(p)
		l.offset += int64(n)
	}
}

func (l *layout) preamble(h *Header) {
	body := h.append(nil)
	b := append([]byte(nil), magic...)
	b = binary.LittleEndian.AppendUint16(b, version)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(body)))
	b = binary.LittleEndian.AppendUint32(b, checksum(b, body))
	l.write(b, body)
}

// group appends the entries of a key group to the open block, and closes it whenever it is full.
func (l *layout) group(group int, b *bucket) {
	l.spans = append(l.spans, span{group: group, block: l.offset, at: len(l.block), entries: b.entries})
	for data := b.data; len(data) > 0; {
		n := 0
		for n < len(data) && len(l.block)+n < blockSize {
			n += entrySize(data[n:])
		}
		l.block = append(l.block, data[:n]...)
		data = data[n:]
		if len(l.block) >= blockSize {
			l.flush()
		}
	}
}

// entrySize is the length of the entry at the front of data, which add has written.
func entrySize(data []byte) int {
	tag, n := binary.Uvarint(data)
	size, m := binary.Uvarint(data[n:])
	n += m + int(size)
	if tag&1 == 0 {
		size, m = binary.Uvarint(data[n:])
		n += m + int(size)
	}
	return n
}

func (l *layout) flush() {
	if len(l.block) == 0 {
		return
	}
	form, body := byte(compressed), s2.Encode(l.packed[:cap(l.packed)], l.block)
	l.packed = body
	if len(body) >= len(l.block) {
		form, body = stored, l.block
	}
	var head [blockHeaderSize]byte
	head[0] = form
	binary.LittleEndian.PutUint32(head[1:], uint32(len(body)))
	binary.LittleEndian.PutUint32(head[5:], uint32(len(l.block)))
	binary.LittleEndian.PutUint32(head[9:], checksum(head[:9], body))
	l.write(head[:], body)
	l.block = l.block[:0]
}

func (l *layout) index() {
	at := l.offset
	body := appendIndex(nil, l.spans)
	b := binary.LittleEndian.AppendUint64(nil, uint64(at))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(body)))
	b = binary.LittleEndian.AppendUint32(b, checksum(b, body))
	l.write(body, append(b, magic...))
}
