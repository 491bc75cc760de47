package column

import (
	"encoding/binary"
	"fmt"

	"github.com/sluiceio/sluice/flow/codec"
)

// encode appends the elements of a run behind their number, and behind the stamp of the youngest; nothing if it is
// cleared.
func (s *listColumn) encode(b []byte, r *run) ([]byte, error) {
	if r.word&present == 0 {
		return b, nil
	}
	return s.encodeVals(b, r.vals)
}

func (s *listColumn) encodeVals(b []byte, vals items) (_ []byte, err error) {
	if s.opt.TTL > 0 {
		b = binary.AppendVarint(b, s.youngest(vals))
	}
	b = binary.AppendUvarint(b, uint64(vals.n))
	for i := range vals.n {
		if b, err = s.codec.Append(b, s.element(vals, i)); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (s *listColumn) youngest(vals items) (at int64) {
	for i := range vals.n {
		if t := s.form.stamp(s.element(vals, i)); i == 0 || t > at {
			at = t
		}
	}
	return at
}

// decodeRun reads what encodeVals wrote.
func (s *listColumn) decodeRun(decode Decode, stamped bool, b []byte) (items, error) {
	if stamped {
		_, n := binary.Varint(b)
		if n <= 0 {
			return items{}, fmt.Errorf("%w: bad stamp of a run", codec.ErrCorrupt)
		}
		b = b[n:]
	}
	count, n := binary.Uvarint(b)
	if n <= 0 || count > maxRun {
		return items{}, fmt.Errorf("%w: bad number of elements", codec.ErrCorrupt)
	}
	b = b[n:]
	vals := s.grow(items{}, min(int(count), runLen))
	for range count {
		if vals.n == vals.cap { // a number alone does not make memory
			vals = s.grow(vals, 2*vals.cap)
		}
		var err error
		if b, err = decode(b, s.element(vals, vals.n)); err != nil {
			return items{}, err
		}
		vals.n++
	}
	if len(b) > 0 {
		return items{}, fmt.Errorf("%w: %d bytes behind the last element", codec.ErrCorrupt, len(b))
	}
	return vals, nil
}

// grow moves elements to where there is room for n.
func (s *listColumn) grow(vals items, n int) items {
	grown := items{data: s.form.kind.Make(n), n: vals.n, cap: n}
	for i := range vals.n {
		s.form.kind.Move(s.element(grown, i), s.element(vals, i))
	}
	return grown
}

func (s *listColumn) decodeVals(b []byte) (items, error) {
	return s.decodeRun(s.codec.Decode, s.opt.TTL > 0, b)
}
