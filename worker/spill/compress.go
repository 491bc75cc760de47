package spill

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// packer compresses blocks. The tables of zstd are the area's, made when they are first needed: they belong to no
// operator's budget.
type packer struct {
	once sync.Once
	enc  *zstd.Encoder
	dec  *zstd.Decoder
	err  error
}

// open makes the coders of zstd. They run on the goroutines of their callers.
func (p *packer) open() error {
	p.once.Do(func() {
		if p.enc, p.err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(maxBlock), zstd.WithEncoderCRC(false)); p.err == nil {
			p.dec, p.err = zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxBlock), zstd.WithDecoderConcurrency(0))
		}
	})
	return p.err
}

// packedSize is the room that pack needs for n bytes.
func packedSize(n int) int { return s2.MaxEncodedLen(n) }

// pack compresses src into dst, which has room for packedSize. used is None if that saves nothing: then src is to be
// stored as it is.
func (p *packer) pack(c Compression, dst, src []byte) (out []byte, used Compression, err error) {
	switch c {
	case S2:
		out = s2.Encode(dst[:cap(dst)], src)
	case Zstd:
		if err := p.open(); err != nil {
			return nil, None, fmt.Errorf("open zstd: %w", err)
		}
		out = p.enc.EncodeAll(src, dst[:0])
	}
	if c == None || len(out) >= len(src) {
		return src, None, nil
	}
	return out, c, nil
}

// unpack decompresses src into dst, which has exactly the length of the result.
func (p *packer) unpack(c Compression, dst, src []byte) error {
	switch c {
	case None:
		copy(dst, src)
		return nil
	case S2:
		if n, err := s2.DecodedLen(src); err != nil || n != len(dst) {
			return corrupt("s2 block of %d bytes: %v", n, err)
		}
		if _, err := s2.Decode(dst, src); err != nil {
			return corrupt("%v", err)
		}
		return nil
	}
	if err := p.open(); err != nil {
		return fmt.Errorf("open zstd: %w", err)
	}
	out, err := p.dec.DecodeAll(src, dst[:0:len(dst)])
	if err != nil {
		return corrupt("%v", err)
	}
	if len(out) != len(dst) {
		return corrupt("zstd block of %d bytes, not %d", len(out), len(dst))
	}
	return nil
}
