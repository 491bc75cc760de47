package spill

// Budget is one operator's share of the memory, in bytes. What the operator holds is taken from it; what it is only
// handing on (the record in flight) is not.
type Budget struct {
	limit int64
	used  int64
	peak  int64
}

// NewBudget makes a budget; a limit of zero or less means that there is none.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// Take takes n bytes, or none if they would exceed the limit.
func (b *Budget) Take(n int64) bool {
	if b.limit > 0 && b.used+n > b.limit {
		return false
	}
	b.Force(n)
	return true
}

// Force takes n bytes in any case: for a single record that is larger than what is left.
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

// Limit is the size; zero or less: none.
func (b *Budget) Limit() int64 { return b.limit }
