package coordinator_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/coordinator"
	"github.com/sluiceio/sluice/coordinator/internal/clustertest"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/commandpb"
)

// hangingLogs stop writing when they are told to, for ever.
type hangingLogs struct {
	raft.LogStore
	hang    atomic.Bool
	release chan struct{}
}

func (h *hangingLogs) StoreLogs(entries []*raft.Log) error {
	if h.hang.Load() {
		<-h.release
		return errors.New("never written")
	}
	return h.LogStore.StoreLogs(entries)
}

func TestLeaderWithHungDiskEndsAndAnotherLeads(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		disks := map[string]*hangingLogs{}
		exits := make(chan string, 16)
		c := clustertest.New(t, clustertest.Options{Parts: func(name string, p *coordinator.Parts) {
			disks[name] = &hangingLogs{LogStore: p.Stores.Logs, release: make(chan struct{})}
			p.Stores.Logs = disks[name]
			p.Exit = func(code int) {
				if code != coordinator.ExitHung {
					t.Errorf("exit code %d", code)
				}
				exits <- name
			}
		}})
		leader := c.AwaitLeader()
		digest := mustUpload(t, leader, "a")
		disks[leader.Name].hang.Store(true)
		start := time.Now()
		submit, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		_, err := leader.Jobs().Submit(submit, &apipb.SubmitRequest{Spec: clustertest.Spec("job", digest), RequestId: "r"})
		cancel()
		if err == nil {
			t.Fatal("a leader with a hung disk has committed something")
		}
		select {
		case name := <-exits:
			if name != leader.Name {
				t.Fatalf("%s exits, want %s", name, leader.Name)
			}
		case <-time.After(time.Minute):
			t.Fatal("nobody exits")
		}
		if took := time.Since(start); took < 3*time.Second || took > 4*time.Second {
			t.Errorf("the hang was noticed after %s, want 3 s", took)
		}
		// The exit takes the process off the network; what hangs is released only so that the test can end.
		leader.Unplug()
		close(disks[leader.Name].release)
		if err := leader.Kill(); err != nil {
			t.Fatal(err)
		}
		mustSubmit(t, c.AwaitLeader(), digest, "r")
	})
}

func TestPausedWriteShorterThanTheLimitIsNoHang(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		slow := &slowLogs{}
		c := clustertest.New(t, clustertest.Options{Nodes: 1, Parts: func(_ string, p *coordinator.Parts) {
			slow.LogStore = p.Stores.Logs
			p.Stores.Logs = slow
			p.Exit = func(code int) { t.Errorf("exit %d although the disk is only slow", code) }
		}})
		leader := c.AwaitLeader()
		slow.pause.Store(int64(2500 * time.Millisecond))
		mustUpload(t, leader, "a")
	})
}

type slowLogs struct {
	raft.LogStore
	pause atomic.Int64
}

func (s *slowLogs) StoreLogs(entries []*raft.Log) error {
	<-time.After(time.Duration(s.pause.Load()))
	return s.LogStore.StoreLogs(entries)
}

func TestDifferentHistoriesStopTheCluster(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{})
		leader := c.AwaitLeader()
		mustSubmit(t, leader, mustUpload(t, leader, "a"), "r1")
		victim := c.Followers(leader)[0]
		after(t, 2*time.Second)
		if err := victim.Kill(); err != nil {
			t.Fatal(err)
		}
		falsify(t, victim.Logs())
		victim.Start()
		// Whoever leads compares, writes down why it stops, and stops; so does its successor.
		stopped := 0
		for begin := time.Now(); stopped == 0 && time.Since(begin) < time.Minute; {
			for _, n := range c.Nodes() {
				if n.Running() && n.Ended() {
					err := n.Wait()
					if err == nil || !strings.Contains(err.Error(), "differ from those of coordinator") {
						t.Fatalf("%s ended with %v", n.Name, err)
					}
					stopped++
					if err := n.TryStart(); err == nil || !strings.Contains(err.Error(), "must not go on by itself") {
						t.Errorf("%s starts again: %v", n.Name, err)
					}
				}
			}
			after(t, 100*time.Millisecond)
		}
		if stopped == 0 {
			t.Error("nobody has noticed that the histories differ")
		}
	})
}

