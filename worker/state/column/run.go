package column

import (
	"encoding/binary"
	"fmt"

	"github.com/sluiceio/sluice/flow/codec"
)

// encode appends the elements of a run behind their number, and behind the stamp of the youngest; nothing if it is
// cleared.
func (s *List[V]) encode(b []byte, r *listRun[V]) ([]byte, error) {
	if r.word&present == 0 {
		return b, nil
	}
	return s.encodeVals(b, r.vals)
}

func (s *List[V]) encodeVals(b []byte, vals []V) (_ []byte, err error) {
	if s.opt.TTL > 0 {
		b = binary.AppendVarint(b, youngest(vals))
	}
	b = binary.AppendUvarint(b, uint64(len(vals)))
	for i := range vals {
		if b, err = s.codec.Append(b, &vals[i]); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func youngest[V any](vals []V) (at int64) {
	for i := range vals {
		if t := any(&vals[i]).(stamper).Stamp(); i == 0 || t > at {
			at = t
		}
	}
	return at
}

// decodeRun reads what encodeVals wrote.
func decodeRun[V any](decode func([]byte, *V) ([]byte, error), stamped bool, b []byte) ([]V, error) {
	if stamped {
		_, n := binary.Varint(b)
		if n <= 0 {
			return nil, fmt.Errorf("%w: bad stamp of a run", codec.ErrCorrupt)
		}
		b = b[n:]
	}
	count, n := binary.Uvarint(b)
	if n <= 0 || count > maxRun {
		return nil, fmt.Errorf("%w: bad number of elements", codec.ErrCorrupt)
	}
	b = b[n:]
	vals := make([]V, 0, min(int(count), runLen))
	for range count {
		var v V
		var err error
		if b, err = decode(b, &v); err != nil {
			return nil, err
		}
		vals = append(vals, v)
	}
	if len(b) > 0 {
		return nil, fmt.Errorf("%w: %d bytes behind the last element", codec.ErrCorrupt, len(b))
	}
	return vals, nil
}

func (s *List[V]) decodeVals(b []byte) ([]V, error) {
	return decodeRun(s.codec.Decode, s.opt.TTL > 0, b)
}
