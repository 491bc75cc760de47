package sort

import (
	"unsafe"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/spill"
)

// Merge gives the records of a Sorter in order. It belongs to the sorter, whose Close ends it.
type Merge[K, T any] struct {
	s    *Sorter[K, T]
	left int64 // records that are wanted

	items []item // of the rows in memory, if nothing was spilled
	next  int

	heads []head[K, T]
	tree  []int32 // of losers: tree[0] is the head that comes first
}

// head is the first record of a run that was not given yet.
type head[K, T any] struct {
	r      *spill.Reader[T]
	prefix uint64
	key    K
	val    T
	at     element.Time
	cost   int64 // taken for the record
	large  bool  // val is read again when it is wanted: two such records would not fit into memory
	done   bool
}

func (s *Sorter[K, T]) inMemory() *Merge[K, T] {
	m := &Merge[K, T]{s: s, items: s.order()}
	m.left = s.wanted(int64(len(m.items)))
	return m
}

// wanted is how many of n records are wanted.
func (s *Sorter[K, T]) wanted(n int64) int64 {
	if s.cfg.Most > 0 {
		return min(n, s.cfg.Most)
	}
	return n
}

// open begins to merge runs.
func (s *Sorter[K, T]) open(runs []spill.Stream) (*Merge[K, T], error) {
	m := &Merge[K, T]{s: s, heads: make([]head[K, T], len(runs)), tree: make([]int32, len(runs))}
	s.cfg.Memory.Force(m.fixed())
	total := int64(0)
	for i, run := range runs {
		m.heads[i].r = spill.NewReader(s.file, s.cfg.Codec, run)
		total += run.Records
	}
	m.left = s.wanted(total)
	if err := m.start(); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// fixed is the memory of the heads themselves.
func (m *Merge[K, T]) fixed() int64 {
	return int64(len(m.heads)) * int64(unsafe.Sizeof(head[K, T]{})+4)
}

// start reads the first record of each run and plays the first matches.
func (m *Merge[K, T]) start() error {
	for i := range m.heads {
		if err := m.advance(&m.heads[i]); err != nil {
			return err
		}
		m.tree[i] = -1
	}
	for i := range m.heads {
		m.play(int32(i))
	}
	return nil
}

// play lets head w climb from its leaf: at each node the loser stays. While the tree is being built, the first to come to a
// node waits there for its opponent.
func (m *Merge[K, T]) play(w int32) {
	for i := (int(w) + len(m.tree)) / 2; i > 0; i /= 2 {
		switch l := m.tree[i]; {
		case l < 0:
			m.tree[i] = w
			return
		case m.less(l, w):
			m.tree[i], w = w, l
		}
	}
	m.tree[0] = w
}

// less reports that the record of head a comes before that of b.
func (m *Merge[K, T]) less(a, b int32) bool {
	x, y := &m.heads[a], &m.heads[b]
	switch {
	case x.done || y.done:
		return !x.done
	case x.prefix != y.prefix:
		return x.prefix < y.prefix
	case !m.s.cfg.Order.Exact:
		if c := m.s.cfg.Order.Compare(x.key, y.key); c != 0 {
			return c < 0
		}
	}
	return a < b
}

// advance reads the next record of a run.
func (m *Merge[K, T]) advance(h *head[K, T]) error {
	mem := m.s.cfg.Memory
	mem.Give(h.cost)
	h.cost = 0
	var zero T
	h.val = zero
	at, ok, err := h.r.Next(&h.val)
	if err != nil {
		return err
	}
	if !ok {
		h.done = true
		return nil
	}
	h.at, h.key = at, m.s.cfg.Key(h.val)
	h.prefix = m.s.cfg.Order.prefix(h.key)
	if h.large = h.r.Large(); h.large {
		h.val = zero
		return nil
	}
	h.cost = m.s.cfg.Size.Extra(&h.val)
	mem.Force(h.cost)
	return nil
}

// Next gives the next record. ok is false at the end.
func (m *Merge[K, T]) Next(v *T) (at element.Time, ok bool, err error) {
	if m.left == 0 {
		return 0, false, nil
	}
	m.left--
	if m.heads == nil {
		e := m.s.rows.At(m.items[m.next].row)
		m.next++
		*v = e.val
		return e.at, true, nil
	}
	w := m.tree[0]
	h := &m.heads[w]
	at = h.at
	*v = h.val // zero if it is large
	if h.large {
		if err := h.r.Again(v); err != nil {
			return 0, false, err
		}
	}
	if err := m.advance(h); err != nil {
		return 0, false, err
	}
	m.play(w)
	return at, true, nil
}

// Peek is the key of the record that Next will give. ok is false at the end.
func (m *Merge[K, T]) Peek() (key K, ok bool) {
	switch {
	case m.left == 0:
		return key, false
	case m.heads == nil:
		return m.s.cfg.Key(m.s.rows.At(m.items[m.next].row).val), true
	}
	return m.heads[m.tree[0]].key, true
}

// Close gives the memory of the heads back.
func (m *Merge[K, T]) Close() {
	if m.heads == nil {
		return
	}
	mem := m.s.cfg.Memory
	for i := range m.heads {
		mem.Give(m.heads[i].cost)
		m.heads[i].r.Close()
	}
	mem.Give(m.fixed())
	m.heads, m.tree, m.left = nil, nil, 0
}

// fanIn is how many runs can be merged at once.
func (s *Sorter[K, T]) fanIn() int {
	mem := s.cfg.Memory
	largest := int64(0)
	for _, run := range s.runs {
		largest = max(largest, run.Largest)
	}
	// A record that is larger than a block is not held.
	each := mem.Block() + int64(unsafe.Sizeof(head[K, T]{})) + 2*min(largest, mem.Block())
	return int(min(maxFanIn, max(minFanIn, mem.Limit()*3/4/s.cfg.Shares/each)))
}

// Limits of the number of runs that are merged at once.
const (
	minFanIn = 2
	maxFanIn = 128
)

// reduce merges runs that stand beside each other until there are no more than most, or, if that is zero, than can be
// merged at once.
func (s *Sorter[K, T]) reduce(most int) error {
	for pass := 2; ; pass++ {
		fan := s.fanIn()
		n, limit := len(s.runs), max(most, fan)
		if n <= limit {
			return nil
		}
		s.cfg.Memory.Deeper(pass)
		if over := n - limit + 1; over <= fan { // a few less will do
			if err := s.join(s.cheapest(over), over); err != nil {
				return err
			}
			continue
		}
		groups := (n + fan - 1) / fan
		for g := range groups { // group g becomes run g, those behind it move up
			from, to := n*g/groups, n*(g+1)/groups
			if err := s.join(g, to-from); err != nil {
				return err
			}
		}
	}
}

// cheapest is the first of n neighbours with the least bytes in total.
func (s *Sorter[K, T]) cheapest(n int) int {
	sum := int64(0)
	for _, run := range s.runs[:n] {
		sum += run.Raw
	}
	best, least := 0, sum
	for i := n; i < len(s.runs); i++ {
		if sum += s.runs[i].Raw - s.runs[i-n].Raw; sum < least {
			best, least = i-n+1, sum
		}
	}
	return best
}

// join merges n runs from the i-th on into one.
func (s *Sorter[K, T]) join(i, n int) (err error) {
	if n == 1 {
		return nil
	}
	m, err := s.open(s.runs[i : i+n])
	if err != nil {
		return err
	}
	defer m.Close()
	w := spill.NewWriter(s.file, s.cfg.Codec)
	defer w.Discard()
	var v T
	for {
		at, ok, err := m.Next(&v)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if err := w.Add(&v, at); err != nil {
			return err
		}
		if err := s.cfg.Memory.Stopped(m.left); err != nil {
			return err
		}
	}
	run, err := w.Finish()
	if err != nil {
		return err
	}
	s.runs[i] = run
	s.runs = append(s.runs[:i+1], s.runs[i+n:]...)
	s.cfg.Memory.Give(int64(n-1) * runBytes)
	s.held -= int64(n-1) * runBytes
	return nil
}
