//go:build unix

package worker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/internal/wire"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/worker/record"
	"github.com/sluiceio/sluice/worker/spawn"
)

// limit bounds every wait of these tests; nothing comes near it.
const limit = 30 * time.Second

// ---------------------------------------------------------------- a coordinator

// coordinator speaks Control and Artifacts over real gRPC. What it does is set before it is asked.
type coordinator struct {
	apipb.UnimplementedArtifactsServer
	controlpb.UnimplementedControlServer

	t        *testing.T
	addr     string
	server   *grpc.Server
	sessions chan *fakeSession

	mu        sync.Mutex
	cluster   string
	term      uint64
	leader    string // address of another leader: this one refuses
	hold      bool   // no acknowledgement of reports
	mute      bool   // no answer to heartbeats
	artifacts map[string][]byte
	cut       int // a fetch ends after so many bytes; 0: whole
	flip      bool
	stall     bool
	lostAfter time.Duration // told to workers
	fetches   int
}

func newCoordinator(t *testing.T) *coordinator {
	t.Helper()
	c := &coordinator{t: t, cluster: "test", term: 1, sessions: make(chan *fakeSession, 64), artifacts: map[string][]byte{}, lostAfter: 3 * time.Second}
	c.listen("127.0.0.1:0")
	return c
}

func (c *coordinator) listen(addr string) {
	l, err := wire.Policy{}.Listen(c.t.Context(), addr)
	if err != nil {
		c.t.Fatal(err)
	}
	c.addr = l.Addr().String()
	c.server = wire.Policy{}.Server(grpc.WaitForHandlers(true))
	controlpb.RegisterControlServer(c.server, c)
	apipb.RegisterArtifactsServer(c.server, c)
	g := run.NewGroup(context.Background(), "coordinator")
	server := c.server
	g.Go("serve", func(context.Context) error { return server.Serve(l) })
	c.t.Cleanup(func() {
		server.Stop()
		if err := g.Wait(); err != nil {
			c.t.Error(err)
		}
	})
}

// die ends every connection at once, as kill -9 does.
func (c *coordinator) die() { c.server.Stop() }

