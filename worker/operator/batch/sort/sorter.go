package sort

import (
	"math"
	"slices"
	"unsafe"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/operator/batch"
	"github.com/sluiceio/sluice/worker/operator/batch/slab"
	"github.com/sluiceio/sluice/worker/spill"
)

// Config of a Sorter.
type Config[K, T any] struct {
	Memory *batch.Memory
	Codec  *codec.Codec[T]
	Size   *spill.Sizer[T]
	Key    func(T) K
	Order  Order[K]
	// Most is how many records are wanted: the first ones in order. Zero: all.
	Most int64
	// Shares is how many sorters are merged at the same time; each uses its share of the memory then. Zero: one.
	Shares int64
}

// Sorter sorts records by key, those of equal keys by their arrival: in memory, or, when that is short, in runs that are
// merged. It is filled with Add; then Merge gives the records in order.
type Sorter[K, T any] struct {
	cfg   Config[K, T]
	rows  slab.Rows[entry[T]]
	extra int64 // taken for what the rows lead to, and for their items

	file *spill.File
	runs []spill.Stream // in the order of arrival
	held int64          // taken for runs

	bar *bar[K] // only records in front of it are wanted
}

// entry is a record in memory.
type entry[T any] struct {
	val T
	at  element.Time
}

// item is a row in the order that is being made.
type item struct {
	prefix uint64 // of the key
	row    uint32
}

// itemBytes is what a row needs to be sorted: its item, and as much again.
const itemBytes = 2 * int64(unsafe.Sizeof(item{}))

// bar is a key that Most records come before or at.
type bar[K any] struct {
	prefix uint64
	key    K
}

// NewSorter makes an empty sorter.
func NewSorter[K, T any](c Config[K, T]) *Sorter[K, T] {
	c.Shares = max(c.Shares, 1)
	return &Sorter[K, T]{cfg: c, rows: slab.Make[entry[T]](slab.ShapeFor[entry[T]](c.Memory.Limit(), 1), c.Memory.Budget)}
}

// Add takes a record.
func (s *Sorter[K, T]) Add(v T, at element.Time) error {
	if s.bar != nil && !s.before(v) {
		return nil
	}
	if s.keep(v, at) {
		if s.cfg.Most > 0 && int64(s.rows.Len()) >= max(2*s.cfg.Most, minCut) {
			s.cut()
		}
		return nil
	}
	if err := s.Spill(); err != nil {
		return err
	}
	if s.keep(v, at) {
		return nil
	}
	return s.alone(v, at)
}

// alone writes a record that does not fit into memory even alone: a run of one.
func (s *Sorter[K, T]) alone(v T, at element.Time) error {
	w, err := s.begin()
	if err != nil {
		return err
	}
	if err := w.Add(&v, at); err != nil {
		return err
	}
	return s.end(w)
}

// keep puts a record into memory if there is room.
func (s *Sorter[K, T]) keep(v T, at element.Time) bool {
	e := s.rows.Add()
	if e == nil {
		return false
	}
	e.val, e.at = v, at
	cost := itemBytes
	if !s.cfg.Size.Fixed() {
		cost += s.cfg.Size.Extra(&e.val)
	}
	if s.rows.Len() == math.MaxUint32 || !s.cfg.Memory.Take(cost) {
		s.rows.Drop()
		return false
	}
	s.extra += cost
	return true
}

// before reports that the record comes in front of the bar. A later one with the bar's own key does not.
func (s *Sorter[K, T]) before(v T) bool {
	k := s.cfg.Key(v)
	if p := s.cfg.Order.prefix(k); p != s.bar.prefix || s.cfg.Order.Exact {
		return p < s.bar.prefix
	}
	return s.cfg.Order.Compare(k, s.bar.key) < 0
}

// minCut is the least number of rows that are cut down to those that are wanted.
const minCut = 1024

// cut drops the rows that are not among the first Most. The others keep their order of arrival.
func (s *Sorter[K, T]) cut() {
	items := s.order()[:s.cfg.Most]
	s.raise(items)
	wanted := make([]bool, s.rows.Len())
	for _, it := range items {
		wanted[it.row] = true
	}
	to := uint32(0)
	for from := range uint32(s.rows.Len()) {
		e := s.rows.At(from)
		if !wanted[from] {
			cost := itemBytes + s.cfg.Size.Extra(&e.val)
			s.cfg.Memory.Give(cost)
			s.extra -= cost
			continue
		}
		*s.rows.At(to) = *e
		to++
	}
	for uint32(s.rows.Len()) > to {
		s.rows.Drop()
	}
}

