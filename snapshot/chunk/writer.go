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

// SizeError is an entry that is too large to be stored.
type SizeError struct {
	State string
	Bytes int
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("entry of state %q has %d bytes, at most %d can be stored", e.State, e.Bytes, MaxEntry)
}

// check refuses what could not be read back.
func (h *Header) check(e *Entry) error {
	_, _, _, _, ok := h.fields(e.State, e.Op)
	if !ok || e.Group < 0 || e.Group >= h.MaxParallelism {
		return fmt.Errorf("no such entry: op %d of state %d in key group %d", e.Op, e.State, e.Group)
	}
	if e.size() > MaxEntry {
		err := &SizeError{Bytes: e.size()}
		if e.Op != Drop {
			err.State = h.States[e.State].Name
		}
		return err
	}
	return nil
}

// Add adds an entry, whose bytes are copied. It replaces what earlier ones said.
func (w *Writer) Add(e *Entry) error {
	if err := w.header.check(e); err != nil {
		return err
	}
	b := &w.buckets[e.Group]
	old := len(b.data)
	b.data = w.header.appendEntry(b.data, e)
	b.entries++
	w.entries++
	w.bytes += len(b.data) - old
	return nil
}

// Len is the number of entries.
func (w *Writer) Len() int { return w.entries }

// Bytes is the size of all entries in memory.
func (w *Writer) Bytes() int { return w.bytes }

// Header describes the chunk.
func (w *Writer) Header() *Header { return &w.header }

// Reset empties w and keeps its memory.
func (w *Writer) Reset() {
	for i := range w.buckets {
		w.buckets[i] = bucket{data: w.buckets[i].data[:0]}
	}
	w.entries, w.bytes = 0, 0
}

// WriteTo writes the chunk. It does not change w.
func (w *Writer) WriteTo(out io.Writer) (int64, error) {
	l := newLayout(out, &w.header)
	for group := range w.buckets {
		if b := &w.buckets[group]; b.entries > 0 {
			l.group(group, b)
		}
	}
	return l.finish()
}

// Stream writes a chunk whose entries come in ascending order of their key groups.
type Stream struct {
	header Header
	l      *layout
	open   span // of the current key group
}

// NewStream begins a chunk.
func NewStream(out io.Writer, h Header) (*Stream, error) {
	if err := h.validate(); err != nil {
		return nil, fmt.Errorf("chunk header: %w", err)
	}
	return &Stream{header: h, l: newLayout(out, &h)}, nil
}

// Add adds an entry behind all others.
func (s *Stream) Add(e *Entry) error {
	if err := s.header.check(e); err != nil {
		return err
	}
	if s.open.entries > 0 && e.Group < s.open.group {
		return fmt.Errorf("key group %d after %d", e.Group, s.open.group)
	}
	if s.open.entries == 0 || e.Group > s.open.group {
		s.close()
		s.open = span{group: e.Group, block: s.l.offset, at: len(s.l.block)}
	}
	s.open.entries++
	s.l.block = s.header.appendEntry(s.l.block, e)
	if len(s.l.block) >= blockSize {
		s.l.flush()
	}
	return s.l.err
}

func (s *Stream) close() {
	if s.open.entries > 0 {
		s.l.spans = append(s.l.spans, s.open)
	}
}

// Finish ends the chunk and returns its size.
func (s *Stream) Finish() (int64, error) {
	s.close()
	return s.l.finish()
}

// layout writes the parts of a chunk in order. The first error stops it.
type layout struct {
	header *Header
	out    io.Writer
	offset int64
	err    error
	block  []byte // the open block
	packed []byte
	spans  []span
}

func newLayout(out io.Writer, h *Header) *layout {
	l := &layout{header: h, out: out, block: make([]byte, 0, blockSize+blockSize/4)}
	body := h.append(nil)
	b := append([]byte(nil), magic...)
	b = binary.LittleEndian.AppendUint16(b, version)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(body)))
	b = binary.LittleEndian.AppendUint32(b, checksum(b, body))
	l.write(b, body)
	return l
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

// group appends the entries of a key group to the open block, and closes it whenever it is full.
func (l *layout) group(group int, b *bucket) {
	l.spans = append(l.spans, span{group: group, block: l.offset, at: len(l.block), entries: b.entries})
	for data := b.data; len(data) > 0; {
		n := 0
		for n < len(data) && len(l.block)+n < blockSize {
			d := decoder{rest: data[n:]}
			l.header.entry(&d, group)
			n = len(data) - len(d.rest)
		}
		l.block = append(l.block, data[:n]...)
		data = data[n:]
		if len(l.block) >= blockSize {
			l.flush()
		}
	}
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

// finish writes the index and the trailer.
func (l *layout) finish() (int64, error) {
	l.flush()
	at := l.offset
	body := appendIndex(nil, l.spans)
	b := binary.LittleEndian.AppendUint64(nil, uint64(at))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(body)))
	b = binary.LittleEndian.AppendUint32(b, checksum(b, body))
	l.write(body, append(b, magic...))
	return l.offset, l.err
}
