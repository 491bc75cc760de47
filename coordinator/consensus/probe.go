package consensus

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/sluiceio/sluice/internal/vfs"
)

const (
	probeName  = "sync-probe"
	probeBytes = 4096
	probeTries = 7
)

// SyncTime measures how long the disk under dir takes to make a small write durable: the median of a few.
func SyncTime(fsys vfs.FS, dir string) (_ time.Duration, err error) {
	name := path.Join(dir, probeName)
	f, err := vfs.Create(fsys, name)
	if err != nil {
		return 0, fmt.Errorf("measure the disk: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close(), fsys.Remove(name)) }()
	block := make([]byte, probeBytes)
	took := make([]time.Duration, probeTries)
	for i := range took {
		start := time.Now()
		if _, err := f.Write(block); err != nil {
			return 0, fmt.Errorf("measure the disk: %w", err)
		}
		if err := f.Sync(); err != nil {
			return 0, fmt.Errorf("measure the disk: %w", err)
		}
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}
