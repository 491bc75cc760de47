package overflow

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"github.com/sluiceio/sluice/worker/state/budget"
)

const (
	memtableBytes = 4 << 20
	memtables     = 2
	tableBytes    = 1 << 20
	// inlineBytes is the largest value that Badger keeps beside its key; longer ones would go to the value log, whose
	// garbage nobody collects. Values are split below that.
	inlineBytes = 128 << 10
	// storeBytes is what an open Badger needs: memtables, and as much for those that are being written.
	storeBytes = 2 * memtables * memtableBytes * 3 / 4
)

// Config of a Store.
type Config struct {
	// Dir is the directory of the store, which is emptied. Empty: everything stays in memory, for tests.
	Dir string
	// Budget takes account of the memory that Badger needs; nil: nobody does.
	Budget *budget.Budget
}

// Store is the overflow of a task process.
type Store struct {
	cfg   Config
	share *budget.Share

	mu struct {
		sync.Mutex
		db     *badger.DB // nil until the first batch
		areas  uint32     // numbers given out
		closed bool
		dead   [][]byte // prefixes of keys that nobody reads any more
	}
	wake chan struct{} // has an element when dead may have one
}

// New empties the directory.
func New(c Config) (*Store, error) {
	if c.Dir != "" {
		if err := os.RemoveAll(c.Dir); err != nil {
			return nil, fmt.Errorf("empty the overflow of the state: %w", err)
		}
	}
	return &Store{cfg: c, share: c.Budget.Open(budget.Fixed), wake: make(chan struct{}, 1)}, nil
}

// errClosed is used after Close.
var errClosed = errors.New("the overflow of the state is closed")

// open is the database, opened if it has to be.
func (s *Store) open() (*badger.DB, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return nil, errClosed
	}
	if s.mu.db != nil {
		return s.mu.db, nil
	}
	o := badger.DefaultOptions(s.cfg.Dir).WithInMemory(s.cfg.Dir == "").WithLogger(nil).
		WithSyncWrites(false).WithDetectConflicts(false).WithMetricsEnabled(false).WithNumVersionsToKeep(1).
		WithCompression(options.None).WithBlockCacheSize(0).WithIndexCacheSize(0).WithNumGoroutines(1).
		WithNumMemtables(memtables).WithMemTableSize(memtableBytes).WithBaseTableSize(tableBytes).
		WithValueLogFileSize(2 << 20).WithValueThreshold(inlineBytes).
		WithNumCompactors(2).WithNumLevelZeroTables(4).WithNumLevelZeroTablesStall(12)
	if s.cfg.Dir != "" {
		if err := os.MkdirAll(s.cfg.Dir, 0o700); err != nil {
			return nil, fmt.Errorf("overflow of the state: %w", err)
		}
	}
	db, err := badger.Open(o)
	if err != nil {
		return nil, fmt.Errorf("open the overflow of the state in %s: %w", s.cfg.Dir, err)
	}
	s.mu.db = db
	s.share.Set(storeBytes)
	return db, nil
}

// opened is the database, or nil if nothing was written yet.
func (s *Store) opened() *badger.DB {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.db
}

// Opened reports whether anything has been written, so that Badger runs.
func (s *Store) Opened() bool { return s.opened() != nil }

// Area makes an area of its own.
func (s *Store) Area() *Area {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.areas++
	return newArea(s, s.mu.areas)
}

func (s *Store) discard(prefix []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.db == nil || s.mu.closed {
		return
	}
	s.mu.dead = append(s.mu.dead, append([]byte(nil), prefix...))
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run removes what areas have discarded, until ctx ends. Without it, that room is taken until Close. It is one task of
// the process, and ends before Close.
func (s *Store) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		}
		if err := s.clean(ctx); err != nil {
			return fmt.Errorf("clean the overflow of the state: %w", err)
		}
	}
}

// clean removes what has been discarded so far.
func (s *Store) clean(ctx context.Context) error {
	for ctx.Err() == nil {
		prefix, db := s.nextDead()
		if prefix == nil {
			break
		}
		if err := removeAll(ctx, db, prefix); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) nextDead() ([]byte, *badger.DB) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.dead) == 0 {
		return nil, nil
	}
	prefix := s.mu.dead[0]
	s.mu.dead = s.mu.dead[1:]
	return prefix, s.mu.db
}

// removeAtOnce is how many records are removed by one transaction.
const removeAtOnce = 512

// removeAll deletes keys one by one: dropping a prefix would stop all writes meanwhile.
func removeAll(ctx context.Context, db *badger.DB, prefix []byte) error {
	inPieces := binary.BigEndian.AppendUint32(nil, pieces)
	for _, p := range [][]byte{prefix, append(inPieces, prefix...)} {
		for ctx.Err() == nil {
			n, err := removeSome(db, p)
			if err != nil {
				return err
			}
			if n < removeAtOnce {
				break
			}
		}
	}
	return nil
}

func removeSome(db *badger.DB, prefix []byte) (n int, err error) {
	var keys [][]byte
	err = db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{Prefix: prefix})
		defer it.Close()
		for it.Rewind(); it.Valid() && len(keys) < removeAtOnce; it.Next() {
			keys = append(keys, it.Item().KeyCopy(nil))
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(keys), db.Update(func(txn *badger.Txn) error {
		for _, k := range keys {
			if err := txn.Delete(k); err != nil {
				return err
			}
		}
		return nil
	})
}

// Close ends Badger and removes its directory. All areas must be closed.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return nil
	}
	s.mu.closed = true
	s.share.Close()
	var errs []error
	if s.mu.db != nil {
		errs = append(errs, s.mu.db.Close())
	}
	if s.cfg.Dir != "" {
		errs = append(errs, os.RemoveAll(s.cfg.Dir))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close the overflow of the state: %w", err)
	}
	return nil
}
