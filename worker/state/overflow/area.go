package overflow

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

const (
	// batchBytes and batchRecords bound what is collected before it is written, if nobody sets a limit. Badger takes both
	// in one transaction.
	batchBytes   = 256 << 10
	batchRecords = 1024
	// splitBytes is the size of the pieces of a long value.
	splitBytes = 96 << 10
	// MaxKey bounds a key, in bytes. A unit with a longer key cannot leave memory.
	MaxKey = 32 << 10
	// txnReads is after how many reads the transaction that they share is renewed, so that it does not keep old versions
	// alive.
	txnReads = 4096
	// prefixBytes is the length of an area's own prefix of its keys.
	prefixBytes = 4
)

// Forms of a stored value.
const (
	whole = 0 // the value follows
	split = 1 // the number of pieces follows, as varint
)

// pieces is the prefix of the keys of pieces; no area has this number.
const pieces = ^uint32(0)

// Area is the part of a Store that belongs to one table. Errors of Badger are final: the attempt must end.
type Area struct {
	store  *Store
	prefix [prefixBytes]byte
	active batch // collects
	flight batch // is being written
	done   chan error
	flying bool

	limit int // of a batch, in bytes

	txn   *badger.Txn // nil: none
	reads int
	value []byte // scratch
	stats Stats
	long  map[string]uint16 // keys whose values are split, with the number of pieces
}

// Stats counts what an area has done.
type Stats struct {
	Written int64 // records
	Read    int64 // records that were asked from Badger
	Absent  int64 // of these, not there
}

// batch is a set of records by key; nil is a deletion.
type batch struct {
	m     map[string][]byte
	bytes int
}

func newArea(s *Store, number uint32) *Area {
	a := &Area{store: s, done: make(chan error, 1), limit: batchBytes}
	binary.BigEndian.PutUint32(a.prefix[:], number)
	a.active.m, a.flight.m, a.long = map[string][]byte{}, map[string][]byte{}, map[string]uint16{}
	return a
}

// Limit bounds what is collected before it is written, in bytes: half of what Bytes may grow to.
func (a *Area) Limit(bytes int) { a.limit = min(bytes, batchBytes) }

// Prefix is what every key of the area begins with.
func (a *Area) Prefix() []byte { return a.prefix[:] }

// Put writes a record, whose key begins with Prefix. Both are copied.
func (a *Area) Put(key, value []byte) error {
	return a.add(key, append(make([]byte, 0, len(value)), value...))
}

// Delete removes a record, if there is one.
func (a *Area) Delete(key []byte) error { return a.add(key, nil) }

func (a *Area) add(key, value []byte) error {
	if len(key) > MaxKey {
		return fmt.Errorf("a key of %d bytes cannot be moved out of memory", len(key))
	}
	if a.active.bytes > 0 && (a.active.bytes+len(key)+len(value) > a.limit || len(a.active.m) >= batchRecords) {
		if err := a.launch(); err != nil {
			return err
		}
	}
	old, known := a.active.m[string(key)]
	if !known {
		a.active.bytes += len(key) + recordOverhead
	}
	a.active.bytes += len(value) - len(old)
	a.active.m[string(key)] = value
	a.stats.Written++
	return nil
}

// recordOverhead is what a record takes beyond its bytes while it waits, about.
const recordOverhead = 96

// launch begins to write the active batch, after the one before has arrived.
func (a *Area) launch() error {
	if err := a.land(); err != nil {
		return err
	}
	if len(a.active.m) == 0 {
		return nil
	}
	db, err := a.store.open()
	if err != nil {
		return err
	}
	txn := db.NewTransaction(true)
	for k, v := range a.active.m {
		if txn, err = a.set(db, txn, []byte(k), v); err != nil {
			txn.Discard()
			return fmt.Errorf("write to the overflow of the state: %w", err)
		}
	}
	a.active, a.flight = a.flight, a.active
	a.flying = true
	txn.CommitWith(func(err error) { a.done <- err })
	return nil
}

// set adds a record to a transaction, and begins another one if that is full.
func (a *Area) set(db *badger.DB, txn *badger.Txn, key, value []byte) (*badger.Txn, error) {
	var err error
	put := func(k, v []byte) {
		if err != nil {
			return
		}
		write := func() error {
			if v == nil {
				return txn.Delete(k)
			}
			return txn.SetEntry(&badger.Entry{Key: k, Value: v})
		}
		if err = write(); errors.Is(err, badger.ErrTxnTooBig) {
			if err = txn.Commit(); err == nil {
				txn = db.NewTransaction(true)
				err = write()
			}
		}
	}
	n := uint16(0) // pieces
	switch {
	case value == nil:
		put(key, nil)
	case len(value) <= splitBytes:
		put(key, append([]byte{whole}, value...))
	default:
		for ; len(value) > 0; n++ {
			piece := value[:min(len(value), splitBytes)]
			put(pieceKey(key, n), piece)
			value = value[len(piece):]
		}
		put(key, binary.AppendUvarint([]byte{split}, uint64(n)))
	}
	for i := n; i < a.long[string(key)]; i++ { // of the value before
		put(pieceKey(key, i), nil)
	}
	if n > 0 {
		a.long[string(key)] = n
	} else {
		delete(a.long, string(key))
	}
	return txn, err
}

