package chunk

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"
)

// MergeOptions say how far a merge goes.
type MergeOptions struct {
	// First and End are the key groups to take, as a half-open range.
	First, End int
	// Base: the chain begins with everything there is, so that tombstones have nothing left to hide and are dropped, and
	// values that have expired at Now as well.
	Base bool
	// Now is the time by which values expire; zero: none does.
	Now time.Time
}

// MismatchError says why chunks do not form a chain that can be merged without knowing types: after a change of a
// schema only a full snapshot of the operator shortens the chain.
type MismatchError struct{ What string }

func (e *MismatchError) Error() string { return "chunks cannot be merged: " + e.What }

// MergeStats counts entries.
type MergeStats struct {
	Read, Written int
	Bytes         int64 // of the chunk that was written
}

// Merge writes one chunk that says what the chain says, oldest chunk first, sorted within key groups. It holds the
// entries of one key group in memory, without those of the oldest chunk if that one is sorted.
func Merge(out io.Writer, chain []*Reader, o MergeOptions) (MergeStats, error) {
	h, numbers, err := union(chain)
	if err != nil {
		return MergeStats{}, err
	}
	s, err := NewStream(out, h)
	if err != nil {
		return MergeStats{}, err
	}
	m := merger{header: &h, out: s, o: o}
	for i, r := range chain {
		m.sources = append(m.sources, source{r.Cursor(), numbers[i], r.header.Sorted})
	}
	for group := o.First; group < o.End; group++ {
		if err := m.group(group); err != nil {
			return m.stats, err
		}
	}
	m.stats.Bytes, err = s.Finish()
	return m.stats, err
}

// union is the header of the merged chunk, with the numbers of each chunk's states in it.
func union(chain []*Reader) (h Header, numbers [][]int, err error) {
	byName := map[string]int{}
	for i, r := range chain {
		c := r.header
		if i == 0 {
			h = *c
			h.Sorted, h.States = true, nil
		}
		if c.MaxParallelism != h.MaxParallelism || c.Scope != h.Scope || c.Table != h.Table || c.Space != h.Space || c.Key != h.Key {
			return h, nil, &MismatchError{fmt.Sprintf("table %q with keys %s, %d key groups, and table %q with keys %s, %d key groups",
				h.Table, h.Key, h.MaxParallelism, c.Table, c.Key, c.MaxParallelism)}
		}
		var n []int
		for _, st := range c.States {
			at, known := byName[st.Name]
			if !known {
				at = len(h.States)
				byName[st.Name] = at
				h.States = append(h.States, st)
			}
			was := &h.States[at]
			if was.Kind != st.Kind || was.Sub != st.Sub || was.Value != st.Value || (was.TTL > 0) != (st.TTL > 0) {
				return h, nil, &MismatchError{fmt.Sprintf("state %q changed its type or time to live", st.Name)}
			}
			was.TTL = st.TTL // that of the newest chunk
			n = append(n, at)
		}
		numbers = append(numbers, n)
	}
	return h, numbers, nil
}

type source struct {
	cursor *Cursor
	number []int
	sorted bool
}

// entries yields the entries of a group with the numbers of the merged chunk.
func (s *source) entries(group int) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for e, err := range s.cursor.Group(group) {
			if err == nil && e.Op != Drop {
				e.State = s.number[e.State]
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// aged is an entry with its place in the chain; later ones are younger.
type aged struct {
	Entry
	age int
}

// compare orders units: what hides others comes before them.
func compare(a, b *aged) int {
	return cmp.Or(bytes.Compare(a.Space, b.Space), cmp.Compare(rank(a.Op), rank(b.Op)), cmp.Compare(a.State, b.State),
		bytes.Compare(a.Key, b.Key), bytes.Compare(a.Sub, b.Sub))
}

func rank(op Op) int {
	if op == Drop {
		return 0
	}
	return 1
}

type merger struct {
	header  *Header
	out     *Stream
	o       MergeOptions
	sources []source
	stats   MergeStats

	arena []byte
	items []aged

	space   []byte // the current one
	dropped int    // age of the newest Drop of it, which hides what is older; -1: none
}

func (m *merger) group(group int) error {
	m.space, m.dropped = m.space[:0], -1
	if len(m.sources) == 0 {
		return nil
	}
	younger := m.sources
	oldest := func(func(Entry, error) bool) {}
	if m.sources[0].sorted {
		younger = m.sources[1:]
		oldest = m.sources[0].entries(group)
	}
	if err := m.collect(group, younger); err != nil {
		return err
	}
	i := 0
	for e, err := range oldest {
		if err != nil {
			return err
		}
		m.stats.Read++
		old := aged{e, -1}
		hidden := false
		for i < len(m.items) && compare(&m.items[i], &old) <= 0 {
			hidden = compare(&m.items[i], &old) == 0
			if err := m.emit(&m.items[i]); err != nil {
				return err
			}
			i++
		}
		if hidden {
			continue
		}
		if err := m.emit(&old); err != nil {
			return err
		}
	}
	for ; i < len(m.items); i++ {
		if err := m.emit(&m.items[i]); err != nil {
			return err
		}
	}
	return nil
}

// collect reads the entries of a group into memory, sorted, the youngest of each unit.
func (m *merger) collect(group int, from []source) error {
	m.items, m.arena = m.items[:0], m.arena[:0]
	for _, s := range from {
		for e, err := range s.entries(group) {
			if err != nil {
				return err
			}
			m.stats.Read++
			e.Space, e.Key, e.Sub, e.Value = m.keep(e.Space), m.keep(e.Key), m.keep(e.Sub), m.keep(e.Value)
			m.items = append(m.items, aged{e, len(m.items)})
		}
	}
	slices.SortFunc(m.items, func(a, b aged) int { return cmp.Or(compare(&a, &b), cmp.Compare(b.age, a.age)) })
	m.items = slices.CompactFunc(m.items, func(a, b aged) bool { return compare(&a, &b) == 0 })
	return nil
}

func (m *merger) keep(b []byte) []byte {
	if b == nil {
		return nil
	}
	if cap(m.arena)-len(m.arena) < len(b) { // what lies in the old block stays there
		m.arena = make([]byte, 0, max(1<<20, len(b)))
	}
	at := len(m.arena)
	m.arena = append(m.arena, b...)
	return m.arena[at:len(m.arena):len(m.arena)]
}

// emit writes the youngest entry of a unit, unless it is hidden.
func (m *merger) emit(e *aged) error {
	if !bytes.Equal(m.space, e.Space) {
		m.space, m.dropped = append(m.space[:0], e.Space...), -1
	}
	if e.Op == Drop {
		m.dropped = e.age
	}
	if e.age < m.dropped {
		return nil
	}
	if m.o.Base && (e.Op != Put || m.expired(e)) {
		return nil
	}
	m.stats.Written++
	return m.out.Add(&e.Entry)
}

// expired reports whether the stamp of a value lies too far back.
func (m *merger) expired(e *aged) bool {
	ttl := m.header.States[e.State].TTL
	if ttl == 0 || m.o.Now.IsZero() {
		return false
	}
	stamp, n := binary.Varint(e.Value)
	return n > 0 && m.o.Now.UnixMicro()-stamp >= ttl.Microseconds()
}
