package budget

import "sync/atomic"

// Budget is a number of bytes for many shares. nil is a budget without limit.
type Budget struct {
	total  int64
	used   atomic.Int64 // by shares that can make room
	fixed  atomic.Int64 // by those that cannot
	shares atomic.Int64 // that can make room
}

// New makes a budget of total bytes.
func New(total int64) *Budget { return &Budget{total: total} }

// Total is the size of the budget.
func (b *Budget) Total() int64 { return b.total }

// Used is what all shares use.
func (b *Budget) Used() int64 { return b.used.Load() + b.fixed.Load() }

// available is what the shares that can make room may use together.
func (b *Budget) available() int64 { return max(b.total-b.fixed.Load(), b.total/2) }

// Kind says whether the owner of a share can make room.
type Kind uint8

const (
	// Yielding shares make room when they are told to.
	Yielding Kind = iota
	// Fixed shares cannot.
	Fixed
)

// Share is one table's part of a budget. A nil Share has no limit.
type Share struct {
	b      *Budget
	kind   Kind
	used   int64
	parent *Share // of a part of a share; nil: it is one of its own
}

// Open takes part in the budget, until Close.
func (b *Budget) Open(k Kind) *Share {
	if b == nil {
		return nil
	}
	if k == Yielding {
		b.shares.Add(1)
	}
	return &Share{b: b, kind: k}
}

// Part is a share whose use counts for s: for one of many tables that are one to the budget. It belongs to the goroutine
// of s.
func (s *Share) Part() *Share {
	if s == nil {
		return nil
	}
	return &Share{b: s.b, kind: s.kind, parent: s}
}

// Set says how many bytes the owner uses now, without its parts.
func (s *Share) Set(bytes int64) {
	if s == nil {
		return
	}
	if s.parent != nil {
		s.parent.Set(s.parent.used + bytes - s.used)
		s.used = bytes
		return
	}
	if s.kind == Fixed {
		s.b.fixed.Add(bytes - s.used)
	} else {
		s.b.used.Add(bytes - s.used)
	}
	s.used = bytes
}

// Used is what the owner has said.
func (s *Share) Used() int64 {
	if s == nil {
		return 0
	}
	return s.used
}

// Fair is what the share may use when all want more than there is.
func (s *Share) Fair() int64 {
	return s.b.available() / max(1, s.b.shares.Load())
}

// Over is by how many bytes the owner has to shrink; 0 or less: so much may it grow. Below its fair part it may always
// grow: others have to shrink for it.
func (s *Share) Over() int64 {
	if s == nil {
		return -1 << 62
	}
	if s.parent != nil {
		return s.parent.Over()
	}
	return min(s.used-s.Fair(), s.b.used.Load()-s.b.available())
}

// Close gives the part back.
func (s *Share) Close() {
	if s == nil || s.b == nil {
		return
	}
	s.Set(0)
	if s.kind == Yielding && s.parent == nil {
		s.b.shares.Add(-1)
	}
	s.b = nil
}
