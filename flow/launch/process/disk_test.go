//go:build unix

package process

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/sluiceio/sluice/internal/pipe"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/internal/wire"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/shuffle/stored"
)

// blocking makes the edge of a deployment of numbers store its records, and keeps one chain of it.
func blocking(d *taskpb.Deployment, chain int32) *taskpb.Deployment {
	d.Plan.Edges[0].Exchange = jobpb.ExchangeKind_EXCHANGE_BLOCKING
	for _, s := range d.Subtasks {
		if s.Chain == chain {
			d.Subtasks = []*taskpb.SubtaskDeployment{s}
		}
	}
	return d
}

// storeNumbers runs the producer in a process of its own, which ends, and returns what it has stored in dir.
func storeNumbers(t *testing.T, dir string) []*jobpb.Partition {
	t.Helper()
	c := startChild(t, pipe.EnvResults+"="+dir, pipe.EnvSpill+"="+t.TempDir())
	d := blocking(alone(""), 0)
	d.Locations = d.Locations[:1] // the consumer is nowhere yet
	c.deploy(d)
	var stored []*jobpb.Partition
	c.until(func(m *taskpb.TaskMessage) bool {
		u := m.GetUpdate()
		if u.GetState() == jobpb.SubtaskState_SUBTASK_FAILED {
			t.Fatalf("%v", u.Failure)
		}
		stored = u.GetPartitions()
		return u.GetState() == jobpb.SubtaskState_SUBTASK_FINISHED
	})
	c.shutdown()
	c.exit(exitOK)
	if len(stored) != 1 || stored[0].Records != count {
		t.Fatalf("stored %v", stored)
	}
	return stored
}

// readNumbers runs the consumer in another process of worker w-1.
func readNumbers(t *testing.T, dir string, change func(*taskpb.Location)) {
	t.Helper()
	c := startChild(t, pipe.EnvResults+"="+dir)
	d := blocking(alone(""), 1)
	change(d.Locations[0])
	c.deploy(d)
	c.reaches(jobpb.SubtaskState_SUBTASK_FINISHED, 1)
	c.shutdown()
	c.exit(exitOK)
	if !strings.Contains(c.out.String(), result) {
		t.Errorf("output: %q", c.out)
	}
}

func TestResultsOutliveTheProcessThatHasStoredThem(t *testing.T) {
	dir := t.TempDir()
	parts := storeNumbers(t, dir)
	readNumbers(t, dir, func(l *taskpb.Location) { l.Partitions = parts })
}

func TestResultsOfAnotherWorkerComeFromItsAgent(t *testing.T) {
	theirs, ours := t.TempDir(), t.TempDir()
	parts := storeNumbers(t, theirs)
	address := serveResults(t, theirs)
	readNumbers(t, ours, func(l *taskpb.Location) { l.Worker, l.DataAddress, l.Partitions = "w-2", address, parts })
	if left, err := os.ReadDir(ours); err != nil || len(left) != 0 {
		t.Errorf("copies were kept: %v %v", left, err)
	}
}

// serveResults is the data port of a worker w-2 that runs nothing but keeps results.
func serveResults(t *testing.T, dir string) (address string) {
	t.Helper()
	store, err := stored.Open(vfs.OS{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	l, err := wire.Policy{}.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := &pipe.Port{
		Listener: l, Timeout: limit, Own: pipe.NewOwn(l.Addr()),
		Route: func(pipe.Preface) (pipe.Answer, *pipe.Sender) { return pipe.Gone, nil },
		Note:  func(string, error) {},
	}
	server := &stored.Server{Store: store, Worker: "w-2"}
	g := run.NewGroup(context.Background(), "agent")
	g.Go("port", port.Run)
	g.Go("results", func(ctx context.Context) error { return server.Serve(ctx, port.Own) })
	t.Cleanup(func() {
		g.Stop()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

func TestWithoutADirectoryForResultsABlockingPlanIsRefused(t *testing.T) {
	c := startChild(t)
	c.deploy(blocking(alone(""), 0))
	c.until(func(m *taskpb.TaskMessage) bool {
		f := m.GetFailure().GetFailure()
		if f != nil && (f.Code != "E135" || f.Kind != jobpb.FailureKind_FAILURE_FATAL) {
			t.Errorf("%v", f)
		}
		return f != nil
	})
	c.exit(exitFailed)
}
