package segment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/snapshot"
	"github.com/sluiceio/sluice/snapshot/mem"
)

// bench is a writer with the subtasks of one process.
type bench struct {
	*Writer
	acks chan *snapshotpb.Ack
}

func start(t *testing.T, stores snapshot.Stores, size int64) *bench {
	t.Helper()
	g := run.NewGroup(context.Background(), "process")
	b := &bench{acks: make(chan *snapshotpb.Ack, 16)}
	b.Writer = New(Config{Stores: stores, Job: "job-1", Process: 7, Go: g.Go, Report: func(a *snapshotpb.Ack) { b.acks <- a }, Size: size})
	t.Cleanup(func() {
		g.Stop()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// piece is a part of some bytes.
type piece struct {
	io.WriterTo
	released *atomic.Int32
}

func (p piece) Release() error {
	p.released.Add(1)
	return nil
}

// put hands a part over and waits until it was written, or never will be.
func (b *bench) put(t *testing.T, s *Share, wake <-chan struct{}, data []byte, released *atomic.Int32) *snapshotpb.Part {
	t.Helper()
	meta := &snapshotpb.Part{}
	s.Put(piece{bytes.NewReader(data), released}, meta)
	for s.Busy() {
		<-wake
	}
	return meta
}

func join(t *testing.T, b *bench, checkpoint uint64, m Member) (*Share, chan struct{}) {
	t.Helper()
	wake := make(chan struct{}, 1)
	s := b.Join(1, checkpoint, m, func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	if s == nil {
		t.Fatal("the checkpoint is over")
	}
	return s, wake
}

// TestPartsOfAllSubtasksLieInFewObjects: what is acknowledged is durable, and stands where the parts say.
func TestPartsOfAllSubtasksLieInFewObjects(t *testing.T) {
	for size, segments := range map[int64]int{1: 6, DefaultSize: 1} {
		store := mem.New()
		b := start(t, snapshot.Shared(store), size)
		members := []Member{{0, 0, 1}, {1, 0, 1}}
		var released atomic.Int32
		type written struct {
			part *snapshotpb.Part
			data []byte
		}
		var all []written
		for i, m := range members {
			s, wake := join(t, b, 3, m)
			for k := range 3 {
				data := bytes.Repeat([]byte{byte(i), byte(k)}, 100+10*k)
				all = append(all, written{b.put(t, s, wake, data, &released), data})
			}
			s.Seal(&snapshotpb.Ack{Checkpoint: 3, Chain: m.Chain})
			if i == 0 {
				select {
				case a := <-b.acks:
					t.Fatalf("acknowledged before everybody has written: %v", a)
				default:
				}
			}
		}
		b.Trigger(&taskpb.Trigger{JobEpoch: 1, Checkpoint: 3, Copies: 1}, members)
		named := map[string]bool{}
		for range members {
			for _, o := range (<-b.acks).Segments {
				named[o.Object.Name] = true
			}
		}
		if len(named) != segments {
			t.Errorf("size %d: %d segments, want %d", size, len(named), segments)
		}
		for _, w := range all {
			r, err := store.Open(t.Context(), snapshot.Name(w.part.Segment))
			if err != nil || !named[w.part.Segment] {
				t.Fatalf("%s was not acknowledged: %v", w.part.Segment, err)
			}
			got := make([]byte, w.part.Size)
			if _, err := r.ReadAt(got, w.part.Offset); err != nil && !errors.Is(err, io.EOF) || !bytes.Equal(got, w.data) {
				t.Errorf("%v has other bytes: %v", w.part, err)
			}
		}
		if released.Load() != 6 {
			t.Errorf("%d of 6 parts were released", released.Load())
		}
	}
}

// sick are stores that fail at one step while they are sick.
type sick struct {
	snapshot.Stores
	at    string // create, write or commit
	cause error
	is    atomic.Bool
}

func (s *sick) fail(at string) error {
	if !s.is.Load() || s.at != at {
		return nil
	}
	return &snapshot.WriteError{Where: "snapshots/job-1", Bytes: 7, Cause: s.cause}
}

func (s *sick) Create(ctx context.Context, name snapshot.Name) (snapshot.Upload, error) {
	if err := s.fail("create"); err != nil {
		return nil, err
	}
	u, err := s.Stores.Create(ctx, name)
	return &sickUpload{u, s}, err
}

type sickUpload struct {
	snapshot.Upload
	s *sick
}

func (u *sickUpload) Write(p []byte) (int, error) {
	if err := u.s.fail("write"); err != nil {
		return 0, err
	}
	return u.Upload.Write(p)
}

func (u *sickUpload) Commit(ctx context.Context, targets []*taskpb.StoreAddress, copies int) (*jobpb.StoredObject, error) {
	if err := u.s.fail("commit"); err != nil {
		return nil, err
	}
	return u.Upload.Commit(ctx, targets, copies)
}

// TestAStoreThatFailsCostsTheCheckpointAlone: full, read-only or gone, everybody hears of it with the place, nothing is acknowledged, no
// part stays behind; and the next checkpoint is written once the store takes objects again.
func TestAStoreThatFailsCostsTheCheckpointAlone(t *testing.T) {
	for what, stores := range map[string]*sick{
		"full": {at: "write", cause: syscall.ENOSPC}, "full at the end": {at: "commit", cause: syscall.ENOSPC},
		"read-only": {at: "create", cause: syscall.EROFS}, "gone": {at: "create", cause: syscall.ENOENT},
	} {
		t.Run(what, func(t *testing.T) {
			stores.Stores = snapshot.Shared(mem.New())
			stores.is.Store(true)
			b := start(t, stores, DefaultSize)
			members := []Member{{0, 0, 1}, {1, 0, 1}}
			var released atomic.Int32
			round := func(id uint64) (shares []*Share, wakes []chan struct{}) {
				b.Trigger(&taskpb.Trigger{JobEpoch: 1, Checkpoint: id, Copies: 1}, members)
				for _, m := range members {
					s, wake := join(t, b, id, m)
					shares, wakes = append(shares, s), append(wakes, wake)
				}
				for i, s := range shares {
					b.put(t, s, wakes[i], []byte(fmt.Sprint("part of ", i)), &released)
					s.Seal(&snapshotpb.Ack{Checkpoint: id, Chain: members[i].Chain})
				}
				return shares, wakes
			}
			shares, wakes := round(3)
			for i, s := range shares {
				for s.Err() == nil {
					<-wakes[i]
				}
				var w *snapshot.WriteError
				if err := s.Err(); !errors.As(err, &w) || !errors.Is(err, stores.cause) || !strings.Contains(err.Error(), "E151: snapshots/job-1: 7 bytes") {
					t.Errorf("subtask %d hears %v", i, err)
				}
			}
			stores.is.Store(false)
			round(4)
			for range members {
				if a := <-b.acks; a.Checkpoint != 4 || len(a.Segments) != 1 {
					t.Errorf("acknowledged: %v", a)
				}
			}
			if released.Load() != 4 {
				t.Errorf("%d of 4 parts were released", released.Load())
			}
		})
	}
}
