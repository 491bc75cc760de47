package coordinator

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/proto/commandpb"
)

func entry(t *testing.T, index uint64, cmd *commandpb.Command) *raft.Log {
	t.Helper()
	data, err := proto.Marshal(cmd)
	if err != nil {
		t.Fatal(err)
	}
	return &raft.Log{Index: index, Term: 1, Data: data}
}

func initCluster(name string) *commandpb.Command {
	return &commandpb.Command{Version: state.Version, Command: &commandpb.Command_InitCluster{InitCluster: &commandpb.InitCluster{Cluster: name}}}
}

// sink keeps a snapshot in memory.
type sink struct {
	bytes.Buffer
	closed, cancelled bool
}

func (s *sink) ID() string    { return "x" }
func (s *sink) Close() error  { s.closed = true; return nil }
func (s *sink) Cancel() error { s.cancelled = true; return nil }

func TestSnapshotIsOfOneMoment(t *testing.T) {
	f := newFSM(func(error) {}, func(time.Duration) {})
	f.Apply(entry(t, 1, initCluster("first")))
	snapshot, err := f.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	// Entries after the snapshot, before it is written.
	f.Apply(entry(t, 2, &commandpb.Command{Version: state.Version, Command: &commandpb.Command_PutNode{
		PutNode: &commandpb.PutNode{Node: &commandpb.Node{Id: "late", ApiAddress: "a:1", RaftAddress: "r:1"}},
	}}))
	out := &sink{}
	if err := snapshot.Persist(out); err != nil || !out.closed || out.cancelled {
		t.Fatalf("persist: %v, %v", err, out)
	}
	g := newFSM(func(error) {}, func(time.Duration) {})
	_, changed := g.view()
	if err := g.Restore(io.NopCloser(bytes.NewReader(out.Bytes()))); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	default:
		t.Error("a restore is no change")
	}
	if view, _ := g.view(); view.Cluster() != "first" || view.Index() != 1 || view.Node("late") != nil {
		t.Errorf("restored cluster %q at %d", view.Cluster(), view.Index())
	}
}

func TestFailedRestoreChangesNothing(t *testing.T) {
	f := newFSM(func(error) {}, func(time.Duration) {})
	f.Apply(entry(t, 1, initCluster("mine")))
	before, changed := f.view()
	if err := f.Restore(io.NopCloser(bytes.NewReader([]byte("no snapshot")))); err == nil || f.restoreProblem() == nil {
		t.Fatalf("restored garbage: %v", err)
	}
	after, _ := f.view()
	select {
	case <-changed:
		t.Error("a failed restore is a change")
	default:
	}
	if after != before || f.restores.Load() != 0 {
		t.Error("a failed restore has changed the facts")
	}
}

func TestNewerEntryHaltsForGood(t *testing.T) {
	var reasons []error
	f := newFSM(func(err error) { reasons = append(reasons, err) }, func(time.Duration) {})
	f.Apply(entry(t, 1, initCluster("mine")))
	newer := initCluster("x")
	newer.Version = state.Version + 1
	if got := f.Apply(entry(t, 2, newer)); got != errHalted {
		t.Errorf("answered %v", got)
	}
	if got := f.Apply(entry(t, 3, initCluster("y"))); got != errHalted {
		t.Errorf("went on: %v", got)
	}
	if _, err := f.Snapshot(); !errors.Is(err, errHalted) {
		t.Errorf("a snapshot after the halt: %v", err)
	}
	if view, _ := f.view(); len(reasons) != 1 || view.Index() != 1 {
		t.Errorf("%d reasons, facts at %d", len(reasons), view.Index())
	}
}

func TestViewTellsOfChanges(t *testing.T) {
	f := newFSM(func(error) {}, func(time.Duration) {})
	view, changed := f.view()
	select {
	case <-changed:
		t.Fatal("changed before anything happened")
	default:
	}
	f.Apply(entry(t, 1, initCluster("mine")))
	<-changed
	if now, again := f.view(); now.Index() != 1 || view.Index() != 0 || again == changed {
		t.Errorf("from %d to %d", view.Index(), now.Index())
	}
}
