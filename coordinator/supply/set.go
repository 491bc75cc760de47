package supply

import "math/bits"

// set of small numbers, in order.
type set []uint64

func makeSet(n int) set { return make(set, (n+63)/64) }

func (s set) put(i int32, in bool) {
	if in {
		s[i/64] |= 1 << (i % 64)
	} else {
		s[i/64] &^= 1 << (i % 64)
	}
}

// next is the lowest member at or above i; -1 if there is none.
func (s set) next(i int32) int32 {
	for w := int(i / 64); w < len(s); w++ {
		word := s[w]
		if w == int(i/64) {
			word &^= 1<<(i%64) - 1
		}
		if word != 0 {
			return int32(w*64 + bits.TrailingZeros64(word))
		}
	}
	return -1
}
