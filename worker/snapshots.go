package worker

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/worker/chunks"
)

const (
	// PeerStore keeps the objects of checkpoints in the data directories of several workers.
	PeerStore = "peer"
	// fileStore begins the name of a directory that all machines share.
	fileStore = "file:"
)

func checkSnapshotStore(s string) error {
	dir, shared := strings.CutPrefix(s, fileStore)
	if s == PeerStore || shared && filepath.IsAbs(dir) {
		return nil
	}
	return fmt.Errorf("snapshot store %q: peer, or file: and an absolute path", s)
}

// openChunks opens the worker's store: a directory of its own, or the one that all share, which each of them serves to coordinators.
// Task processes make no directory of a store, so that one that has gone away is noticed.
func openChunks(c Config, id string) (*chunks.Keeper, error) {
	dir, shared := strings.CutPrefix(c.SnapshotStore, fileStore)
	if !shared {
		dir = filepath.Join(c.DataDir, snapshotsName)
	}
	return chunks.Open(chunks.Config{FS: vfs.OS{}, Dir: dir, Shared: shared, Worker: id, Policy: c.Policy, Log: c.Log, Scrub: c.Scrub})
}

// snapshots tells task processes where their objects go.
func (a *agent) snapshots() string {
	if strings.HasPrefix(a.cfg.SnapshotStore, fileStore) {
		return a.cfg.SnapshotStore
	}
	return PeerStore + ":" + a.chunks.Dir()
}