func (c *coordinator) set(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// put stores an artifact and returns its digest.
func (c *coordinator) put(data []byte) string {
	sum := sha256.Sum256(data)
	digest := hex.EncodeToString(sum[:])
	c.set(func() { c.artifacts[digest] = data })
	return digest
}

// script stores a shell script as artifact.
func (c *coordinator) script(lines ...string) string {
	return c.put([]byte("#!/bin/sh\n" + strings.Join(lines, "\n") + "\n"))
}

// quickExit: a program built with the race detector otherwise waits a second at its end.
const quickExit = "GORACE=atexit_sleep_ms=0"

// tiny stores the tiny job: a script that becomes the test binary, so that nobody copies that.
func (c *coordinator) tiny(env ...string) string {
	self, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	return c.script("exec env " + quickExit + " " + strings.Join(env, " ") + " '" + self + "'")
}

func (c *coordinator) Fetch(r *apipb.FetchRequest, stream apipb.Artifacts_FetchServer) error {
	c.mu.Lock()
	data, ok := c.artifacts[r.Digest]
	cut, flip, stall := c.cut, c.flip, c.stall
	c.fetches++
	c.mu.Unlock()
	if !ok {
		return apipb.NewError(codes.NotFound, &apipb.ErrorDetail{Code: "E404"}, "no artifact %s", r.Digest)
	}
	if cut > 0 {
		data = data[:cut]
	}
	if flip {
		data = append([]byte{data[0] ^ 1}, data[1:]...)
	}
	for len(data) > 0 {
		n := min(len(data), 16<<10)
		if err := stream.Send(&apipb.Chunk{Data: data[:n]}); err != nil {
			return err
		}
		data = data[n:]
		if stall {
			<-stream.Context().Done()
			return stream.Context().Err()
		}
	}
	return nil
}

// fakeSession is one worker's stream, seen from the coordinator.
type fakeSession struct {
	c        *coordinator
	stream   controlpb.Control_AttachServer
	register *controlpb.Register
	messages chan *controlpb.WorkerMessage // everything but heartbeats
	beats    chan *controlpb.Heartbeat
	ended    chan struct{}
	acked    uint64 // the last report that was acknowledged; of the receiving goroutine

	mu sync.Mutex // of Send
}

func (c *coordinator) Attach(stream controlpb.Control_AttachServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	if err := first.Validate(); err != nil {
		c.t.Errorf("the worker sent an invalid message: %v", err)
	}
	c.mu.Lock()
	leader, term, cluster, lostAfter := c.leader, c.term, c.cluster, c.lostAfter
	c.mu.Unlock()
	if leader != "" {
		return apipb.NewError(codes.FailedPrecondition, &apipb.ErrorDetail{Code: "E069", Leader: leader}, "not the leader")
	}
	s := &fakeSession{
		c: c, stream: stream, register: first.GetRegister(), messages: make(chan *controlpb.WorkerMessage, 4096),
		beats: make(chan *controlpb.Heartbeat, 4096), ended: make(chan struct{}),
	}
	defer close(s.ended)
	err = s.send(term, &controlpb.CoordinatorMessage{Message: &controlpb.CoordinatorMessage_Welcome{Welcome: &controlpb.Welcome{
		Cluster: cluster, Leader: "c-" + c.addr, HeartbeatUs: 50_000, LostAfterUs: lostAfter.Microseconds(),
	}}})
	if err != nil {
		return err
	}
	c.sessions <- s
	for {
		m, err := stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if err := m.Validate(); err != nil {
			c.t.Errorf("the worker sent an invalid message: %v", err)
		}
		s.take(m)
	}
}

func (s *fakeSession) take(m *controlpb.WorkerMessage) {
	s.c.mu.Lock()
	term, hold, mute := s.c.term, s.c.hold, s.c.mute
	s.c.mu.Unlock()
	if h := m.GetHeartbeat(); h != nil {
		s.beats <- h
		if !mute {
			_ = s.send(term, ack(s.acked, h.Sequence))
		}
		return
	}
	// Committed before the test hears of it, as a leader's own next step would be.
	if r := m.GetReport(); r != nil && r.Sequence > 0 && !hold {
		s.acked = r.Sequence
		_ = s.send(term, ack(r.Sequence, 0))
	}
	s.messages <- m
}

func ack(sequence, heartbeat uint64) *controlpb.CoordinatorMessage {
	return &controlpb.CoordinatorMessage{Message: &controlpb.CoordinatorMessage_Ack{Ack: &controlpb.Ack{Sequence: sequence, Heartbeat: heartbeat}}}
}

func (s *fakeSession) send(term uint64, m *controlpb.CoordinatorMessage) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.Term = term
	return s.stream.Send(m)
}

// order sends in the coordinator's present term.
func (s *fakeSession) order(m *controlpb.CoordinatorMessage) {
	s.c.t.Helper()
	s.c.mu.Lock()
	term := s.c.term
	s.c.mu.Unlock()
	if err := s.send(term, m); err != nil {
		s.c.t.Fatal(err)
	}
}

// session waits for the next worker that registers.
func (c *coordinator) session() *fakeSession {
	c.t.Helper()
	select {
	case s := <-c.sessions:
		return s
	case <-time.After(limit):
		c.t.Fatal("no worker registered")
		return nil
	}
}

// await waits for a message that find accepts; others are passed over.
func await[T any](s *fakeSession, what string, find func(*controlpb.WorkerMessage) (T, bool)) T {
	s.c.t.Helper()
	deadline := time.After(limit)
	for {
		select {
		case m := <-s.messages:
			if v, ok := find(m); ok {
				return v
			}
		case <-deadline:
			s.c.t.Fatalf("no %s arrived", what)
		}
	}
}

func (s *fakeSession) state(want jobpb.SubtaskState) *controlpb.Report {
	s.c.t.Helper()
	return await(s, want.String(), func(m *controlpb.WorkerMessage) (*controlpb.Report, bool) {
		r := m.GetReport()
		return r, r.GetSubtask().GetState() == want
	})
}

