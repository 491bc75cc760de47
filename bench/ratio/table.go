package ratio

// Table is the baseline of keyed state: an open-addressing table of a key and a value, and nothing else. It grows when three
// quarters of it are used.
type Table[V any] struct {
	hash  func(int64) uint64
	slots []slot[V]
	mask  uint64
	used  int
}

type slot[V any] struct {
	k    int64
	v    V
	full bool
}

// NewTable makes an empty table; hash is called when it grows.
func NewTable[V any](hash func(int64) uint64) *Table[V] {
	return &Table[V]{hash: hash, slots: make([]slot[V], 16), mask: 15}
}

// At is the value of a key, whose hash the caller has; the zero value at first.
func (t *Table[V]) At(k int64, h uint64) *V {
	for i := h & t.mask; ; i = (i + 1) & t.mask {
		s := &t.slots[i]
		if !s.full {
			if t.used*4 > len(t.slots)*3 {
				t.grow()
				return t.At(k, h)
			}
			t.used++
			s.full, s.k = true, k
			return &s.v
		}
		if s.k == k {
			return &s.v
		}
	}
}

func (t *Table[V]) grow() {
	old := t.slots
	t.slots = make([]slot[V], 2*len(old))
	t.mask, t.used = uint64(len(t.slots)-1), 0
	for _, s := range old {
		if s.full {
			*t.At(s.k, t.hash(s.k)) = s.v
		}
	}
}
