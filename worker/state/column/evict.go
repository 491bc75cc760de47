package column

import (
	"errors"
	"unsafe"

	"github.com/sluiceio/sluice/snapshot/chunk"
	"github.com/sluiceio/sluice/worker/state/budget"
	"github.com/sluiceio/sluice/worker/state/epoch"
	"github.com/sluiceio/sluice/worker/state/overflow"
	"github.com/sluiceio/sluice/worker/state/slab"
)

// rowsNumber is the number of rows among the states of a directory, in keys of the overflow.
const rowsNumber = -1

const (
	// evictAtOnce is how many units are moved out of memory for one that comes in, or per Seek of a table that must
	// shrink: more than can come, so that it gets ahead.
	evictAtOnce = 32
	// shedAtOnce is how many units of a row leave before the row does, at a time.
	shedAtOnce = 64
	// The hand of the clock passes units that changed, and would cost a write, for so many steps; those that were used
	// for more.
	spareDirty = 4 * evictAtOnce
	spareUsed  = 32 * evictAtOnce
	// partOfShare is which part of a share an extent, a batch of records or half a part of a snapshot may take, and
	// leastPart the least that makes sense, in bytes.
	partOfShare   = 32
	leastPart     = 16 << 10
	largestExtent = 4 << 20
	// ticksIdle is how many Seeks lie between two looks at clock and budget.
	ticksIdle = 64
	// lookEvery is how many looks lie between two that add up the memory.
	lookEvery = 16
)

// evictor moves units of a directory between memory and the overflow.
type evictor struct {
	records *overflow.Records
	share   *budget.Share
	// cold are the key groups of which a row has left memory: only of these can there be a row in the overflow.
	cold    []bool
	evicted bool // anything has
	pressed bool // the directory must shrink
	looks   int
	part    int // what one of many things may take, in bytes
	key     []byte
	dep     epoch.Departure
	stats   Stats
	relief  []func() error
	scanned []byte // key where the background looks on for what has expired
}

// Stats counts what has moved between memory and the overflow.
type Stats struct {
	Evicted  int64 // units
	Returned int64 // units
	overflow.Stats
}

func newEvictor(o Options) *evictor {
	if o.Budget == nil || o.Overflow == nil || o.Silent {
		return nil
	}
	share := o.Share.Part()
	if share == nil {
		share = o.Budget.Open(budget.Yielding)
	}
	return &evictor{records: o.Overflow.Records(), share: share, cold: make([]bool, o.MaxParallelism)}
}

// departure is an empty one.
func (ev *evictor) departure() *epoch.Departure {
	ev.dep = epoch.Departure{Record: ev.dep.Record[:0]}
	return &ev.dep
}

// settle writes a departure, if the overflow does not know it yet. stored: there is a record.
func (ev *evictor) settle(number int, d *epoch.Departure, sub []byte, stored recorded) error {
	ev.stats.Evicted++
	ev.evicted = true
	if d.Kept && !d.Changed && bool(stored) {
		return nil
	}
	if !d.Kept && !bool(stored) {
		return nil
	}
	u := unit(number, &d.Entry, sub)
	if !d.Kept {
		return ev.records.Remove(&u)
	}
	return ev.records.Save(&u, d.Record)
}

// unit names a unit, whose keys e has. In the overflow, sub tells it apart.
func unit(number int, e *chunk.Entry, sub []byte) overflow.Unit {
	return overflow.Unit{Number: number, Group: e.Group, Key: e.Key, Sub: sub}
}

// load is the record of a unit, valid until the next call.
func (ev *evictor) load(number int, e *chunk.Entry, sub []byte) (record []byte, ok bool, err error) {
	u := unit(number, e, sub)
	if record, ok, err = ev.records.Load(&u); ok {
		ev.stats.Returned++
	}
	return record, ok, err
}

// remove deletes the record of a unit.
func (ev *evictor) remove(number int, e *chunk.Entry, sub []byte) error {
	u := unit(number, e, sub)
	return ev.records.Remove(&u)
}

// fits reports whether a unit can leave.
func (ev *evictor) fits(e *chunk.Entry) bool {
	u := unit(0, e, e.Sub)
	return ev.records.Fits(&u)
}

// recorded says that a unit has a record in the overflow.
type recorded bool

// bury takes the value of a unit that is in the overflow, where it is, and reports whether it had one. e has its keys.
func (t *Table) bury(number int, e *chunk.Entry, sub, record []byte) (had bool, err error) {
	a := t.Epochs.Arrive(record)
	exists, value, undos, err := a.Image()
	if err = errors.Join(err, a.End()); err != nil || !exists {
		return false, err
	}
	d := epoch.Departure{Entry: *e, Changed: true}
	d.State = number
	if t.tracking {
		open := t.Epochs.Open()
		if n := len(undos); n == 0 || undos[n-1].Seg != open {
			undos = append(undos, epoch.Undo{Seg: open, Exists: true, Was: value})
		}
		d.Op = chunk.Delete
		if err := t.Epochs.Journal(open, &d.Entry); err != nil {
			return true, err
		}
	} else {
		undos = nil
	}
	d.Image(t.Epochs, false, nil, undos)
	return true, t.ev.settle(number, &d, sub, true)
}

