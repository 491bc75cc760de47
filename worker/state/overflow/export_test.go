package overflow

import (
	"context"

	"github.com/dgraph-io/badger/v4"
)

// Count is the number of keys in Badger.
func (s *Store) Count() (n int) {
	err := s.opened().View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			n++
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
	return n
}

// Clean removes what has been discarded so far.
func (s *Store) Clean(ctx context.Context) error { return s.clean(ctx) }