func (s *fakeSession) exit(process uint64) *controlpb.ProcessExit {
	s.c.t.Helper()
	return await(s, "process exit", func(m *controlpb.WorkerMessage) (*controlpb.ProcessExit, bool) {
		x := m.GetReport().GetExit()
		return x, x != nil && m.GetReport().Process == process
	})
}

func (s *fakeSession) built(number uint64) *controlpb.BuildResult {
	s.c.t.Helper()
	return await(s, "build result", func(m *controlpb.WorkerMessage) (*controlpb.BuildResult, bool) {
		b := m.GetBuildResult()
		return b, b != nil && b.Build == number
	})
}

// gone waits for the end of the session.
func (s *fakeSession) gone() {
	s.c.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(limit):
		s.c.t.Fatal("the session does not end")
	}
}

// ---------------------------------------------------------------- what a leader orders

// deployment of subtasks 0 and 1 of the tiny plan, first attempt.
func deployment(job string, process uint64, digest string, params ...string) *taskpb.Deployment {
	d := &taskpb.Deployment{
		Job: job, JobEpoch: 1, Process: process, Plan: tinyPlan(2), ProcessMemory: 256 << 20, Slots: 2,
		Spec: &jobpb.JobSpec{Name: "tiny", Artifact: digest, Params: map[string]string{}},
		Subtasks: []*taskpb.SubtaskDeployment{
			{Chain: 0, Index: 0, Attempt: 1, RegionEpoch: 1}, {Chain: 0, Index: 1, Attempt: 1, RegionEpoch: 1},
		},
	}
	for i := 0; i+1 < len(params); i += 2 {
		d.Spec.Params[params[i]] = params[i+1]
	}
	return d
}

func deploy(d *taskpb.Deployment) *controlpb.CoordinatorMessage {
	return &controlpb.CoordinatorMessage{Message: &controlpb.CoordinatorMessage_Deploy{Deploy: &controlpb.Deploy{Deployment: d}}}
}

func release(job string, process uint64) *controlpb.CoordinatorMessage {
	return &controlpb.CoordinatorMessage{Message: &controlpb.CoordinatorMessage_Release{Release: &controlpb.Release{
		Job: job, Process: process, Reason: "test",
	}}}
}

func build(job string, number uint64, digest string, params ...string) *controlpb.CoordinatorMessage {
	spec := deployment(job, 1, digest, params...).Spec
	return &controlpb.CoordinatorMessage{Message: &controlpb.CoordinatorMessage_Build{Build: &controlpb.RequestBuild{
		Job: job, Build: number, Spec: spec, TimeLimitUs: limit.Microseconds(),
	}}}
}

// ---------------------------------------------------------------- a worker

// testConfig is a worker with short times that joins the coordinators.
func testConfig(t *testing.T, cs ...*coordinator) Config {
	t.Helper()
	c := DefaultConfig()
	c.DataDir = t.TempDir()
	c.Listen, c.DataListen, c.HTTPListen = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	for _, j := range cs {
		c.Join = append(c.Join, j.addr)
	}
	c.Memory = 1 << 30
	c.Version = "test"
	c.Log = hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: testWriter{t}})
	return c
}

// testWriter shows the worker's log when the test fails.
type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSuffix(string(p), "\n"))
	return len(p), nil
}

// runningWorker is a worker in this process.
type runningWorker struct {
	t         *testing.T
	addresses Addresses
	stop      func() error // orderly
}

func startWorker(t *testing.T, c Config) *runningWorker {
	t.Helper()
	w := &runningWorker{t: t}
	listening := make(chan Addresses, 1)
	c.Listening = func(a Addresses) { listening <- a }
	ctx, cancel := context.WithCancel(context.Background())
	g := run.NewGroup(context.Background(), "test worker")
	g.Go("run", func(context.Context) error { return Run(ctx, c) })
	w.stop = sync.OnceValue(func() error {
		cancel()
		return g.Wait()
	})
	t.Cleanup(func() {
		if err := w.stop(); err != nil {
			t.Error(err)
		}
	})
	select {
	case w.addresses = <-listening:
	case <-g.Context().Done():
		t.Fatal(w.stop())
	case <-time.After(limit):
		t.Fatal("the worker does not start")
	}
	return w
}