// raise sets the bar to the last wanted one of ordered items.
func (s *Sorter[K, T]) raise(items []item) {
	last := items[len(items)-1]
	s.bar = &bar[K]{prefix: last.prefix, key: s.cfg.Key(s.rows.At(last.row).val)}
}

// order sorts the rows in memory.
func (s *Sorter[K, T]) order() []item {
	n := s.rows.Len()
	items := make([]item, 0, n)
	for chunk := range s.rows.Chunks {
		for i := range chunk {
			items = append(items, item{s.cfg.Order.prefix(s.cfg.Key(chunk[i].val)), uint32(len(items))})
		}
	}
	s.settle(items, make([]item, n), 0)
	return items
}

// settle sorts items whose keys are equal up to depth. They come in the order of arrival, and so do those that stay equal.
func (s *Sorter[K, T]) settle(items, spare []item, depth int) {
	o := &s.cfg.Order
	radix(items, spare)
	if o.Exact {
		return
	}
	for len(items) > 1 {
		n := 1
		for n < len(items) && items[n].prefix == items[0].prefix {
			n++
		}
		if n > 1 && (o.whole == nil || !o.whole(items[0].prefix)) {
			s.tied(items[:n], spare, depth+1)
		}
		items = items[n:]
	}
}

// maxDepth bounds how many pieces of their keys are looked at one by one.
const maxDepth = 8

// tied sorts items whose prefixes do not tell them apart.
func (s *Sorter[K, T]) tied(items, spare []item, depth int) {
	o := &s.cfg.Order
	if o.further == nil || depth > maxDepth || len(items) < fewItems {
		slices.SortStableFunc(items, func(a, b item) int {
			return o.Compare(s.cfg.Key(s.rows.At(a.row).val), s.cfg.Key(s.rows.At(b.row).val))
		})
		return
	}
	first := items[0].prefix
	for i := range items {
		items[i].prefix = o.further(s.cfg.Key(s.rows.At(items[i].row).val), depth)
	}
	s.settle(items, spare, depth)
	for i := range items { // whoever compares them with others wants the first piece
		items[i].prefix = first
	}
}

// Spill writes what is in memory as a run. It does nothing if there is nothing.
func (s *Sorter[K, T]) Spill() error {
	if s.rows.Len() == 0 {
		return nil
	}
	items := s.order()
	if s.cfg.Most > 0 && int64(len(items)) >= s.cfg.Most {
		items = items[:s.cfg.Most]
		s.raise(items)
	}
	w, err := s.begin()
	if err != nil {
		return err
	}
	for _, it := range items {
		e := s.rows.At(it.row)
		if err := w.Add(&e.val, e.at); err != nil {
			return err
		}
	}
	s.clear()
	return s.end(w)
}

func (s *Sorter[K, T]) clear() {
	s.rows.Release()
	s.cfg.Memory.Give(s.extra)
	s.extra = 0
}

// begin begins a run.
func (s *Sorter[K, T]) begin() (*spill.Writer[T], error) {
	if err := s.cfg.Memory.MustSpill(); err != nil {
		return nil, err
	}
	if s.file == nil {
		s.file = s.cfg.Memory.NewFile()
		s.cfg.Memory.Deeper(1)
	}
	return spill.NewWriter(s.file, s.cfg.Codec), nil
}

const runBytes = int64(unsafe.Sizeof(spill.Stream{}))

// end ends a run, and merges some if there are so many that their list matters.
func (s *Sorter[K, T]) end(w *spill.Writer[T]) error {
	run, err := w.Finish()
	if err != nil {
		return err
	}
	s.runs = append(s.runs, run)
	s.cfg.Memory.Force(runBytes)
	s.held += runBytes
	if s.held > s.cfg.Memory.Limit()/16 {
		return s.reduce(len(s.runs) / 4)
	}
	return nil
}

// Settle writes everything to disk, in no more runs than its share of the memory can merge at once: what another sorter
// then does has the whole memory.
func (s *Sorter[K, T]) Settle() error {
	if err := s.Spill(); err != nil {
		return err
	}
	return s.reduce(0)
}

// Merge ends the input and gives the records in order.
func (s *Sorter[K, T]) Merge() (*Merge[K, T], error) {
	if s.file == nil {
		return s.inMemory(), nil
	}
	if err := s.Settle(); err != nil {
		return nil, err
	}
	return s.open(s.runs)
}

// Close gives memory and disk back.
func (s *Sorter[K, T]) Close() error {
	s.clear()
	s.cfg.Memory.Give(s.held)
	s.held, s.runs = 0, nil
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	return err
}
