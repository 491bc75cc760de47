package partition

import (
	"fmt"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// Coder compresses and decompresses payloads. It may be used from any goroutine; of zstd, as many at a time as it was
// made for, and the others wait.
type Coder struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
}

// CoderMemory is what a coder needs beside what it is given, in bytes, for each of its users at a time.
const CoderMemory = 1 << 20

// NewCoder makes a coder for so many users at a time. It starts nothing.
func NewCoder(users int) (*Coder, error) {
	enc, err := zstd.NewWriter(nil,
		zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(users), zstd.WithWindowSize(MaxBlock),
		zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true)) // blocks have a checksum of their own
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	dec, err := zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(users), zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxMemory(maxLarge), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	return &Coder{enc: enc, dec: dec}, nil
}

// worthPacking is the size in bytes below which compression is not tried.
const worthPacking = 256

// PackRoom is the room behind dst that Pack may need for a payload of n bytes.
func PackRoom(n int) int { return max(s2.MaxEncodedLen(n), n+n/8+64) }

// Pack appends the payload to dst, which has PackRoom: compressed if that saves an eighth, else as it is. The header
// has the payload's Form, Stored, Raw and Sum afterwards.
func (c *Coder) Pack(dst, payload []byte, form Form, b *Block) []byte {
	old := len(dst)
	b.Form, b.Raw = Plain, uint32(len(payload))
	if form != Plain && len(payload) >= worthPacking {
		packed := c.compress(dst, payload, form)
		if n := len(packed) - old; n <= len(payload)-len(payload)/8 {
			b.Form, b.Stored, b.Sum = form, uint32(n), Sum(packed[old:])
			return packed
		}
	}
	dst = append(dst, payload...)
	b.Stored, b.Sum = b.Raw, Sum(payload)
	return dst
}

func (c *Coder) compress(dst, payload []byte, form Form) []byte {
	if form == Zstd {
		return c.enc.EncodeAll(payload, dst)
	}
	return dst[:len(dst)+len(s2.Encode(dst[len(dst):cap(dst)], payload))]
}

// Unpack is the payload before Pack, in the room of dst if there is enough, or the stored bytes themselves. The payload
// was verified.
func (c *Coder) Unpack(dst, stored []byte, b *Block) ([]byte, error) {
	if b.Form == Plain {
		return stored, nil
	}
	if cap(dst) < int(b.Raw) {
		dst = make([]byte, b.Raw)
	}
	dst = dst[:b.Raw]
	var raw []byte
	var err error
	if b.Form == S2 {
		var n int
		if n, err = s2.DecodedLen(stored); err == nil && n != int(b.Raw) {
			err = fmt.Errorf("unpacks to %d bytes, header says %d", n, b.Raw)
		}
		if err == nil {
			raw, err = s2.Decode(dst, stored)
		}
	} else {
		raw, err = c.dec.DecodeAll(stored, dst[:0:b.Raw])
	}
	if err == nil && len(raw) != int(b.Raw) {
		err = fmt.Errorf("unpacks to %d bytes, header says %d", len(raw), b.Raw)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return raw, nil
}
