package spill

import "math"

// Budget is one operator's share of the memory, in bytes. What the operator holds is taken from it; what it is only
// handing on (the record in flight) is not.
type Budget struct {
	limit   int64
	reserve int64 // of the limit, for buffers that are forced
	used    int64
	peak    int64
}

// NewBudget makes a budget; a limit of zero or less means that there is none.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// Reserve keeps n bytes from Take: buffers that spilling needs at the moment when nothing else is left.
func (b *Budget) Reserve(n int64) { b.reserve = n }

// Take takes n bytes, or none if they would exceed the limit less the reserve.
func (b *Budget) Take(n int64) bool {
	if b.limit > 0 && b.used+n > b.limit-b.reserve {
		return false
	}
	b.Force(n)
	return true
}

// Force takes n bytes in any case: for buffers that the reserve is for, and for a single record that is larger than what is
// left.
func (b *Budget) Force(n int64) {
	b.used += n
	b.peak = max(b.peak, b.used)
}

// Give gives n bytes back.
func (b *Budget) Give(n int64) { b.used -= n }

// Used is what is taken now.
func (b *Budget) Used() int64 { return b.used }

// Peak is the most that was ever taken.
func (b *Budget) Peak() int64 { return b.peak }

// Free is what Take would still give.
func (b *Budget) Free() int64 {
	if b.limit <= 0 {
		return math.MaxInt64
	}
	return b.limit - b.reserve - b.used
}

// Limit is the size; zero or less: none.
func (b *Budget) Limit() int64 { return b.limit }
