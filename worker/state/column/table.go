package column

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"unsafe"

	"github.com/sluiceio/sluice/snapshot/chunk"
	"github.com/sluiceio/sluice/worker/state/epoch"
	"github.com/sluiceio/sluice/worker/state/slab"
)

// Table is the rows of a directory, and what its columns share. It does not know the type of the key.
type Table struct {
	// Entry is the current row in memory; nil if the current key has none. Row is its number then.
	Entry unsafe.Pointer
	Row   uint32
	// live is the word of a cell that has a value and was written in this epoch.
	live     uint32
	tracking bool
	// Ticks are the Seeks until the next Tick.
	Ticks int32
	// Refs are the rows used since the hand of the clock has passed; nil: nobody wants to know.
	Refs []uint64
	// Rows are the rows, Pool their numbers.
	Rows slab.Rows
	Pool slab.Pool
	// Epochs are those that the changes of the table belong to.
	Epochs *epoch.Epochs
	// Meter counts the memory of all parts.
	Meter slab.Meter
	// Iterating: somebody walks over the rows, so that none may be reused.
	Iterating int
	// Space is the encoded namespace of all entries; nil: the table has none.
	Space []byte
	// Clock is the time by which values expire, read now and then.
	Clock Clock
	// Err is the first failure; it ends the attempt.
	Err error
	// Above is the first failure of all tables that this one is one of; nil: it stands alone.
	Above *error

	opts    Options
	keys    Keys
	sealed  bool
	cols    []column
	names   map[string]bool
	hollow  []slab.Bitmap // by segment: rows of which a state was cleared
	pending slab.Queue    // rows that may be free
	ev      *evictor      // nil: everything stays in memory
	expires bool          // a state has a time to live
	weighs  bool          // keys or values refer to something
	heap    slab.Average
	expired []uint32 // where the search for expired units stands, by state
}

// Keys is what a table has to know about its keys.
type Keys struct {
	Type reflect.Type
	// Insert makes a row for the current key, and the current row of it.
	Insert func()
	// Append appends the encoded key of a row and returns its key group.
	Append func(dst []byte, row uint32) (key []byte, group int, err error)
	// Seek makes the key at the front of b the current one, and returns what follows.
	Seek func(b []byte) (rest []byte, err error)
	// Unindex forgets where the row of a key is.
	Unindex func(row uint32)
	// Text is the key of a row for people.
	Text func(row uint32) string
	// Weigh is the bytes that the key of a row refers to.
	Weigh func(row uint32) int
}

// NewTable makes a table without columns. Small ones are many: their blocks are small.
func NewTable(o Options, k Keys, e *epoch.Epochs) Table {
	t := Table{opts: o, keys: k, tracking: e.Tracking(), Epochs: e, Clock: Clock{now: o.Now}, names: map[string]bool{},
		hollow: make([]slab.Bitmap, e.Len()), Ticks: 1, ev: newEvictor(o)}
	t.live = liveWord(e.Now())
	t.Clock.read()
	return t
}

func liveWord(number uint32) uint32 { return number<<epochShift | present }

// Sealed reports whether rows can be made.
func (t *Table) Sealed() bool { return t.sealed }

// Seal gives the columns their parts of a row. After that, rows can be made and nothing can be declared.
func (t *Table) Seal() {
	t.sealed = true
	fields := []reflect.StructField{{Name: "Key", Type: t.keys.Type}}
	for i, col := range t.cols {
		fields = append(fields, reflect.StructField{Name: fmt.Sprint("F", i), Type: col.field()})
	}
	t.Rows = slab.NewRows(&t.Meter, t.blockBits(), fields...)
	t.Pool = slab.NewPool(&t.Rows)
	for i, col := range t.cols {
		col.place(t.Rows.Offset(i + 1))
	}
	t.weighs = slices.ContainsFunc(fields, func(f reflect.StructField) bool { return slab.Refers(f.Type) })
}

func (t *Table) blockBits() uint {
	if t.opts.Small {
		return slab.SmallBits
	}
	return slab.BlockBits
}

// declare adds a column and returns its number.
func (t *Table) declare(col column) (int, error) {
	name := col.describe().Name
	var err error
	switch {
	case name == "":
		err = errors.New("a state has an empty name")
	case t.names[name]:
		err = errors.New("two states have this name")
	case t.sealed || t.Epochs.Last() != 0 && t.opts.Space == "":
		err = errors.New("declared after the first record")
	}
	if err != nil {
		return 0, t.Fault(CodeDeclare, name, err)
	}
	t.names[name] = true
	t.expires = t.expires || col.describe().TTL > 0
	t.cols = append(t.cols, col)
	return len(t.cols) - 1, nil
}

// States describes the columns.
func (t *Table) States() (list []chunk.State) {
	for _, col := range t.cols {
		list = append(list, col.describe())
	}
	return list
}

// Reader compiles the decoding of entries of a state as a chunk describes it. The row of an entry is the current one.
func (t *Table) Reader(st chunk.State) (func(row uint32, e *chunk.Entry) error, error) {
	i := slices.IndexFunc(t.cols, func(c column) bool { return c.describe().Name == st.Name })
	if i < 0 {
		return nil, &UnknownStateError{Name: st.Name}
	}
	if kind := t.cols[i].describe().Kind; kind != st.Kind {
		return nil, fmt.Errorf("state %q changed its kind from %d to %d", st.Name, st.Kind, kind)
	}
	read, err := t.cols[i].reader(st)
	if err != nil {
		return nil, fmt.Errorf("state %q: %w", st.Name, err)
	}
	return read, nil
}