// scan calls f for the records of all units of a state whose row e names, in the order of their sub-keys.
func (ev *evictor) scan(number int, e *chunk.Entry, f func(sub, record []byte) (bool, error)) error {
	u := unit(number, e, nil)
	return ev.records.Walk(&u, f)
}

// EvictRow moves a row out of memory, with all its units; false: not now.
func (t *Table) EvictRow(row uint32) (bool, error) {
	for _, col := range t.cols {
		if done, err := col.shed(row, shedAtOnce); !done || err != nil {
			return false, err
		}
	}
	d := t.ev.departure()
	var err error
	if t.ev.key, err = t.rowEntry(t.ev.key[:0], row, &d.Entry); err != nil {
		return false, t.FaultAt(CodeCodec, "", row, err)
	}
	if !t.ev.fits(&d.Entry) {
		return false, nil
	}
	for _, col := range t.cols {
		if err := col.pack(row, d); err != nil {
			return false, t.FaultAt(CodeCodec, col.describe().Name, row, err)
		}
	}
	if err := t.ev.settle(rowsNumber, d, nil, recorded(t.Pool.Stored.Has(row))); err != nil {
		return false, t.FaultAt(CodeOverflow, "", row, err)
	}
	if d.Kept {
		t.ev.cold[d.Group] = true
	}
	t.free(row)
	return true, nil
}

// Evicts reports whether anything can leave memory; Evicted, whether it has; Cold, whether a row of the key group has.
func (t *Table) Evicts() bool { return t.ev != nil }

// Evicted is described at Evicts.
func (t *Table) Evicted() bool { return t.ev != nil && t.ev.evicted }

// Cold is described at Evicts.
func (t *Table) Cold(group int) bool { return t.ev != nil && t.ev.cold[group] }

// Refer notes that a row is used.
func (t *Table) Refer(row uint32) {
	if int(row/64) < len(t.Refs) {
		t.Refs[row/64] |= 1 << (row % 64)
		return
	}
	t.Pool.Note(row)
	t.Refs = t.Pool.Refs
}

// Recall brings the row of a key back from the overflow, if it is there, and makes it the current one. newRow makes a
// row with that key.
func (t *Table) Recall(e *chunk.Entry, newRow func() (uint32, unsafe.Pointer)) error {
	record, ok, err := t.ev.load(rowsNumber, e, nil)
	if err != nil || !ok {
		return t.Fault(CodeOverflow, "", err)
	}
	row, p := newRow()
	t.Pool.Stored.Add(row)
	a := t.Epochs.Arrive(record)
	for _, col := range t.cols {
		if err := col.unpack(row, &a); err != nil {
			return t.FaultAt(CodeOverflow, col.describe().Name, row, err)
		}
	}
	if err := a.End(); err != nil {
		return t.FaultAt(CodeOverflow, "", row, err)
	}
	if t.idle(row) { // it says nothing any more
		return t.forget(row)
	}
	t.Entry, t.Row = p, row
	return nil
}

// ScanRows calls f for the encoded keys of a key group that have rows in the overflow, in their order, until it returns
// false.
func (t *Table) ScanRows(group int, f func(key []byte) (bool, error)) error {
	return t.ev.scan(rowsNumber, &chunk.Entry{Group: group}, func(key, _ []byte) (bool, error) { return f(key) })
}

// makeRoom is called before an id is taken from a pool, that of rows if col is nil: if that would take memory that the
// budget does not have, others leave.
func (t *Table) makeRoom(p *slab.Pool, col unitColumn) {
	if t.ev == nil {
		return
	}
	bytes, needs := p.NeedsExtent()
	if !needs || t.Epochs.Whole() {
		return
	}
	t.account()
	p.Limit(min(t.ev.part, largestExtent))
	if t.ev.share.Over()+int64(bytes) > 0 {
		t.evictFrom(p, col, evictAtOnce)
	}
}

// evictFrom moves up to want units of a pool out of memory, by the clock: those not used since the hand came by, and
// rather those that need no write.
func (t *Table) evictFrom(p *slab.Pool, col unitColumn, want int) (freed int) {
	p.Watch()
	if col == nil {
		t.Refs = p.Refs
	}
	for steps := 0; freed < want && steps < 2*spareUsed && t.Err == nil; steps++ {
		id, ok := p.Advance()
		if !ok {
			return freed
		}
		used := p.Unref(id)
		if used && steps < spareUsed || !t.evictable(id, col) || steps < spareDirty && t.costs(id, col) {
			continue
		}
		if t.evict(id, col) {
			freed++
		}
	}
	return freed
}

// evictable reports whether nobody stands on the unit.
func (t *Table) evictable(id uint32, col unitColumn) bool {
	if col != nil {
		return col.touchable(id)
	}
	return t.Iterating == 0 && (t.Entry == nil || t.Row != id)
}

