package aggregate

import (
	"errors"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/operator/batch/sort"
	"github.com/sluiceio/sluice/worker/spill"
)

// sorted aggregates a partition by sorting it: by the hash of the key, because keys have no order of their own. A group is
// what has one hash, which is nearly always one key.
type sorted[K comparable, In, Acc any] struct {
	*core[K, In, Acc]
	file    *spill.File
	s       streams
	records *sort.Sorter[uint64, In]
	saved   *sort.Sorter[uint64, saved[K, Acc]] // nil: nothing was saved

	// The accumulators of the group, in the order of their keys' first records.
	hash  uint64
	group []saved[K, Acc]
}

func newSorted[K comparable, In, Acc any](c *core[K, In, Acc], f *spill.File, s streams) *sorted[K, In, Acc] {
	byHash := sort.Order[uint64]{Prefix: func(h uint64) uint64 { return h }, Exact: true}
	o := &sorted[K, In, Acc]{core: c, file: f, s: s}
	o.records = sort.NewSorter(sort.Config[uint64, In]{
		Memory: c.mem, Codec: c.codec, Size: c.inSize, Order: byHash, Shares: 3,
		Key: func(v In) uint64 { return c.hash(c.Key(v)) },
	})
	if s.saved.Records > 0 {
		o.saved = sort.NewSorter(sort.Config[uint64, saved[K, Acc]]{
			Memory: c.mem, Codec: c.saves, Size: spill.SizerOf(c.saves), Order: byHash, Shares: 3,
			Key: func(v saved[K, Acc]) uint64 { return c.hash(v.Key) },
		})
	}
	return o
}

func (o *sorted[K, In, Acc]) run() (err error) {
	var saved *sort.Merge[uint64, saved[K, Acc]]
	if o.saved != nil {
		defer func() { err = errors.Join(err, o.saved.Close()) }()
		if err := each(o.rt, o.file, o.saves, o.s.saved, o.saved.Add); err != nil {
			return err
		}
		if err := o.saved.Settle(); err != nil {
			return err
		}
	}
	defer func() { err = errors.Join(err, o.records.Close()) }()
	if err := each(o.rt, o.file, o.codec, o.s.records, o.records.Add); err != nil {
		return err
	}
	if err := o.records.Settle(); err != nil {
		return err
	}
	if o.saved != nil {
		if saved, err = o.saved.Merge(); err != nil {
			return err
		}
		defer saved.Close()
	}
	records, err := o.records.Merge()
	if err != nil {
		return err
	}
	defer records.Close()
	return o.merge(saved, records)
}

// merge goes through both in the order of hashes; what was saved of a key comes before its records.
func (o *sorted[K, In, Acc]) merge(saved *sort.Merge[uint64, saved[K, Acc]], records *sort.Merge[uint64, In]) error {
	for n := int64(1); ; n++ {
		if err := o.mem.Stopped(n); err != nil { // a group may be large
			return err
		}
		var hs uint64
		var hasSaved bool
		if saved != nil {
			hs, hasSaved = saved.Peek()
		}
		hr, hasRecord := records.Peek()
		if !hasSaved && !hasRecord {
			return o.flush()
		}
		var err error
		if hasSaved && (!hasRecord || hs <= hr) {
			err = o.restore(saved, hs)
		} else {
			err = o.add(records, hr)
		}
		if err != nil {
			return err
		}
	}
}

// enter begins the group of a hash, if it is another one.
func (o *sorted[K, In, Acc]) enter(hash uint64) error {
	if hash == o.hash {
		return nil
	}
	err := o.flush()
	o.hash = hash
	return err
}

func (o *sorted[K, In, Acc]) restore(m *sort.Merge[uint64, saved[K, Acc]], hash uint64) error {
	if err := o.enter(hash); err != nil {
		return err
	}
	var s saved[K, Acc]
	_, _, err := m.Next(&s)
	o.group = append(o.group, s)
	return err
}

func (o *sorted[K, In, Acc]) add(m *sort.Merge[uint64, In], hash uint64) error {
	if err := o.enter(hash); err != nil {
		return err
	}
	var v In
	at, _, err := m.Next(&v)
	if err != nil {
		return err
	}
	s, fresh := o.find(o.Key(v))
	o.fold(&s.Acc, v, at, fresh)
	return nil
}

func (o *sorted[K, In, Acc]) fold(acc *Acc, v In, at element.Time, fresh bool) {
	switch {
	case o.Update != nil:
		o.Update(acc, v, at, fresh)
	case fresh:
		*acc = o.First(v)
	default:
		*acc = o.Add(*acc, v)
	}
}

func (o *sorted[K, In, Acc]) find(k K) (s *saved[K, Acc], fresh bool) {
	for i := range o.group {
		if o.group[i].Key == k {
			return &o.group[i], false
		}
	}
	o.group = append(o.group, saved[K, Acc]{Key: k})
	return &o.group[len(o.group)-1], true
}

// flush emits the group.
func (o *sorted[K, In, Acc]) flush() error {
	for i := range o.group {
		if o.Emit == nil {
			break
		}
		if err := o.Emit(o.group[i].Key, &o.group[i].Acc); err != nil {
			return err
		}
	}
	clear(o.group)
	o.group = o.group[:0]
	return o.rt.Stopped()
}
