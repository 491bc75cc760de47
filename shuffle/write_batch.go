package shuffle

import (
	"reflect"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/shuffle/frame"
)

// openBatch makes room for a record to a local consumer, waiting if it has to.
func (w *Writer[T]) openBatch(i int, o *outlet[T]) error {
	if err := w.empty(o); err != nil {
		return err
	}
	if w.sizing.due() {
		w.sample()
	}
	if o.batch = o.spare; o.batch == nil {
		o.batch = &element.Batch[T]{}
	}
	o.spare = nil
	o.room = w.sizing.records(min(w.unit, o.unit))
	w.fill(i, o)
	return nil
}

// handOverBatch offers the batch and the event behind it. What comes back is an empty batch.
func (w *Writer[T]) handOverBatch(o *outlet[T]) bool {
	it := item{event: o.event}
	records := 0
	if o.batch != nil {
		it.batch, records = o.batch, o.batch.Len()
	}
	recycled, unit, ok := o.local.offer(it)
	if !ok {
		return false
	}
	if unit > 0 {
		o.unit = unit
	}
	o.batch, o.event = nil, element.Event{}
	if b, _ := recycled.(*element.Batch[T]); b != nil {
		b.Reset()
		o.spare = b
	}
	w.stats.Records += int64(records)
	return true
}

// announceLocally puts ev behind the open batch, which ends it.
func (w *Writer[T]) announceLocally(i int, ev element.Event) (done bool, err error) {
	o := &w.outs[i]
	if o.event.Kind != element.None {
		if replaces(o.event, ev) {
			o.event = ev
			return true, nil
		}
		if done, err := w.handOver(o); !done {
			return false, err
		}
	}
	o.event, o.room = ev, 0
	w.fill(i, o)
	_, err = w.handOver(o)
	return true, err
}

// sizing keeps batches of large records short: the memory of a batch that changes hands is not measured, it is
// estimated from the encoded size of a record now and then.
type sizing struct {
	least    int  // bytes of a record without what it points to
	estimate int  // bytes
	fixed    bool // records point to nothing
	opened   int  // batches
}

func newSizing[T any]() sizing {
	t := reflect.TypeFor[T]()
	least := int(t.Size()) + 8 // with its time
	return sizing{least: least, estimate: least, fixed: pointerless(t)}
}

// due: the first batches show what records are like, later every 16th is looked at.
func (s *sizing) due() bool {
	s.opened++
	return !s.fixed && (s.opened <= 16 || s.opened%16 == 0)
}

// seen takes the encoded size of a record into account: large ones at once, small ones by and by.
func (s *sizing) seen(bytes int) { s.estimate = max(s.least, bytes, s.estimate/2) }

// records that fit into a buffer of unit bytes.
func (s *sizing) records(unit int) int {
	return min(frame.MaxRecords, max(1, unit/s.estimate))
}

// sample measures the record at hand. One that cannot be encoded teaches nothing: between subtasks of one process it
// need not be.
func (w *Writer[T]) sample() {
	b, err := w.cfg.Codec.AppendRecord(w.scratch[:0], &w.value, 0, 0)
	if err != nil {
		return
	}
	w.sizing.seen(len(b))
	w.keepScratch(b)
}

// keepScratch keeps b for the next use, unless it has become too large to be kept.
func (w *Writer[T]) keepScratch(b []byte) {
	if w.scratch = b[:0]; cap(b) > 2*maxUnit {
		w.scratch = nil
	}
}

func pointerless(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64,
		reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		return true
	case reflect.Array:
		return pointerless(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !pointerless(t.Field(i).Type) {
				return false
			}
		}
		return true
	}
	return false
}
