package nexmark

import (
	"math/bits"

	"github.com/sluiceio/sluice/flow/element"
)

// Fields is the field digest of one row: a 64-bit mix of its raw fields, in their order. Sums of it tell whether two runs gave
// the same rows without the price of their text, so that a timed run can be checked. The zero value is not ready: see Row.
type Fields struct{ sum, factor uint64 }

// Row begins a row.
func Row() Fields { return Fields{factor: golden} }

// Num adds an integer. The fields are independent products, so that a processor works on all of them at the same time.
func (f Fields) Num(v int64) Fields {
	return Fields{f.sum + (uint64(v)^f.factor>>1)*f.factor, f.factor * 0xD1342543DE82EF95}
}

// Time adds a time.
func (f Fields) Time(t element.Time) Fields { return f.Num(int64(t)) }

// Text adds a string.
func (f Fields) Text(s string) Fields {
	if len(s) == 0 {
		return f.Num(0)
	}
	return f.Num(int64(textHash(s)))
}

// Bytes adds a text.
func (f Fields) Bytes(s []byte) Fields { return f.Num(int64(textHash(s))) }

// textHash is 0 for nothing.
func textHash[S string | []byte](s S) uint64 {
	h := uint64(len(s))
	for ; len(s) >= 8; s = s[8:] {
		w := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 | uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		h = bits.RotateLeft64(h^w, 29) * golden
	}
	var last uint64
	for i := range len(s) {
		last |= uint64(s[i]) << (8 * i)
	}
	return h ^ last*golden
}

// Hash is what a row counts for.
func (f Fields) Hash() uint64 {
	z := f.sum ^ f.sum>>32
	z *= golden
	return z ^ z>>29
}