// falsify changes the first submit in a log: another name for the job, as a flipped bit on the disk would.
func falsify(t *testing.T, logs *raft.InmemStore) {
	t.Helper()
	last, err := logs.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	for i := uint64(1); i <= last; i++ {
		var entry raft.Log
		if err := logs.GetLog(i, &entry); err != nil || entry.Type != raft.LogCommand {
			continue
		}
		cmd := &commandpb.Command{}
		if err := proto.Unmarshal(entry.Data, cmd); err != nil {
			t.Fatal(err)
		}
		if cmd.GetSubmitJob() == nil {
			continue
		}
		cmd.GetSubmitJob().Spec.Name = "jpb"
		if entry.Data, err = proto.Marshal(cmd); err != nil {
			t.Fatal(err)
		}
		if err := logs.StoreLog(&entry); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatal("no submit in the log")
}

func TestEntryFromANewerReleaseStopsTheNode(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{Nodes: 1})
		n := c.AwaitLeader()
		if err := n.Kill(); err != nil {
			t.Fatal(err)
		}
		last, err := n.Logs().LastIndex()
		if err != nil {
			t.Fatal(err)
		}
		var entry raft.Log
		if err := n.Logs().GetLog(last, &entry); err != nil {
			t.Fatal(err)
		}
		entry.Index, entry.Type = last+1, raft.LogCommand
		if entry.Data, err = proto.Marshal(&commandpb.Command{Version: state.Version + 1}); err != nil {
			t.Fatal(err)
		}
		if err := n.Logs().StoreLog(&entry); err != nil {
			t.Fatal(err)
		}
		n.Start()
		if err := n.Wait(); err == nil || !strings.Contains(err.Error(), "newer than this binary") {
			t.Errorf("the node ended with %v", err)
		}
	})
}

func TestFollowerFarBehindGetsASnapshot(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{Configure: func(_ string, cfg *coordinator.Config) {
			cfg.SnapshotInterval, cfg.SnapshotThreshold, cfg.TrailingLogs = time.Second, 20, 5
		}})
		leader := c.AwaitLeader()
		digest := mustUpload(t, leader, "a")
		late := c.Followers(leader)[0]
		if err := late.Kill(); err != nil {
			t.Fatal(err)
		}
		for i := range 60 {
			mustSubmit(t, leader, digest, fmt.Sprint("r", i))
		}
		after(t, 5*time.Second)
		if first, err := leader.Logs().FirstIndex(); err != nil || first < 10 {
			t.Fatalf("the log begins at %d (%v): nothing was compacted, the test shows nothing", first, err)
		}
		late.Start()
		c.Eventually(20*time.Second, "the late follower has all jobs", func(ctx context.Context) error {
			resp, err := late.Jobs().List(ctx, &apipb.ListRequest{Stale: true})
			if err == nil && len(resp.Jobs) != 60 {
				err = fmt.Errorf("%d jobs", len(resp.Jobs))
			}
			return err
		})
		// Equal facts, equal chains: the leader goes on.
		after(t, 5*time.Second)
		if now := c.AwaitLeader(); now != leader {
			t.Errorf("%s leads now, %s did", now.Name, leader.Name)
		}
	})
}

func saveSnapshot(ctx context.Context, n *clustertest.Node) ([]byte, error) {
	stream, err := n.Cluster().SaveSnapshot(ctx, &apipb.SaveSnapshotRequest{})
	if err != nil {
		return nil, err
	}
	var all []byte
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, chunk.Data...)
	}
}

func restoreSnapshot(ctx context.Context, n *clustertest.Node, data []byte) error {
	stream, err := n.Cluster().RestoreSnapshot(ctx)
	if err != nil {
		return err
	}
	for chunk := range slices.Chunk(data, 1000) {
		if err := stream.Send(&apipb.RestoreSnapshotRequest{Data: chunk}); err != nil {
			break // the answer says why
		}
	}
	_, err = stream.CloseAndRecv()
	return err
}

func TestSnapshotIsSavedAndRestored(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{})
		leader := c.AwaitLeader()
		digest := mustUpload(t, leader, "a")
		mustSubmit(t, leader, digest, "r1")
		saved, err := saveSnapshot(call(t), c.Followers(leader)[0])
		if err != nil {
			t.Fatal(err)
		}
		mustSubmit(t, leader, digest, "r2")

		// Damaged in any way it is refused, and nothing changes.
		for name, bad := range map[string][]byte{
			"empty": nil, "cut off": saved[:len(saved)-10], "flipped": flip(saved, len(saved)/2), "longer": append(bytes.Clone(saved), 1),
		} {
			if err := clustertest.Fault(restoreSnapshot(call(t), leader, bad), codes.InvalidArgument, "E080"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if ids := jobIDs(t, leader); len(ids) != 2 {
			t.Fatalf("after refused restores the jobs are %v", ids)
		}

		if err := restoreSnapshot(call(t), c.Followers(leader)[0], saved); err != nil {
			t.Fatal(err)
		}
		for _, n := range c.Nodes() {
			c.AwaitLeader()
			if ids := jobIDs(t, n); !slices.Equal(ids, []string{"job-1"}) {
				t.Errorf("%s lists %v after the restore", n.Name, ids)
			}
		}
		if resp := mustSubmit(t, c.AwaitLeader(), digest, "r3"); resp.Job != "job-2" {
			t.Errorf("the next job is %v", resp)
		}
		after(t, 10*time.Second)
		c.AwaitLeader() // nobody has stopped
		for _, n := range c.Nodes() {
			if n.Ended() {
				t.Errorf("%s has ended: %v", n.Name, n.Wait())
			}
		}
	})
}

func flip(data []byte, at int) []byte {
	bad := bytes.Clone(data)
	bad[at] ^= 0x40
	return bad
}