// Options are those of the table.
func (t *Table) Options() *Options { return &t.opts }

// rowEntry completes the entry of a row: namespace, key and key group.
func (t *Table) rowEntry(dst []byte, row uint32, e *chunk.Entry) ([]byte, error) {
	dst, group, err := t.keys.Append(dst, row)
	e.Space, e.Group, e.Key = t.Space, group, dst
	return dst, err
}

// Fail remembers the first failure. The handles go on with what they have: the attempt is over.
func (t *Table) Fail(err error) {
	if t.Err == nil && err != nil {
		t.Err = err
		if t.Above != nil && *t.Above == nil {
			*t.Above = err
		}
	}
}

// emptied says that a state of the row was cleared, so that the row may be idle when nothing can bring it back.
func (t *Table) emptied(row uint32) {
	if t.tracking {
		t.hollow[len(t.hollow)-1].Add(row)
	} else {
		t.pending.Add(row)
	}
}

// Has reports whether the key of the row has any state.
func (t *Table) Has(row uint32) bool {
	for _, col := range t.cols {
		if col.has(row) {
			return true
		}
	}
	return false
}

func (t *Table) idle(row uint32) bool {
	for _, col := range t.cols {
		if !col.idle(row) {
			return false
		}
	}
	return true
}

// reclaimAtOnce is how many rows are looked at when one is made: twice as many as can be added, so that the list ends.
const reclaimAtOnce = 2

// NewRow makes a row, which is zero, after freeing some whose states are cleared for good. A snapshot may still have to
// write their tombstones, and an iteration stands on one of them: then none is freed.
func (t *Table) NewRow() (uint32, unsafe.Pointer) {
	if !t.sealed {
		t.Seal()
	}
	if t.Epochs.Snapshot() == nil && t.Iterating == 0 {
		t.reclaim()
	}
	t.makeRoom(&t.Pool, nil)
	row := t.Pool.Take()
	return row, t.Rows.Ensure(row)
}

func (t *Table) reclaim() {
	for range reclaimAtOnce {
		row, ok := t.pending.Pop()
		if !ok {
			return
		}
		if t.Pool.Used.Has(row) && t.idle(row) && (t.Entry == nil || row != t.Row) {
			t.Fail(t.forget(row))
		}
	}
}

// forget frees a row that is idle.
func (t *Table) forget(row uint32) error {
	if t.Pool.Stored.Has(row) {
		var e chunk.Entry
		var err error
		if t.ev.key, err = t.rowEntry(t.ev.key[:0], row, &e); err == nil {
			err = t.ev.remove(rowsNumber, &e, nil)
		}
		if err != nil {
			return t.FaultAt(CodeOverflow, "", row, err)
		}
	}
	t.free(row)
	return nil
}

// free takes a row out of memory.
func (t *Table) free(row uint32) {
	t.keys.Unindex(row)
	t.Rows.Zero(row)
	t.Pool.Give(row)
}

// Freeze implements epoch.Member.
func (t *Table) Freeze() {
	t.live = liveWord(t.Epochs.Now())
	t.hollow = append(t.hollow, slab.Bitmap{})
	for _, col := range t.cols {
		col.freeze()
	}
}

// Drop implements epoch.Member.
func (t *Table) Drop(n int) {
	for i := range n {
		t.pending.Push(t.hollow[i])
	}
	t.hollow = slices.Delete(t.hollow, 0, n)
	for _, col := range t.cols {
		col.drop(n)
	}
}

// Merge implements epoch.Member.
func (t *Table) Merge(i int) {
	t.hollow[i].Merge(&t.hollow[i+1])
	t.hollow = slices.Delete(t.hollow, i+1, i+2)
	for _, col := range t.cols {
		col.merge(i)
	}
}

// Rewind implements epoch.Member.
func (t *Table) Rewind() {
	for _, b := range t.hollow {
		t.pending.Push(b)
	}
	t.hollow = make([]slab.Bitmap, 1)
	t.live = liveWord(t.Epochs.Now())
	for _, col := range t.cols {
		col.rewind()
	}
	t.Settle()
}

// Settle gives up the rows that undoing or importing has emptied. No row is current then.
func (t *Table) Settle() {
	t.pending.Push(t.hollow[0])
	t.hollow[0] = slab.Bitmap{}
	t.Entry = nil
}

// Sweepers implements epoch.Member.
func (t *Table) Sweepers(list []epoch.Sweeper) []epoch.Sweeper {
	if t.opts.Silent {
		return list
	}
	for _, col := range t.cols {
		list = append(list, col)
	}
	return list
}

// Mute keeps the table out of further snapshots: it was dropped, and waits for what becomes of the epoch.
func (t *Table) Mute() { t.opts.Silent = true }

// Unmute takes part again, after a rewind.
func (t *Table) Unmute() { t.opts.Silent = false }

// Close gives back what the table holds beside memory.
func (t *Table) Close() error {
	t.Epochs.Leave(t)
	if t.ev == nil {
		return nil
	}
	t.ev.share.Close()
	err := t.ev.records.Close()
	t.ev = nil
	return err
}
