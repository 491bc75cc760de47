package stored

import (
	"context"

	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/shuffle/stored/partition"
)

// Name is the full name of a partition.
type Name = partition.Name

// Found is a finished partition in a store.
type Found struct {
	Name  Name
	Bytes int64 // on disk, index included
}

// Store is a directory of partitions. It may be used from any goroutine, and several stores, in several processes, may
// share a directory as long as one of them alone was opened by Open: that one owns it.
type Store struct {
	fs  vfs.FS
	dir string
}

// Open takes over a directory, which is made if it is missing: what unfinished attempts have left is removed, and
// finished partitions are found. No process may write in it at that time.
func Open(fsys vfs.FS, dir string) (*Store, error) { return nil, errUnbuilt }

// Join uses a directory that another process owns: nothing is removed or looked for.
func Join(fsys vfs.FS, dir string) (*Store, error) { return nil, errUnbuilt }

// Inventory lists the finished partitions that this store knows of, in the order of their names: those that Open has
// found, those that were published through this store, and those of Learn.
func (s *Store) Inventory() []Found { return nil }

// Usage is the number of partitions that Inventory would list, and their size together.
func (s *Store) Usage() (partitions int, bytes int64) { return 0, 0 }

// Learn notes partitions that another process has published, and wakes whoever waits for them.
func (s *Store) Learn(found ...Found) {}

// Drop deletes partitions durably; those that are not there are fine. Readers that have one open read on.
func (s *Store) Drop(names ...Name) error { return errUnbuilt }

// DropJob deletes every partition of a job durably.
func (s *Store) DropJob(job string) error { return errUnbuilt }

// Wait blocks until the partition is finished. It fails when ctx ends or when the partition is dropped meanwhile.
func (s *Store) Wait(ctx context.Context, n Name) error { return errUnbuilt }
