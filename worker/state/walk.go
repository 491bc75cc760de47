package state

import (
	"slices"

	"github.com/sluiceio/sluice/worker/state/slab"
)

// Each makes every key with state current in turn, until f returns an error. f may change and clear the state of the
// current key. Keys that are in the overflow come last, one at a time.
func (d *Directory[K]) Each(f func(K) error) error {
	d.t.Iterating++
	defer func() { d.t.Iterating-- }()
	for row, ok := d.t.Pool.Used.Next(0); ok; row, ok = d.t.Pool.Used.Next(row + 1) {
		if err := d.visit(row, f); err != nil {
			return err
		}
	}
	if !d.t.Evicted() {
		return nil
	}
	for group := range d.t.Options().MaxParallelism {
		if d.t.Cold(group) {
			if err := d.eachCold(group, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// EachByGroup is Each in ascending order of key groups. The order of the keys of a group is not specified.
func (d *Directory[K]) EachByGroup(f func(K) error) error {
	d.t.Iterating++
	defer func() { d.t.Iterating-- }()
	rows := make([]uint64, 0, d.t.Pool.Count()) // key group and number of the row
	for row, ok := d.t.Pool.Used.Next(0); ok; row, ok = d.t.Pool.Used.Next(row + 1) {
		k := d.keyAt(row)
		rows = append(rows, uint64(d.group(k, d.hash(*k)))<<32|uint64(row))
	}
	slices.Sort(rows)
	for group := range d.t.Options().MaxParallelism {
		for len(rows) > 0 && int(rows[0]>>32) == group {
			row := uint32(rows[0])
			rows = rows[1:]
			if err := d.visit(row, f); err != nil {
				return err
			}
		}
		if d.t.Cold(group) {
			if err := d.eachCold(group, f); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *Directory[K]) visit(row uint32, f func(K) error) error {
	if !d.t.Has(row) {
		return nil
	}
	k := *d.keyAt(row)
	d.key, d.keyH = k, d.hash(k)
	d.t.Entry, d.t.Row = d.t.Rows.At(row), row
	return f(k)
}

// eachCold visits the rows of a key group that are in the overflow; each leaves again before the next one comes.
func (d *Directory[K]) eachCold(group int, f func(K) error) error {
	return d.directory.eachCold(group, func(k slab.Place) (known bool) {
		_, known = d.rowOf(*(*K)(k), d.hash(*(*K)(k)))
		return known
	}, func() error { return f(d.key) })
}

// eachCold has f called for the keys of a key group that are in the overflow, and not known in memory, as the current one.
func (d *directory) eachCold(group int, known func(k slab.Place) bool, f func() error) error {
	err := d.t.ScanRows(group, func(key []byte) (bool, error) {
		k, h, _, err := d.decode(key)
		if err != nil {
			return false, err
		}
		if known(k) {
			return true, nil // it had its turn
		}
		d.keys.seek(k, h)
		if d.t.Entry == nil || d.t.Err != nil {
			return true, d.t.Err
		}
		row := d.t.Row
		if d.t.Has(row) {
			if err := f(); err != nil {
				return false, err
			}
		}
		d.t.Entry = nil
		_, err = d.t.EvictRow(row)
		return true, err
	})
	return d.t.Fault(CodeOverflow, "", err)
}

// rowOf is the row of a key in memory.
func (d *Directory[K]) rowOf(k K, h uint64) (uint32, bool) {
	l, i := d.index.Head(h), h
	for row, ok := l.Find(h, &i); ok; row, ok = l.Find(h, &i) {
		if *d.keyAt(row) == k {
			return row, true
		}
	}
	return 0, false
}
