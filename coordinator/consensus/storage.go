package consensus

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	boltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// Stores are the three stores of a Raft node.
type Stores struct {
	Logs      raft.LogStore
	Stable    raft.StableStore
	Snapshots raft.SnapshotStore
	close     func() error
}

// Close releases the files.
func (s Stores) Close() error {
	if s.close == nil {
		return nil
	}
	return s.close()
}

// HasState reports whether a node has taken part in a cluster.
func (s Stores) HasState() (bool, error) {
	return raft.HasExistingState(s.Logs, s.Stable, s.Snapshots)
}

const (
	logFile  = "raft.db"
	logCache = 512 // entries kept in memory, so that followers that keep up cost no read

	// snapshotsKept: the older one is for people. The store below never serves it.
	snapshotsKept = 2

	// lockWait is how long another process may take to let go of the log, after kill -9 and a restart for instance.
	lockWait = time.Second
)

// OpenStores opens the Raft log and the snapshots under dir. The log is synced on every write; its free list is not
// stored (it can be rebuilt) and kept as a map, since an array gets slow when the log has been long once.
func OpenStores(dir string, log hclog.Logger) (Stores, error) {
	path := filepath.Join(dir, logFile)
	db, err := boltdb.New(boltdb.Options{
		Path: path,
		BoltOptions: &bbolt.Options{
			Timeout:        lockWait,
			NoFreelistSync: true,
			FreelistType:   bbolt.FreelistMapType,
		},
	})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return Stores{}, fmt.Errorf("open raft log %s: in use by another process", path)
	}
	if err != nil {
		return Stores{}, fmt.Errorf("open raft log %s: %w", path, err)
	}
	files, err := raft.NewFileSnapshotStoreWithLogger(dir, snapshotsKept, log)
	if err != nil {
		return Stores{}, errors.Join(fmt.Errorf("open raft snapshots in %s: %w", dir, err), db.Close())
	}
	return Stores{
		Logs:      db,
		Stable:    db,
		Snapshots: &newestSnapshot{SnapshotStore: files, dir: filepath.Join(dir, "snapshots")},
		close:     db.Close,
	}, nil
}

// Watch makes a hung write to the log or to the stable store known: hung is called, on a timer's goroutine, when a write
// has not come back for limit. It also puts the cache in front of the log.
//
// hung must end the process. Raft's leader writes its own log on the main goroutine while heartbeats leave from
// others, so a leader whose disk hangs stays leader for ever and commits nothing; and nothing inside the process can
// take back the write that hangs.
func (s Stores) Watch(limit time.Duration, hung func(operation string)) (Stores, error) {
	w := watchdog{tick: limit / hangTicks, hung: hung}
	cached, err := raft.NewLogCache(logCache, watchedLogs{LogStore: s.Logs, watchdog: w})
	if err != nil {
		return Stores{}, fmt.Errorf("raft log cache: %w", err)
	}
	s.Logs = cached
	s.Stable = watchedStable{StableStore: s.Stable, watchdog: w}
	return s, nil
}

// hangTicks: the limit is counted in ticks of a timer that is armed anew each time, never measured from a clock. A
// process that is stopped as a whole (SIGSTOP, a suspended virtual machine) and goes on sees one late tick, not a disk
// that hung.
const hangTicks = 6

type watchdog struct {
	tick time.Duration
	hung func(operation string)
}

// watch starts counting; the caller ends it with the function returned, when the write has come back.
func (w watchdog) watch(operation string) (done func()) {
	var (
		finished atomic.Bool
		ticks    int // touched by the one timer function that runs at a time
		timer    atomic.Pointer[time.Timer]
		count    func()
	)
	count = func() {
		if finished.Load() {
			return
		}
		if ticks++; ticks >= hangTicks {
			w.hung(operation)
			return
		}
		timer.Store(time.AfterFunc(w.tick, count))
	}
	timer.Store(time.AfterFunc(w.tick, count))
	return func() {
		finished.Store(true)
		timer.Load().Stop()
	}
}

type watchedLogs struct {
	raft.LogStore
	watchdog
}

func (l watchedLogs) StoreLog(entry *raft.Log) error {
	defer l.watch("store log")()
	return l.LogStore.StoreLog(entry)
}

func (l watchedLogs) StoreLogs(entries []*raft.Log) error {
	defer l.watch("store logs")()
	return l.LogStore.StoreLogs(entries)
}

type watchedStable struct {
	raft.StableStore
	watchdog
}

func (s watchedStable) Set(key, value []byte) error {
	defer s.watch("store vote")()
	return s.StableStore.Set(key, value)
}

func (s watchedStable) SetUint64(key []byte, value uint64) error {
	defer s.watch("store term")()
	return s.StableStore.SetUint64(key, value)
}
