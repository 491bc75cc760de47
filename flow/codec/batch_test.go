package codec

import (
	"encoding/binary"
	"fmt"

	"github.com/sluiceio/sluice/flow/element"
)

// appendBatch encodes the records of b behind their number, as a frame has both.
func appendBatch[T any](c *Codec[T], dst []byte, b *element.Batch[T]) ([]byte, error) {
	dst = binary.AppendUvarint(dst, uint64(b.Len()))
	var prev element.Time
	var err error
	for i := range b.Vals {
		if dst, err = c.AppendRecord(dst, &b.Vals[i], b.Times[i], prev); err != nil {
			return nil, fmt.Errorf("record %d: %w", i, err)
		}
		prev = b.Times[i]
	}
	return dst, nil
}

// decodeBatch appends to b the records that appendBatch has written.
func decodeBatch[T any](c *Codec[T], src []byte, b *element.Batch[T]) error {
	count, n := binary.Uvarint(src)
	if n <= 0 || count > uint64(len(src)) {
		return fmt.Errorf("%w: number of records", ErrCorrupt)
	}
	return c.DecodeRecords(src[n:], int(count), b)
}
