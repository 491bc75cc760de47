package consensus

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hashicorp/raft"
)

// UnreadableSnapshotError says that the newest snapshot cannot be used.
type UnreadableSnapshotError struct {
	Path  string
	Cause error
}

func (e *UnreadableSnapshotError) Error() string {
	return fmt.Sprintf("newest raft snapshot %s is unreadable: %v; an older one is no replacement, because log entries after it"+
		" are gone and this node may have voted on them: move the data directory away and let the node join anew,"+
		" or restore it from a backup", e.Path, e.Cause)
}

func (e *UnreadableSnapshotError) Unwrap() error { return e.Cause }

// newestSnapshot is a snapshot store that has one snapshot at most: the newest.
//
// Raft's own store skips a snapshot that it cannot read and offers the next older one, at start and when a follower needs
// one. What the log held between the two was compacted away, so the node would come up with a hole, call it a state, and
// serve it. Here an unreadable newest snapshot is an error, always.
type newestSnapshot struct {
	raft.SnapshotStore
	dir string // where the file store keeps one directory per snapshot, named term-index-milliseconds
}

// List returns the newest snapshot, or none if there never was one.
func (s *newestSnapshot) List() ([]*raft.SnapshotMeta, error) {
	// Names first: a snapshot that is published in between then only makes the store's answer newer than the names.
	newest, err := s.newestName()
	if err != nil {
		return nil, err
	}
	metas, err := s.SnapshotStore.List()
	if err != nil {
		return nil, err
	}
	if newest.dir == "" {
		return metas[:min(1, len(metas))], nil
	}
	if len(metas) == 0 || parseSnapshotName(metas[0].ID).before(newest) {
		return nil, &UnreadableSnapshotError{Path: filepath.Join(s.dir, newest.dir), Cause: errors.New("its metadata cannot be read")}
	}
	return metas[:1], nil
}

// Open opens a snapshot, whose checksum is verified in full before the first byte is handed out.
func (s *newestSnapshot) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	meta, r, err := s.SnapshotStore.Open(id)
	if err != nil {
		return nil, nil, &UnreadableSnapshotError{Path: filepath.Join(s.dir, id), Cause: err}
	}
	return meta, r, nil
}

func (s *newestSnapshot) newestName() (snapshotName, error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return snapshotName{}, nil
	}
	if err != nil {
		return snapshotName{}, fmt.Errorf("list raft snapshots: %w", err)
	}
	var newest snapshotName
	for _, e := range entries {
		if !e.IsDir() || strings.HasSuffix(e.Name(), ".tmp") {
			continue // never published
		}
		if n := parseSnapshotName(e.Name()); newest.before(n) {
			newest = n
		}
	}
	return newest, nil
}

// snapshotName is what the name of a snapshot's directory tells; the zero value is before all others.
type snapshotName struct {
	dir                string
	term, index, milli uint64
}

func parseSnapshotName(dir string) snapshotName {
	n := snapshotName{dir: dir}
	parts := strings.Split(dir, "-")
	for i, field := range []*uint64{&n.term, &n.index, &n.milli} {
		if i < len(parts) {
			// A name that is no number sorts first; the file store lists it or not, as it can read it.
			*field, _ = strconv.ParseUint(parts[i], 10, 64)
		}
	}
	return n
}

func (n snapshotName) before(o snapshotName) bool {
	switch {
	case n.term != o.term:
		return n.term < o.term
	case n.index != o.index:
		return n.index < o.index
	case n.milli != o.milli:
		return n.milli < o.milli
	}
	return n.dir < o.dir
}

// CheckNewest reads the newest snapshot in full, so that a start fails with the reason instead of with Raft's summary.
func CheckNewest(store raft.SnapshotStore) error {
	metas, err := store.List()
	if err != nil {
		return err
	}
	if len(metas) == 0 {
		return nil
	}
	_, r, err := store.Open(metas[0].ID)
	if err != nil {
		return err
	}
	return r.Close()
}
