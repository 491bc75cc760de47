//go:build unix

package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/sluiceio/sluice/internal/pipe"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/internal/wire"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

func TestDataConnectionsReachTheProcessThatTheyName(t *testing.T) {
	c := newCoordinator(t)
	cfg := testConfig(t, c)
	w := startWorker(t, cfg)
	s := c.session()
	pids := map[uint64]int{}
	digest := c.tiny()
	for process := uint64(7); process < 10; process++ {
		pids[process] = running(t, s, cfg, deployment("job-1", process, digest))
	}
	// Under load: many at a time, all at once, to all of them.
	g := run.NewGroup(t.Context(), "test")
	for i := range 300 {
		g.Go("dial", func(ctx context.Context) error {
			process := uint64(7 + i%3)
			conn, err := pipe.Dialer{}.Dial(ctx, w.addresses.Data, pipe.Preface{
				Job: pipe.HashJob("job-1"), Process: process, JobEpoch: 1, RegionEpoch: 1,
			})
			if err != nil {
				return err
			}
			pid, err := echoOver(conn)
			if err == nil && pid != pids[process] {
				err = fmt.Errorf("process %d is pid %d, %d answered", process, pids[process], pid)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

func TestWhoIsNotThereYetIsWaitedForAndWhoIsGoneIsNot(t *testing.T) {
	c := newCoordinator(t)
	cfg := testConfig(t, c)
	w := startWorker(t, cfg)
	s := c.session()
	digest := c.tiny()
	preface := pipe.Preface{Job: pipe.HashJob("job-1"), Process: 7, JobEpoch: 1, RegionEpoch: 1}
	dial := func(p pipe.Preface, timeout time.Duration) error {
		conn, err := pipe.Dialer{ConnectTimeout: timeout}.Dial(t.Context(), w.addresses.Data, p)
		if err != nil {
			return err
		}
		_, err = echoOver(conn)
		return err
	}
	// Dialled before anything was deployed.
	g := run.NewGroup(t.Context(), "test")
	g.Go("early", func(context.Context) error { return dial(preface, limit) })
	if err := dial(preface, 500*time.Millisecond); !errors.Is(err, pipe.ErrNotYet) {
		t.Errorf("before the deployment: %v", err)
	}
	running(t, s, cfg, deployment("job-1", 7, digest))
	if err := g.Wait(); err != nil {
		t.Errorf("dialled before, deployed after: %v", err)
	}
	for name, change := range map[string]struct {
		edit func(*pipe.Preface)
		want error
	}{
		"another job":          {func(p *pipe.Preface) { p.Job = pipe.HashJob("job-2") }, pipe.ErrNotYet},
		"another process":      {func(p *pipe.Preface) { p.Process = 8 }, pipe.ErrNotYet},
		"a newer job epoch":    {func(p *pipe.Preface) { p.JobEpoch = 2 }, pipe.ErrNotYet},
		"a newer region epoch": {func(p *pipe.Preface) { p.RegionEpoch = 2 }, pipe.ErrNotYet},
		"an older job epoch":   {func(p *pipe.Preface) { p.JobEpoch = 0 }, pipe.ErrGone},
	} {
		p := preface
		change.edit(&p)
		if err := dial(p, 500*time.Millisecond); !errors.Is(err, change.want) {
			t.Errorf("%s: %v, want %v", name, err, change.want)
		}
	}
	s.order(release("job-1", 7))
	s.exit(7)
	if err := dial(preface, limit); !errors.Is(err, pipe.ErrGone) {
		t.Errorf("after the end: %v", err)
	}
}

func TestGarbageOnEveryPortHurtsNobody(t *testing.T) {
	c := newCoordinator(t)
	cfg := testConfig(t, c)
	cfg.PrefaceTimeout = 100 * time.Millisecond
	w := startWorker(t, cfg)
	s := c.session()
	for _, addr := range []string{w.addresses.Control, w.addresses.Data, w.addresses.HTTP} {
		for _, garbage := range []string{strings.Repeat("\xff\x00", 1<<19), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + strings.Repeat("\x01", 1000), ""} {
			conn, err := wire.Policy{}.Dial(t.Context(), addr)
			if err != nil {
				t.Fatal(err)
			}
			if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(conn, garbage) // the other side may close at any moment
			if tcp := conn.(*net.TCPConn); tcp != nil {
				_ = tcp.CloseWrite()
			}
			_, _ = io.Copy(io.Discard, conn)
			if err := conn.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	running(t, s, cfg, deployment("job-1", 7, c.tiny()))
	conn, err := pipe.Dialer{}.Dial(t.Context(), w.addresses.Data, pipe.Preface{Job: pipe.HashJob("job-1"), Process: 7, JobEpoch: 1, RegionEpoch: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := echoOver(conn); err != nil {
		t.Error(err)
	}
}

func TestAMessageThatIsNotValidEndsTheSessionOnly(t *testing.T) {
	c := newCoordinator(t)
	cfg := testConfig(t, c)
	startWorker(t, cfg)
	s := c.session()
	running(t, s, cfg, deployment("job-1", 7, c.tiny()))
	s.order(&controlpb.CoordinatorMessage{}) // says nothing
	s.gone()
	if p := c.session().register.Processes; len(p) != 1 || p[0].Subtasks[0].State != jobpb.SubtaskState_SUBTASK_RUNNING {
		t.Errorf("inventory: %v", p)
	}
}

func TestADeploymentThatIsNotValidStartsNothing(t *testing.T) {
	c := newCoordinator(t)
	startWorker(t, testConfig(t, c))
	s := c.session()
	digest := c.tiny()
	bad := deployment("job-1", 7, digest)
	bad.Subtasks[0].Index = 99
	s.order(deploy(bad))
	if x := s.exit(7); x.Failure.GetCode() != codeRefused || x.Kind != jobpb.FailureKind_FAILURE_FATAL {
		t.Errorf("answered by %v", x)
	}
	bad = deployment("job-1", 8, digest)
	bad.Spec.Artifact = "../../../etc/passwd"
	s.order(deploy(bad))
	if x := s.exit(8); x.Failure.GetCode() != codeRefused {
		t.Errorf("answered by %v", x)
	}
	m := build("job-1", 4, digest)
	m.GetBuild().Spec = bad.Spec
	s.order(m)
	if f := s.built(4).Failure; f.GetCode() != codeRefused {
		t.Errorf("answered by %v", f)
	}
	s.order(deploy(deployment("job-1", 9, digest)))
	if r := s.state(jobpb.SubtaskState_SUBTASK_RUNNING); r.Process != 9 {
		t.Errorf("process %d runs", r.Process)
	}
}

// ---------------------------------------------------------------- logs

func logsOf(t *testing.T, w *runningWorker, r *controlpb.LogsRequest) controlpb.Agent_LogsClient {
	t.Helper()
	conn, err := wire.Policy{}.Client(w.addresses.Control)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(func() {
		cancel()
		_ = conn.Close()
	})
	stream, err := controlpb.NewAgentClient(conn).Logs(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

func readLogs(t *testing.T, stream controlpb.Agent_LogsClient, enough func(string) bool) string {
	t.Helper()
	var all strings.Builder
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return all.String()
		}
		if err != nil {
			t.Fatalf("%v after %q", err, all.String())
		}
		all.Write(chunk.Data)
		if enough != nil && enough(all.String()) {
			return all.String()
		}
	}
}

func TestLogsOutliveTheirProcessAndItsAgent(t *testing.T) {
	c := newCoordinator(t)
	cfg := testConfig(t, c)
	w := startWorker(t, cfg)
	s := c.session()
	s.order(deploy(deployment("job-1", 7, c.tiny(), "run", "print", "lines", "3")))
	s.state(jobpb.SubtaskState_SUBTASK_RUNNING)
	s.order(release("job-1", 7))
	s.exit(7)
	for range 2 {
		out := readLogs(t, logsOf(t, w, &controlpb.LogsRequest{Job: "job-1"}), nil)
		if n := strings.Count(out, "line "); n != 3 {
			t.Errorf("%d lines: %q", n, out)
		}
		if out := readLogs(t, logsOf(t, w, &controlpb.LogsRequest{Job: "job-2"}), nil); out != "" {
			t.Errorf("logs of another job: %q", out)
		}
		if out := readLogs(t, logsOf(t, w, &controlpb.LogsRequest{Job: "job-1", TailBytes: 10}), nil); out != "xxxxxxxxx\n" {
			t.Errorf("tail: %q", out)
		}
		if err := w.stop(); err != nil {
			t.Fatal(err)
		}
		w = startWorker(t, cfg)
		c.session()
	}
}

func TestLogsAreFollowedAcrossProcesses(t *testing.T) {
	c := newCoordinator(t)
	w := startWorker(t, testConfig(t, c))
	s := c.session()
	stream := logsOf(t, w, &controlpb.LogsRequest{Job: "job-1", Follow: true})
	digest := c.tiny()
	s.order(deploy(deployment("job-1", 7, digest, "run", "panic")))
	s.exit(7)
	s.order(deploy(deployment("job-1", 8, digest, "run", "print", "lines", "2")))
	readLogs(t, stream, func(out string) bool {
		return strings.Contains(out, "index out of luck") && strings.Contains(out, "line 1 ")
	})
}

func TestLogsOfEndedProcessesAreBounded(t *testing.T) {
	c := newCoordinator(t)
	cfg := testConfig(t, c)
	cfg.KeepProcesses, cfg.LogBytes = 2, 4096
	w := startWorker(t, cfg)
	s := c.session()
	digest := c.tiny()
	for process := uint64(1); process <= 4; process++ {
		s.order(deploy(deployment("job-1", process, digest, "run", "print", "lines", "200")))
		s.state(jobpb.SubtaskState_SUBTASK_RUNNING)
		s.order(release("job-1", process))
		s.exit(process)
	}
	out := readLogs(t, logsOf(t, w, &controlpb.LogsRequest{Job: "job-1"}), nil)
	if len(out) > 2*4096 || strings.Count(out, "line 199 ") != 2 {
		t.Errorf("%d bytes are kept, %d ends", len(out), strings.Count(out, "line 199 "))
	}
}

func TestLogsRefuseWhatMakesNoSense(t *testing.T) {
	c := newCoordinator(t)
	w := startWorker(t, testConfig(t, c))
	for _, r := range []*controlpb.LogsRequest{{}, {Job: "j", TailBytes: -1}} {
		if _, err := logsOf(t, w, r).Recv(); apipb.CodeOf(err) != codes.InvalidArgument {
			t.Errorf("%v: %v", r, err)
		}
	}
}