func pieceKey(key []byte, n uint16) []byte {
	k := binary.BigEndian.AppendUint32(make([]byte, 0, len(key)+6), pieces)
	return binary.BigEndian.AppendUint16(append(k, key...), n)
}

// land waits for the batch that is being written.
func (a *Area) land() error {
	if !a.flying {
		return nil
	}
	err := <-a.done
	a.flying = false
	clear(a.flight.m)
	a.flight.bytes = 0
	a.renew()
	if err != nil {
		return fmt.Errorf("write to the overflow of the state: %w", err)
	}
	return nil
}

// Sync writes what was collected, and waits for it.
func (a *Area) Sync() error {
	if err := a.launch(); err != nil {
		return err
	}
	return a.land()
}

// renew ends the transaction of the reads.
func (a *Area) renew() {
	if a.txn != nil {
		a.txn.Discard()
		a.txn, a.reads = nil, 0
	}
}

// Idle lets go what an area holds between batches of records.
func (a *Area) Idle() { a.renew() }

// Get is the value of a key, valid until the next call.
func (a *Area) Get(key []byte) (value []byte, ok bool, err error) {
	for _, b := range []*batch{&a.active, &a.flight} {
		if v, known := b.m[string(key)]; known {
			return v, v != nil, nil
		}
	}
	db := a.store.opened()
	if db == nil {
		return nil, false, nil
	}
	if a.reads++; a.txn == nil || a.reads > txnReads {
		a.renew()
		a.txn = db.NewTransaction(false)
	}
	a.stats.Read++
	item, err := a.txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		a.stats.Absent++
		return nil, false, nil
	}
	if err == nil {
		a.value, err = a.load(a.txn, item, a.value[:0])
	}
	if err != nil {
		return nil, false, fmt.Errorf("read from the overflow of the state: %w", err)
	}
	return a.value, true, nil
}

// load appends the value of an item.
func (a *Area) load(txn *badger.Txn, item *badger.Item, dst []byte) ([]byte, error) {
	n := -1 // pieces
	err := item.Value(func(v []byte) error {
		if len(v) == 0 {
			return errors.New("an empty record")
		}
		if v[0] == whole {
			dst = append(dst, v[1:]...)
			return nil
		}
		count, m := binary.Uvarint(v[1:])
		if v[0] != split || m <= 0 || count > 1<<16 {
			return fmt.Errorf("a record of form %d", v[0])
		}
		n = int(count)
		return nil
	})
	for i := 0; i < n && err == nil; i++ {
		var piece *badger.Item
		if piece, err = txn.Get(pieceKey(item.Key(), uint16(i))); err == nil {
			err = piece.Value(func(v []byte) error {
				dst = append(dst, v...)
				return nil
			})
		}
	}
	return dst, err
}

// Scan calls f for the records whose keys begin with prefix and are at least from, in the order of their keys, until f
// returns false. It sees what was written before; f may write. Key and value are valid during the call.
func (a *Area) Scan(prefix, from []byte, f func(key, value []byte) (bool, error)) error {
	if err := a.Sync(); err != nil {
		return err
	}
	db := a.store.opened()
	if db == nil {
		return nil
	}
	txn := db.NewTransaction(false)
	defer txn.Discard()
	it := txn.NewIterator(badger.IteratorOptions{Prefix: prefix})
	defer it.Close()
	if bytes.Compare(from, prefix) < 0 {
		from = prefix
	}
	var key, value []byte
	for it.Seek(from); it.Valid(); it.Next() {
		var err error
		key = it.Item().KeyCopy(key)
		if value, err = a.load(txn, it.Item(), value[:0]); err != nil {
			return fmt.Errorf("read from the overflow of the state: %w", err)
		}
		if more, err := f(key, value); err != nil || !more {
			return err
		}
	}
	return nil
}

// Bytes is the memory of the batches that are not written yet.
func (a *Area) Bytes() int { return a.active.bytes + a.flight.bytes }

// Stats counts what the area has done.
func (a *Area) Stats() Stats { return a.stats }

// Discard forgets all records whose keys begin with prefix, in the background: no record with such a key may be
// written any more.
func (a *Area) Discard(prefix []byte) error {
	if err := a.Sync(); err != nil {
		return err
	}
	a.store.discard(prefix)
	return nil
}

// Close waits for what is being written, and forgets all records.
func (a *Area) Close() error {
	a.renew()
	err := a.land()
	a.active, a.flight = batch{}, batch{}
	a.store.discard(a.prefix[:])
	return err
}