// costs reports whether the unit was changed since the base.
func (t *Table) costs(id uint32, col unitColumn) bool {
	if col != nil {
		return col.unitDirty(id)
	}
	for _, x := range t.cols {
		if x.dirty(id) {
			return true
		}
	}
	return false
}

func (t *Table) evict(id uint32, col unitColumn) bool {
	var ok bool
	var err error
	if col != nil {
		ok, err = col.evict(id)
	} else {
		ok, err = t.EvictRow(id)
	}
	t.Fail(err)
	return ok && err == nil
}

// account tells the budget what the table uses, and finds out whether it must shrink.
func (t *Table) account() {
	used := int64(t.Bytes())
	t.ev.share.Set(used)
	t.ev.part = int(max(t.ev.share.Fair()/partOfShare, leastPart))
	t.ev.records.Limit(t.ev.part)
	t.Epochs.Limit(2 * t.ev.part)
	if t.Refs == nil && used > t.ev.share.Fair()/2 {
		t.Pool.Watch()
		t.Refs = t.Pool.Refs
	}
	t.ev.pressed = t.ev.share.Over() > 0 && !t.Epochs.Whole()
}

// Tick looks at clock and budget, and makes room if it must. No row is current.
func (t *Table) Tick() {
	t.Ticks = ticksIdle
	if t.expires {
		t.Clock.read()
	}
	if t.ev == nil {
		return
	}
	if t.ev.looks++; t.ev.looks%lookEvery == 0 {
		t.account()
	}
	if t.ev.pressed && t.sealed {
		t.Ticks = 1
		t.shrink(evictAtOnce)
	}
}

// Relieve has f called when the table must shrink, before it moves out units of its own.
func (t *Table) Relieve(f func() error) {
	if t.ev != nil {
		t.ev.relief = append(t.ev.relief, f)
	}
}

// shrink empties an extent of the largest slab, limit units at a time, and releases it.
func (t *Table) shrink(limit int) {
	for _, f := range t.ev.relief {
		t.Fail(t.Fault(CodeOverflow, "", f()))
	}
	p, col := t.largest()
	switch p.Shrink(limit, func(id uint32) {
		if t.evictable(id, col) {
			t.evict(id, col)
		}
	}) {
	case slab.Released:
		t.account()
	case slab.Stuck:
		t.ev.pressed = false // until the next look
	}
}

// largest is the pool whose units take most memory, or the one that is being shrunk.
func (t *Table) largest() (*slab.Pool, unitColumn) {
	best, owner := &t.Pool, unitColumn(nil)
	if best.Closing() {
		return best, nil
	}
	most := best.Size()
	for _, col := range t.cols {
		if u, ok := col.(unitColumn); ok {
			if u.units().Closing() {
				return u.units(), u
			}
			if n := u.units().Size(); n > most {
				best, owner, most = u.units(), u, n
			}
		}
	}
	return best, owner
}

// Maintain reads the clock, makes room if the budget asks for it, and looks for values that have expired, work units of
// each at most. No row is current afterwards.
func (t *Table) Maintain(work int) {
	t.Entry = nil
	if t.expires {
		t.Clock.read()
		t.expire(work)
	}
	if t.ev != nil {
		if t.account(); t.ev.pressed && t.sealed {
			t.shrink(work)
		}
		t.ev.records.Idle()
	}
}

// Bytes is the memory of the table: rows and units, changes that are undecided, and what waits to be written. What
// values refer to is estimated from samples.
func (t *Table) Bytes() int {
	n := int(t.Meter.Bytes()) + t.Pool.Bytes() + t.pending.Bytes() + t.Epochs.Bytes(t)
	for i := range t.hollow {
		n += t.hollow[i].Bytes()
	}
	for _, col := range t.cols {
		n += col.bytes()
	}
	if t.sealed && t.weighs {
		n += t.heap.Sample(&t.Pool, t.weighRow)
	}
	if t.ev != nil {
		n += t.ev.records.Bytes()
	}
	return n
}

func (t *Table) weighRow(row uint32) int {
	n := t.keys.Weigh(row)
	for _, col := range t.cols {
		n += col.weigh(row)
	}
	return n
}

// Stats counts what has moved between memory and the overflow.
func (t *Table) Stats() Stats {
	if t.ev == nil {
		return Stats{}
	}
	s := t.ev.stats
	s.Stats = t.ev.records.Stats()
	return s
}

// EvictSome moves the first unit from id on out of memory, of column number, or the row if the column has none: for
// tests, which cannot wait for memory to be short.
func (t *Table) EvictSome(number int, id uint32) {
	t.Entry = nil
	p, col := &t.Pool, unitColumn(nil)
	if number < len(t.cols) {
		if u, ok := t.cols[number].(unitColumn); ok {
			p, col = u.units(), u
		}
	}
	if id, ok := p.Used.Next(id); ok && t.ev != nil && !t.Epochs.Whole() && t.evictable(id, col) {
		t.evict(id, col)
	}
}
