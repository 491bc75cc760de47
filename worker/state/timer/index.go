package timer

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/state/overflow"
	"github.com/sluiceio/sluice/worker/state/slab"
)

const (
	// bucketLen is the number of entries at which a bucket is divided.
	bucketLen = 1024
	// entryBytes is the memory of an entry without its key.
	entryBytes = 24
	seqBits    = 48
)

// entry is a deadline in the index. Its key, behind the number of its timer, lies in the bytes of its bucket.
type entry struct {
	at  element.Time
	ord uint64 // key group, then number of the setting
	off uint32 // of the key
	n   uint32
}

func (e *entry) seq() uint64 { return e.ord & (1<<seqBits - 1) }

func compare(a, b entry) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.ord, b.ord)) }

// bag is some entries with their keys.
type bag struct {
	entries []entry
	keys    []byte
}

func (b *bag) add(e entry, key []byte) {
	e.off, e.n = uint32(len(b.keys)), uint32(len(key))
	b.keys = append(b.keys, key...)
	b.entries = append(b.entries, e)
}

func (b *bag) key(e *entry) []byte { return b.keys[e.off : e.off+e.n] }

func (b *bag) bytes() int { return entryBytes*cap(b.entries) + cap(b.keys) }

func (b *bag) append(o *bag) {
	for i := range o.entries {
		b.add(o.entries[i], o.key(&o.entries[i]))
	}
}

// bucket is the entries of a range of times. Only the first one is ever sorted.
type bucket struct {
	bag
	head    int      // entries before are gone; only if sorted
	sorted  bool     //
	spilled []uint64 // numbers of bags in the overflow
	away    int      // entries in them
}

func (b *bucket) len() int { return len(b.entries) - b.head + b.away }

// index is the entries of one clock, in buckets by time.
type index struct {
	meter *slab.Meter
	area  *overflow.Area // nil: nothing is spilled
	// bounds are the least entries that may be in the buckets; those of the first one are smaller than all.
	bounds  []entry
	buckets []*bucket
	last    int // the bucket that took the last entry
	count   int
	blobs   uint64 // numbers given out
	inMem   int    // bytes of all buckets in memory
}

func newIndex(m *slab.Meter, s *overflow.Store) *index {
	x := &index{meter: m}
	if s != nil {
		x.area = s.Area()
	}
	x.reset()
	return x
}

func (x *index) reset() {
	x.bounds, x.buckets, x.last = []entry{{at: element.MinTime}}, []*bucket{{}}, 0
}

// find is the bucket of an entry.
func (x *index) find(e entry) int {
	if i := x.last; i < len(x.bounds) && compare(x.bounds[i], e) <= 0 && (i+1 == len(x.bounds) || compare(e, x.bounds[i+1]) < 0) {
		return i
	}
	i, found := slices.BinarySearchFunc(x.bounds, e, compare)
	if !found {
		i--
	}
	x.last = max(i, 0)
	return x.last
}

// add adds an entry.
func (x *index) add(e entry, key []byte) error {
	i := x.find(e)
	b := x.buckets[i]
	before := b.bytes()
	if b.sorted {
		at, _ := slices.BinarySearchFunc(b.entries[b.head:], e, compare)
		e.off, e.n = uint32(len(b.keys)), uint32(len(key))
		b.keys = append(b.keys, key...)
		b.entries = slices.Insert(b.entries, b.head+at, e)
	} else {
		b.bag.add(e, key)
	}
	x.count++
	x.weigh(b.bytes() - before)
	switch {
	case len(b.entries)-b.head < bucketLen:
		return nil
	case b.away > 0:
		return x.spill(b)
	}
	x.divide(i)
	return nil
}

func (x *index) weigh(bytes int) {
	x.inMem += bytes
	x.meter.Add(bytes)
}

// divide makes two buckets of one.
func (x *index) divide(i int) {
	b := x.buckets[i]
	before := b.bytes()
	slices.SortFunc(b.entries[b.head:], compare)
	all := b.entries[b.head:]
	mid := len(all) / 2
	low, high := &bucket{sorted: b.sorted}, &bucket{}
	for j := range all {
		to := low
		if j >= mid {
			to = high
		}
		to.bag.add(all[j], b.key(&all[j]))
	}
	x.buckets[i] = low
	x.buckets = slices.Insert(x.buckets, i+1, high)
	x.bounds = slices.Insert(x.bounds, i+1, high.entries[0])
	x.weigh(low.bytes() + high.bytes() - before)
}

