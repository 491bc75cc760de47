package state

// AheadKeys is how many keys an Ahead takes at most: enough that the processor waits for all of them at once, few enough that
// what it brings into the cache is still there when its turn comes.
const AheadKeys = 32

// Ahead is keys that are about to be sought, in this order. To find a key takes two loads of which the second waits for the
// first, and both miss the caches when there are many keys; sought one by one, each key waits for its own. Prefetch has those of
// all keys under way together, which halves the cost of updates from 1e6 keys on (docs/design/state.md).
type Ahead[K comparable] struct {
	keys   [AheadKeys]K
	hashes [AheadKeys]uint64
	slots  [AheadKeys]uint32
	rows   [AheadKeys]uint32 // + 1; 0: none was found
	at, n  int
	of     *Directory[K] // whose rows they are; nil: nobody's
	freed  uint64        // by that time
}

// Take replaces the keys by those of the first AheadKeys records. It ends before a record whose key function panics: that is
// called again when the record is handled, which is where the failure belongs.
func (a *Ahead[K]) Take[T any](records []T, key func(T) K, hash func(K) uint64) {
	a.at, a.n, a.of = 0, 0, nil
	defer func() { _ = recover() }()
	for _, v := range records[:min(len(records), AheadKeys)] {
		k := key(v)
		a.keys[a.n], a.hashes[a.n] = k, hash(k)
		a.n++
	}
}

// Next takes the next key; false if there is none.
func (a *Ahead[K]) Next() (k K, h uint64, ok bool) {
	if i := a.at; uint(i) < uint(a.n) && i < AheadKeys {
		a.at++
		return a.keys[i], a.hashes[i], true
	}
	return k, 0, false
}

// Prefetch brings the rows of the keys of a into the cache, with their slots of the index.
func (d *Directory[K]) Prefetch(a *Ahead[K]) {
	a.of, a.freed = d, d.freed
	n := min(a.n, AheadKeys)
	for i, h := range a.hashes[:n] {
		a.slots[i] = *d.index.Head(h).Slot(h)
	}
	for i, h := range a.hashes[:n] {
		l, s := d.index.Head(h), a.slots[i]
		tag := l.Tag(h)
		a.rows[i] = 0
		for at := h; s != 0; s = *l.Slot(at) {
			if (s^tag)&l.Tags == 0 && *(*K)(d.t.Rows.At(s&^l.Tags - 1)) == a.keys[i] {
				a.rows[i] = s &^ l.Tags
				break
			}
			at++
		}
	}
}

// SeekNext takes the next key of a and makes it the current one; false if there is none. A row that was found is the key's as
// long as no row was freed.
func (d *Directory[K]) SeekNext(a *Ahead[K]) bool {
	i := a.at
	if uint(i) >= uint(a.n) || i >= AheadKeys {
		return false
	}
	a.at++
	if d.t.Ticks--; d.t.Ticks <= 0 {
		d.t.Entry = nil
		d.t.Tick() // may free rows
	}
	r := a.rows[i]
	if r == 0 || a.of != d || a.freed != d.freed {
		d.Seek(a.keys[i], a.hashes[i])
		return true
	}
	d.key, d.keyH = a.keys[i], a.hashes[i]
	d.t.Entry, d.t.Row = d.t.Rows.At(r-1), r-1
	if d.t.Refs != nil {
		d.t.Refer(r - 1)
	}
	return true
}
