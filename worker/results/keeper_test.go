package results

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/go-hclog"

	"github.com/sluiceio/sluice/internal/pipe"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/internal/wire"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/shuffle"
	"github.com/sluiceio/sluice/shuffle/stored"
	"github.com/sluiceio/sluice/shuffle/stored/storedtest"
)

func name(job string, producer int32) stored.Name {
	return stored.Name{Job: job, JobEpoch: 1, RegionEpoch: 2, Edge: 3, Producer: producer, Attempt: 4}
}

// finished stores a result as a task process does, and tells the keeper as the agent does.
func finished(t *testing.T, k *Keeper, n stored.Name, records int) {
	t.Helper()
	p, err := storedtest.Write(t.Context(), k.Dir(), n, records)
	if err != nil {
		t.Fatal(err)
	}
	k.Finished(n.Job, n.JobEpoch, &taskpb.SubtaskUpdate{
		Index: n.Producer, Attempt: n.Attempt, Region: n.Region, RegionEpoch: n.RegionEpoch,
		State: jobpb.SubtaskState_SUBTASK_FINISHED, Partitions: []*jobpb.Partition{p},
	})
}

func open(t *testing.T, fsys vfs.FS, dir string, log hclog.Logger) *Keeper {
	t.Helper()
	k, err := Open(fsys, dir, "w-1", log)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestTheInventoryNamesEverythingByJob(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "partitions")
	k := open(t, vfs.OS{}, dir, hclog.NewNullLogger())
	for _, job := range []string{"b-1", "a-1", "b-1"} {
		n, _ := k.Usage()
		finished(t, k, name(job, int32(n)), 10)
	}
	for _, k := range []*Keeper{k, open(t, vfs.OS{}, dir, hclog.NewNullLogger())} { // also after a restart
		inv := k.Inventory()
		if len(inv) != 2 || inv[0].Job != "a-1" || len(inv[0].Partitions) != 1 || inv[1].Job != "b-1" || len(inv[1].Partitions) != 2 {
			t.Fatalf("the inventory is %v", inv)
		}
		if p := inv[1].Partitions[1]; p.JobEpoch != 1 || p.RegionEpoch != 2 || p.Edge != 3 || p.Producer != 2 || p.Attempt != 4 {
			t.Errorf("named as %v", p)
		}
		if n, bytes := k.Usage(); n != 3 || bytes <= 0 {
			t.Errorf("%d partitions of %d bytes", n, bytes)
		}
	}
}

func TestDamageIsLoggedAndNotOffered(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "partitions")
	n := name("a-1", 0)
	finished(t, open(t, vfs.OS{}, dir, hclog.NewNullLogger()), n, 10)
	if err := os.Truncate(filepath.Join(dir, n.Path()+".data"), 20); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	k := open(t, vfs.OS{}, dir, hclog.New(&hclog.LoggerOptions{Output: &out}))
	if inv := k.Inventory(); len(inv) != 0 {
		t.Errorf("the inventory is %v", inv)
	}
	if !strings.Contains(out.String(), "E121") || !strings.Contains(out.String(), "job=a-1") {
		t.Errorf("the log says %q", out.String())
	}
}

func TestADirectoryThatCannotBeMadeEndsTheStart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "partitions")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(vfs.OS{}, file, "w-1", hclog.NewNullLogger()); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("got %v", err)
	}
}

// TestReadsAreCountedByOutcome goes through a real data port.
func TestReadsAreCountedByOutcome(t *testing.T) {
	k := open(t, vfs.OS{}, filepath.Join(t.TempDir(), "partitions"), hclog.NewNullLogger())
	n := name("a-1", 0)
	finished(t, k, n, 1000)
	l, err := wire.Policy{}.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	own := pipe.NewOwn(l.Addr())
	port := &pipe.Port{Listener: l, Own: own, Timeout: 1e9, Note: func(string, error) {}}
	g := run.NewGroup(t.Context(), "worker")
	g.Go("port", port.Run)
	g.Go("results", func(ctx context.Context) error { return k.Serve(ctx, own) })
	agent := shuffle.Peer{Worker: "w-1", Address: l.Addr().String()}
	if sum, err := storedtest.Sum(t.Context(), agent, n); err != nil || sum != 499_500 {
		t.Errorf("read %d, %v", sum, err)
	}
	if _, err := storedtest.Sum(t.Context(), agent, name("a-1", 1)); !errors.Is(err, stored.ErrLost) {
		t.Errorf("what is not there: %v", err)
	}
	g.Stop()
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	reads := map[string]int64{}
	served := k.Reads(func(outcome string, n int64) { reads[outcome] = n })
	if reads[stored.OutcomeServed] != 1 || reads[stored.OutcomeLost] != 1 || len(reads) != 2 || served < 1000 {
		t.Errorf("%v, %d bytes", reads, served)
	}
}

// TestADiskThatRefusesToDeleteStopsNothing: it is logged, and later deletions are carried out.
func TestADiskThatRefusesToDeleteStopsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		refuse := true
		m := vfs.NewMem()
		fsys := vfs.WithFaults(m, func(op vfs.Operation, path string) vfs.Fault {
			if refuse && op == vfs.OpRename {
				return vfs.Fault{Err: &fs.PathError{Op: "rename", Path: path, Err: fs.ErrPermission}}
			}
			return vfs.Fault{}
		})
		k := open(t, fsys, "partitions", hclog.New(&hclog.LoggerOptions{Output: &out}))
		g := run.NewGroup(t.Context(), "test")
		g.Go("deletions", k.Delete)
		if err := vfs.MakeDir(m, "partitions/a-1"); err != nil {
			t.Fatal(err)
		}
		k.Drop(&taskpb.DropPartitions{Job: "a-1", All: true})
		synctest.Wait()
		if !strings.Contains(out.String(), "cannot be deleted") {
			t.Errorf("the log says %q", out.String())
		}
		refuse = false
		k.Drop(&taskpb.DropPartitions{Job: "a-1", All: true})
		k.Drop(&taskpb.DropPartitions{Job: "../../x", Partitions: []*taskpb.PartitionName{name("x", 0).Proto()}})
		synctest.Wait()
		if _, err := m.Stat("partitions/a-1"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the second time: %v", err)
		}
		g.Stop()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
		for range dropQueue + 10 { // nobody deletes, and nobody waits
			k.Drop(&taskpb.DropPartitions{Job: "a-1", All: true})
		}
	})
}