// first is the earliest entry, in place; nil if there is none.
func (x *index) first() (*entry, *bucket, error) {
	for {
		b := x.buckets[0]
		if b.len() > 0 {
			if err := x.ready(); err != nil {
				return nil, nil, err
			}
			b = x.buckets[0]
			return &b.entries[b.head], b, nil
		}
		x.weigh(-b.bytes())
		if len(x.buckets) == 1 {
			x.reset()
			return nil, nil, nil
		}
		x.buckets, x.bounds = x.buckets[1:], x.bounds[1:]
		x.bounds[0] = entry{at: element.MinTime}
		x.last = max(x.last-1, 0)
	}
}

// ready sorts the first bucket, after bringing all of it back.
func (x *index) ready() error {
	b := x.buckets[0]
	if b.away > 0 {
		if err := x.fetch(b); err != nil {
			return err
		}
		for len(x.buckets[0].entries)-x.buckets[0].head > bucketLen {
			x.divide(0)
		}
		b = x.buckets[0]
	}
	if !b.sorted {
		slices.SortFunc(b.entries, compare)
		b.sorted = true
	}
	return nil
}

// pop removes the earliest entry, which first has just given.
func (x *index) pop() {
	b := x.buckets[0]
	b.head++
	x.count--
	if b.head < bucketLen/2 {
		return
	}
	before := b.bytes() // what is left moves together
	kept := bag{}
	for _, e := range b.entries[b.head:] {
		kept.add(e, b.key(&e))
	}
	b.bag, b.head = kept, 0
	x.weigh(b.bytes() - before)
}

// spillShare is which part of the memory of a directory an index may take when memory is short.
const spillShare = 4

// spillAtOnce is how many buckets are moved out of memory at a time.
const spillAtOnce = 16

// relieve moves some buckets to the overflow, those furthest ahead, if the index takes much of what is counted. The first
// one stays.
func (x *index) relieve() error {
	moved := 0
	if int64(x.inMem)*spillShare < x.meter.Bytes() {
		return nil
	}
	for i := len(x.buckets) - 1; i > 0 && moved < spillAtOnce; i-- {
		if len(x.buckets[i].entries) == 0 {
			continue
		}
		if err := x.spill(x.buckets[i]); err != nil {
			return err
		}
		moved++
	}
	return nil
}

// spill moves the entries of a bucket that are in memory to the overflow.
func (x *index) spill(b *bucket) error {
	if x.area == nil || b.sorted {
		return nil
	}
	v := binary.LittleEndian.AppendUint32(nil, uint32(len(b.entries)))
	for _, e := range b.entries {
		v = binary.LittleEndian.AppendUint64(v, uint64(e.at))
		v = binary.LittleEndian.AppendUint64(v, e.ord)
		v = binary.LittleEndian.AppendUint32(v, e.n)
		v = append(v, b.key(&e)...)
	}
	x.blobs++
	if err := x.area.Put(x.blobKey(x.blobs), v); err != nil {
		return err
	}
	x.weigh(-b.bytes())
	b.spilled, b.away = append(b.spilled, x.blobs), b.away+len(b.entries)
	b.bag = bag{}
	return nil
}

func (x *index) blobKey(n uint64) []byte {
	return binary.BigEndian.AppendUint64(append([]byte(nil), x.area.Prefix()...), n)
}

var errBlob = errors.New("bad entries of timers in the overflow of the state")

// fetch brings the entries of a bucket back.
func (x *index) fetch(b *bucket) error {
	before := b.bytes()
	for _, n := range b.spilled {
		v, ok, err := x.area.Get(x.blobKey(n))
		if err != nil {
			return err
		}
		if !ok || !b.decode(v) {
			return errBlob
		}
		if err := x.area.Delete(x.blobKey(n)); err != nil {
			return err
		}
	}
	b.spilled, b.away = nil, 0
	x.weigh(b.bytes() - before)
	return nil
}

// decode adds the entries of a blob; false if it is none.
func (b *bag) decode(v []byte) bool {
	const fixed = 8 + 8 + 4
	if len(v) < 4 {
		return false
	}
	count := binary.LittleEndian.Uint32(v)
	v = v[4:]
	for range count {
		if len(v) < fixed {
			return false
		}
		e := entry{at: element.Time(binary.LittleEndian.Uint64(v)), ord: binary.LittleEndian.Uint64(v[8:])}
		n := binary.LittleEndian.Uint32(v[16:])
		if v = v[fixed:]; uint32(len(v)) < n {
			return false
		}
		b.add(e, v[:n])
		v = v[n:]
	}
	return len(v) == 0
}

func (x *index) close() error {
	x.meter.Add(-x.inMem)
	x.inMem = 0
	if x.area == nil {
		return nil
	}
	return x.area.Close()
}
