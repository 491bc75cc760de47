package spill

import (
	"encoding/binary"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
)

// Reader reads one stream from its beginning. It takes one block from the budget with its first record, and gives it back
// when it is at the end, or in Close. A stream may have any number of readers.
type Reader[T any] struct {
	file  *File
	codec *codec.Codec[T]
	s     Stream
	at    place
	left  int64  // records of the stream
	buf   []byte // the block
	rest  []byte // what is left of it
	count uint32 // records in rest
	prev  element.Time

	last  place // of the block before at
	large bool  // the last record was larger than a block
}

// NewReader reads s, a stream of f.
func NewReader[T any](f *File, c *codec.Codec[T], s Stream) *Reader[T] {
	return &Reader[T]{file: f, codec: c, s: s, at: place{pos: s.first}, left: s.Records}
}

// Left is the number of records that are still to come.
func (r *Reader[T]) Left() int64 { return r.left }

// Next reads a record into *v. ok is false at the end.
func (r *Reader[T]) Next(v *T) (at element.Time, ok bool, err error) {
	if r.count == 0 {
		if r.left == 0 {
			r.Close()
			return 0, false, nil
		}
		big, err := r.fill()
		if err != nil {
			return 0, false, err
		}
		if r.large = big != nil; r.large {
			at, err := r.decode(big, v)
			if err != nil {
				return 0, false, err
			}
			r.left--
			return at, true, nil
		}
	}
	d, n := binary.Varint(r.rest)
	if n <= 0 {
		return 0, false, r.corrupt(corrupt("time of a record"))
	}
	r.prev += element.Time(d)
	rest, err := r.codec.Decode(r.rest[n:], v)
	if err != nil {
		return 0, false, r.corrupt(err)
	}
	r.rest = rest
	r.count--
	r.left--
	if r.count == 0 && len(rest) > 0 {
		return 0, false, r.corrupt(corrupt("%d bytes behind the last record", len(rest)))
	}
	return r.prev, true, nil
}

// fill reads the next block, or all parts of a record that is larger than one: its encoding is returned then.
func (r *Reader[T]) fill() (big []byte, err error) {
	f := r.file
	if r.buf == nil {
		r.buf = make([]byte, f.space.block)
		f.space.budget.Force(int64(f.space.block))
	}
	r.last = r.at
	h, payload, err := f.next(&r.at, r.limits())
	if err != nil {
		return nil, err
	}
	if h.kind == kindPart {
		return r.join(h, payload)
	}
	if int64(h.count) > r.left {
		return nil, r.corrupt(corrupt("%d records where %d are left", h.count, r.left))
	}
	if err := f.space.area.packer.unpack(h.compression, r.buf[:h.raw], payload); err != nil {
		return nil, r.corrupt(err)
	}
	r.rest, r.count, r.prev = r.buf[:h.raw], h.count, 0
	return nil, nil
}

func (r *Reader[T]) limits() limits {
	return limits{stream: r.s.id, block: r.file.space.block, largest: r.s.Largest}
}

// join reads the further parts of a record behind the first one. The caller gives the memory back.
func (r *Reader[T]) join(h header, payload []byte) ([]byte, error) {
	f := r.file
	size := int(h.count)
	f.space.budget.Force(int64(size))
	big := make([]byte, 0, size)
	for {
		if h.kind != kindPart || int(h.count) != size-len(big) {
			f.space.budget.Give(int64(size))
			return nil, r.corrupt(corrupt("a record of %d bytes breaks off after %d", size, len(big)))
		}
		part := big[len(big) : len(big)+int(h.raw)]
		err := f.space.area.packer.unpack(h.compression, part, payload)
		if err == nil {
			if big = big[:len(big)+len(part)]; len(big) == size {
				return big, nil
			}
			h, payload, err = f.next(&r.at, r.limits())
		}
		if err != nil {
			f.space.budget.Give(int64(size))
			return nil, r.corrupt(err)
		}
	}
}

// decode reads the one record that big consists of, and gives its memory back.
func (r *Reader[T]) decode(big []byte, v *T) (element.Time, error) {
	defer r.file.space.budget.Give(int64(cap(big)))
	d, n := binary.Varint(big)
	if n <= 0 {
		return 0, r.corrupt(corrupt("time of a record"))
	}
	rest, err := r.codec.Decode(big[n:], v)
	if err != nil {
		return 0, r.corrupt(err)
	}
	if len(rest) > 0 {
		return 0, r.corrupt(corrupt("%d bytes behind a record", len(rest)))
	}
	return element.Time(d), nil
}

// Large reports that the last record was larger than a block, so that it can be read Again instead of being held.
func (r *Reader[T]) Large() bool { return r.large }

// Again reads the last record once more. It must have been Large.
func (r *Reader[T]) Again(v *T) error {
	after := r.at
	r.at = r.last
	big, err := r.fill()
	if err != nil {
		return err
	}
	if big == nil || r.at != after {
		return r.corrupt(corrupt("a large record is not there any more"))
	}
	_, err = r.decode(big, v)
	return err
}

func (r *Reader[T]) corrupt(err error) error { return r.file.corrupt(r.at.pos, err) }

// Close gives the memory back.
func (r *Reader[T]) Close() {
	if r.buf != nil {
		r.file.space.budget.Give(int64(r.file.space.block))
		r.buf, r.rest, r.count, r.left = nil, nil, 0, 0
	}
}