// envAgent makes the test binary an agent: a configuration in JSON.
const envAgent = "SLUICE_TEST_AGENT"

type agentSettings struct {
	DataDir   string
	Join      []string
	StopGrace time.Duration
}

func agentProcess() int {
	var s agentSettings
	if err := json.Unmarshal([]byte(os.Getenv(envAgent)), &s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	c := DefaultConfig()
	c.DataDir, c.Join, c.StopGrace = s.DataDir, s.Join, s.StopGrace
	c.Listen, c.DataListen, c.HTTPListen = "127.0.0.1:0", "127.0.0.1:0", ""
	c.Memory, c.Version = 1<<30, "test"
	c.Log = hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: os.Stderr})
	if err := Run(context.Background(), c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// startAgent runs an agent as a process of its own.
func startAgent(t *testing.T, c Config) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	settings, err := json.Marshal(agentSettings{DataDir: c.DataDir, Join: c.Join, StopGrace: c.StopGrace})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), envAgent+"="+string(settings))
	out := &lockedBuffer{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(out.String())
		}
	})
	return cmd
}

type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// echoOver writes a line over a data connection and returns the pid of the process that echoes it.
func echoOver(conn net.Conn) (pid int, err error) {
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return 0, err
	}
	if _, err := io.WriteString(conn, "hello\n"); err != nil {
		return 0, err
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		return 0, err
	}
	var word string
	if _, err := fmt.Sscanf(string(answer), "%d: %s", &pid, &word); err != nil || word != "hello" {
		return 0, fmt.Errorf("answer %q: %w", answer, err)
	}
	return pid, nil
}

// awaitDeath waits until no process has the pid. Its parent may be this process or none of the test's.
func awaitDeath(t *testing.T, pid int) {
	t.Helper()
	deadline := time.Now().Add(limit)
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for range ticker.C {
		// A zombie is dead: whoever inherits it in a container may never reap it.
		if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) || zombie(pid) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d still lives", pid)
		}
	}
}

func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(after, "Z")
}

// go1 runs f beside the test, which waits for it at its end.
func go1(t *testing.T, f func()) {
	g := run.NewGroup(context.Background(), "test")
	g.Go("aside", func(context.Context) error {
		f()
		return nil
	})
	t.Cleanup(func() {
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// awaitIdle waits until no task process holds the lock of its directory.
func awaitIdle(t *testing.T, dataDir string) {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(dataDir, processesName, "*"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no directories of task processes: %v", err)
	}
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.Now().Add(limit)
	for _, dir := range dirs {
		for {
			lock, err := vfs.OS{}.Lock(filepath.Join(dir, spawn.LockName))
			if err == nil {
				_ = lock.Close()
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s is still in use: %v", dir, err)
			}
			<-ticker.C
		}
	}
}

// leaveProcess starts a process in a directory of task processes, as an agent does that dies afterwards: with lock and
// record, and ignoring everything.
func leaveProcess(t *testing.T, cfg Config, key processKey) (pid int) {
	t.Helper()
	dir := processDir(filepath.Join(cfg.DataDir, processesName), key)
	if err := os.MkdirAll(filepath.Join(dir, spawn.LogName), 0o755); err != nil {
		t.Fatal(err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, spawn.LockName), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "1000")
	cmd.ExtraFiles = []*os.File{lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go1(t, func() { _ = cmd.Wait() }) // reaps it whenever it ends
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if err := spawn.WriteRecord(dir, key.job, key.number, cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

func forgeRecord(t *testing.T, dir string, forge func(*spawn.Record)) {
	t.Helper()
	r, err := spawn.ReadRecord(dir)
	if err != nil {
		t.Fatal(err)
	}
	forge(&r)
	data, err := record.Encode("sluice-process", r)
	if err != nil {
		t.Fatal(err)
	}
	if err := vfs.Publish(vfs.OS{}, filepath.Join(dir, spawn.RecordName), data); err != nil {
		t.Fatal(err)
	}
}
