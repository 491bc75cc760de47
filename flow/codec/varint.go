package codec

import (
	"encoding/binary"
	"math/bits"
)

// putUvarint writes x at b[n:] and returns the end. There must be room for maxVarint bytes, whatever x is.
func putUvarint(b []byte, n int, x uint64) int {
	if x < 0x80 {
		b[n] = byte(x)
		return n + 1
	}
	return putLongUvarint(b, n, x)
}

// putLongUvarint spreads the groups of seven bits with three shifts and writes eight bytes at once: the lengths of
// numbers in a record are hard to predict, and a loop pays for that.
func putLongUvarint(b []byte, n int, x uint64) int {
	if x >= 1<<56 {
		return n + binary.PutUvarint(b[n:], x)
	}
	w := x&0x000000000fffffff | x&0x00fffffff0000000<<4
	w = w&0x00003fff00003fff | w&0x0fffc0000fffc000<<2
	w = w&0x007f007f007f007f | w&0x3f803f803f803f80<<1
	last := (bits.Len64(x) - 1) / 7
	w |= 0x8080808080808080 & (1<<(8*last) - 1)
	binary.LittleEndian.PutUint64(b[n:], w)
	return n + last + 1
}

// putVarint writes x in zigzag form.
func putVarint(b []byte, n int, x int64) int {
	return putUvarint(b, n, uint64(x<<1)^uint64(x>>63))
}

// uvarint reads a number at b[n:]; the new position is negative if there is none.
func uvarint(b []byte, n int) (uint64, int) {
	if n < len(b) && b[n] < 0x80 {
		return uint64(b[n]), n + 1
	}
	return longUvarint(b, n)
}

// longUvarint reads eight bytes at once where it can: the first clear top bit marks the last byte, and three shifts
// bring the groups of seven bits together. It accepts what binary.Uvarint accepts.
func longUvarint(b []byte, n int) (uint64, int) {
	if n < 0 {
		return 0, -1
	}
	if len(b)-n >= 8 {
		w := binary.LittleEndian.Uint64(b[n:])
		if stop := ^w & 0x8080808080808080; stop != 0 {
			last := bits.TrailingZeros64(stop) // bit 7 of the last byte
			w &= uint64(2)<<last - 1
			w = w&0x007f007f007f007f | w&0x7f007f007f007f00>>1
			w = w&0x00003fff00003fff | w&0x3fff00003fff0000>>2
			w = w&0x000000000fffffff | w&0x0fffffff00000000>>4
			return w, n + last>>3 + 1
		}
	}
	x, size := binary.Uvarint(b[min(n, len(b)):])
	if size <= 0 {
		return 0, -1
	}
	return x, n + size
}

// varint reads a number in zigzag form.
func varint(b []byte, n int) (int64, int) {
	x, n := uvarint(b, n)
	return int64(x>>1) ^ -int64(x&1), n
}
