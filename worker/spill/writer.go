package spill

import (
	"fmt"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
)

// Stream is a finished sequence of records in a File.
type Stream struct {
	Records int64
	Raw     int64 // bytes of the encoded records
	Largest int64 // bytes of the largest encoded record

	id    uint32
	first int64 // place of the first block
}

// Writer writes one stream. It takes one block from the budget with its first record, and gives it back in Finish or Discard.
type Writer[T any] struct {
	file  *File
	codec *codec.Codec[T]
	s     Stream
	at    place
	buf   []byte // records of the block that is being filled
	count uint32
	prev  element.Time // of the last one in buf

	unpublished int64 // records that the area's totals lack
}

// NewWriter begins a stream. It takes memory with its first record.
func NewWriter[T any](f *File, c *codec.Codec[T]) *Writer[T] {
	w := &Writer[T]{file: f, codec: c, s: Stream{id: f.streams}}
	f.streams++
	return w
}

// Records that were added so far, and the bytes of their encodings.
func (w *Writer[T]) Records() int64 { return w.s.Records }

// Raw is the number of bytes of all encoded records.
func (w *Writer[T]) Raw() int64 { return w.s.Raw }

// Add appends a record.
func (w *Writer[T]) Add(v *T, at element.Time) error {
	sp := w.file.space
	if w.buf == nil {
		sp.buffers()
		w.buf = make([]byte, 0, sp.block)
		sp.budget.Force(int64(sp.block))
	}
	enc, err := w.encode(v, at, w.prev)
	if err != nil {
		return err
	}
	if len(w.buf)+len(enc) > cap(w.buf) && w.count > 0 {
		// The first record of a block has its time in full.
		sp.keep(enc)
		if err := w.flush(); err != nil {
			return err
		}
		if enc, err = w.encode(v, at, 0); err != nil {
			return err
		}
	}
	w.s.Records++
	w.s.Raw += int64(len(enc))
	w.s.Largest = max(w.s.Largest, int64(len(enc)))
	*sp.counts.Records++
	w.unpublished++
	if len(enc) > cap(w.buf) {
		return w.parts(enc)
	}
	w.buf = append(w.buf, enc...)
	w.count++
	w.prev = at
	sp.keep(enc)
	return nil
}

func (w *Writer[T]) encode(v *T, at, prev element.Time) ([]byte, error) {
	enc, err := w.codec.AppendRecord(w.file.space.scratch[:0], v, at, prev)
	if err != nil {
		return nil, fmt.Errorf("encode a record to spill: %w", err)
	}
	return enc, nil
}

// parts writes a record that is larger than a block. Its encoding is taken from the budget meanwhile.
func (w *Writer[T]) parts(enc []byte) error {
	sp := w.file.space
	sp.budget.Force(int64(len(enc)))
	defer sp.budget.Give(int64(len(enc)))
	for rest := enc; len(rest) > 0; {
		n := min(len(rest), sp.block)
		if err := w.store(header{kind: kindPart, count: uint32(len(rest))}, rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

func (w *Writer[T]) flush() error {
	if w.count == 0 {
		return nil
	}
	err := w.store(header{kind: kindRecords, count: w.count}, w.buf)
	w.buf, w.count, w.prev = w.buf[:0], 0, 0
	return err
}

// store compresses and appends a block.
func (w *Writer[T]) store(h header, raw []byte) error {
	f, area := w.file, w.file.space.area
	payload, used, err := area.packer.pack(area.cfg.Compression, f.space.packed[headerSize:], raw)
	if err != nil {
		return err
	}
	h.compression, h.stream, h.raw = used, w.s.id, uint32(len(raw))
	area.records.Add(w.unpublished)
	w.unpublished = 0
	first := w.at.end == 0
	if err := f.append(&w.at, h, payload); err != nil {
		return err
	}
	if first {
		w.s.first = w.at.pos - int64(headerSize+len(payload))
	}
	return nil
}

// Finish writes what is left and ends the stream.
func (w *Writer[T]) Finish() (Stream, error) {
	err := w.flush()
	w.Discard()
	return w.s, err
}

// Discard ends the stream without writing what is left.
func (w *Writer[T]) Discard() {
	if w.buf != nil {
		w.file.space.budget.Give(int64(w.file.space.block))
		w.buf = nil
	}
}
