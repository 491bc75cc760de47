package column

import (
	"encoding/binary"

	"github.com/sluiceio/sluice/snapshot/chunk"
	"github.com/sluiceio/sluice/worker/state/epoch"
)

// expire looks at limit units of each state that has a time to live, and at as many records, and removes what has
// expired.
func (t *Table) expire(limit int) {
	if !t.sealed {
		return
	}
	for len(t.expired) < len(t.cols) {
		t.expired = append(t.expired, 0)
	}
	for i, col := range t.cols {
		if col.describe().TTL > 0 {
			col.expire(&t.expired[i], limit)
		}
	}
	if t.ev != nil && t.ev.evicted {
		t.Fail(t.Fault(CodeOverflow, "", t.expireCold(limit)))
	}
}

// expireCold looks at records, on from where it stopped the last time, and brings back what has expired in order to
// remove it.
func (t *Table) expireCold(limit int) error {
	type find struct {
		number int
		key    []byte // of the row and the unit
	}
	var found []find
	next, err := t.ev.records.WalkAll(t.ev.scanned, func(number int, key, record []byte) (bool, error) {
		if limit--; limit < 0 {
			return false, nil
		}
		if number >= len(t.cols) {
			return false, epoch.ErrRecord
		}
		if t.stale(number, record) {
			found = append(found, find{number, append([]byte(nil), key...)})
		}
		return true, nil
	})
	t.ev.scanned = next
	if err != nil {
		return err
	}
	for _, f := range found {
		if err := t.expireFound(f.number, f.key); err != nil {
			return err
		}
	}
	t.Entry = nil
	return t.Err
}

func (t *Table) expireFound(number int, key []byte) error {
	sub, err := t.keys.Seek(key)
	if err != nil || t.Entry == nil || t.Err != nil {
		return err
	}
	if number == rowsNumber {
		for _, col := range t.cols {
			if col.describe().TTL > 0 {
				col.expireRow(t.Row)
			}
		}
		return nil
	}
	if col, ok := t.cols[number].(unitColumn); ok {
		if err := col.bring(sub); err != nil {
			return err
		}
		col.expireRow(t.Row)
	}
	return nil
}

// stale reports whether a value of a record has expired.
func (t *Table) stale(number int, record []byte) bool {
	a := t.Epochs.Arrive(record)
	if number != rowsNumber {
		return t.staleImage(t.cols[number].describe(), &a)
	}
	for _, col := range t.cols {
		// The image of a collection in a row is its head, which has no stamp.
		if st := col.describe(); t.staleImage(st, &a) && st.Kind != chunk.List && st.Kind != chunk.Map {
			return true
		}
	}
	return false
}

func (t *Table) staleImage(st chunk.State, a *epoch.Arrival) bool {
	exists, value, _, err := a.Image()
	if err != nil || !exists || st.TTL == 0 {
		return false
	}
	stamp, n := binary.Varint(value)
	return n > 0 && t.Clock.Us-stamp >= st.TTL.Microseconds()
}
