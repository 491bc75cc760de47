package consensus

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/sluiceio/sluice/internal/vfs"
)

// slowStore takes its time for every write.
type slowStore struct {
	*raft.InmemStore
	takes time.Duration
}

func (s *slowStore) StoreLogs(l []*raft.Log) error {
	<-time.After(s.takes)
	return s.InmemStore.StoreLogs(l)
}

func (s *slowStore) SetUint64(k []byte, v uint64) error {
	<-time.After(s.takes)
	return s.InmemStore.SetUint64(k, v)
}

func TestHungWritesAreNoticedAndSlowOnesAreNot(t *testing.T) {
	for _, c := range []struct {
		takes time.Duration
		hung  bool
	}{{0, false}, {2900 * time.Millisecond, false}, {3100 * time.Millisecond, true}, {time.Hour, true}} {
		synctest.Test(t, func(t *testing.T) {
			slow := &slowStore{InmemStore: raft.NewInmemStore(), takes: c.takes}
			told := make(chan time.Duration, 4)
			start := time.Now()
			w, err := Stores{Logs: slow, Stable: slow}.Watch(3*time.Second, func(string) { told <- time.Since(start) })
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Logs.StoreLogs([]*raft.Log{{Index: 1, Term: 1}}); err != nil {
				t.Fatal(err)
			}
			if err := w.Stable.SetUint64([]byte("term"), 1); err != nil {
				t.Fatal(err)
			}
			<-time.After(2 * time.Hour) // no timer is left that could speak later
			want := 0
			if c.hung {
				want = 2
			}
			if len(told) != want {
				t.Errorf("writes of %s: told %d times, want %d", c.takes, len(told), want)
			}
			if c.hung {
				if at := <-told; at != 3*time.Second {
					t.Errorf("told after %s, want 3 s", at)
				}
			}
		})
	}
}

func TestLogHasOneOwner(t *testing.T) {
	dir := t.TempDir()
	first, err := OpenStores(dir, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenStores(dir, hclog.NewNullLogger()); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("opened twice: %v", err)
	}
	if has, err := first.HasState(); err != nil || has {
		t.Errorf("a new directory has state: %t, %v", has, err)
	}
	if err := first.Logs.StoreLog(&raft.Log{Index: 1, Term: 1}); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := OpenStores(dir, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	if has, err := again.HasState(); err != nil || !has {
		t.Errorf("the log was forgotten: %t, %v", has, err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

func openSnapshots(t *testing.T, dir string) raft.SnapshotStore {
	t.Helper()
	s, err := OpenStores(dir, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s.Snapshots
}

func take(t *testing.T, s raft.SnapshotStore, index uint64, data string) string {
	t.Helper()
	_, encoder := raft.NewInmemTransport("a")
	sink, err := s.Create(raft.SnapshotVersionMax, index, 1, raft.Configuration{}, 1, encoder)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(sink, data); err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	return sink.ID()
}

func TestOnlyTheNewestSnapshotExists(t *testing.T) {
	dir := t.TempDir()
	s := openSnapshots(t, dir)
	if err := CheckNewest(s); err != nil {
		t.Fatalf("no snapshot at all: %v", err)
	}
	take(t, s, 9, "older")
	newest := take(t, s, 10, "newer")
	if err := os.Mkdir(filepath.Join(dir, "snapshots", "1-99-99.tmp"), 0o755); err != nil {
		t.Fatal(err) // never published
	}
	list, err := s.List()
	if err != nil || len(list) != 1 || list[0].ID != newest {
		t.Fatalf("list %v, %v", list, err)
	}
	if err := CheckNewest(s); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "snapshots", newest, "state.bin"), []byte("nexer"), 0o600); err != nil {
		t.Fatal(err)
	}
	var unreadable *UnreadableSnapshotError
	if err := CheckNewest(s); !errors.As(err, &unreadable) {
		t.Errorf("a flipped bit: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "snapshots", newest, "meta.json")); err != nil {
		t.Fatal(err)
	}
	if list, err := s.List(); !errors.As(err, &unreadable) {
		t.Errorf("without metadata the list is %v, %v", list, err)
	}
	take(t, s, 11, "newest") // a snapshot that is newer makes it right again
	if err := CheckNewest(s); err != nil {
		t.Errorf("after a newer snapshot: %v", err)
	}
}

func TestSyncTimeIsMeasuredAndLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	took, err := SyncTime(vfs.OS{}, dir)
	if err != nil || took <= 0 {
		t.Errorf("%s, %v", took, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
	broken := vfs.WithFaults(vfs.NewMem(), func(op vfs.Operation, _ string) vfs.Fault {
		if op == vfs.OpSync {
			return vfs.Fault{Err: errors.New("input/output error")}
		}
		return vfs.Fault{}
	})
	if _, err := SyncTime(broken, "/"); err == nil {
		t.Error("a disk that cannot sync was measured")
	}
}
