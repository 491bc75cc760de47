package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/internal/wire"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/commandpb"

	"github.com/sluiceio/sluice/cmd/sluice/internal/ops"
)

// How the test binary behaves as a process of a cluster.
const (
	roleVariable    = "DEV_TEST"         // node, failing (a node that ends at once), supervisor
	workersVariable = "DEV_TEST_WORKERS" // how many workers coordinators shall report
	orderVariable   = "DEV_TEST_ORDER"   // file to which nodes append their names when they are asked to end
)

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "node":
		os.Exit(playNode())
	case "failing":
		fmt.Println("first line\ncannot go on: the disk is full")
		os.Exit(1)
	case "supervisor":
		os.Exit(playSupervisor())
	}
	os.Exit(m.Run())
}

// playNode is a node as far as a development cluster can tell.
func playNode() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	flags := flag.NewFlagSet("node", flag.ContinueOnError)
	values := map[string]*string{}
	for _, name := range []string{"data-dir", "http-listen", "join", "log-level", "listen", "raft-listen", "bootstrap-expect", "data-listen", "slots", "memory"} {
		values[name] = flags.String(name, "", "")
	}
	if err := flags.Parse(os.Args[2:]); err != nil {
		return 2
	}
	g := run.NewGroup(context.Background(), "node")
	if os.Args[1] == roleCoordinator {
		l, err := wire.Policy{}.Listen(ctx, *values["listen"])
		if err != nil {
			fmt.Println(err)
			return 1
		}
		s := wire.Policy{}.Server()
		leader, _, _ := strings.Cut(*values["join"], ",")
		apipb.RegisterClusterServer(s, &fakeCluster{leader: leader})
		g.Go("serve", func(context.Context) error { return s.Serve(l) })
		defer s.Stop()
	}
	fmt.Println("started", os.Args[1:])
	<-ctx.Done()
	f, err := os.OpenFile(os.Getenv(orderVariable), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 1
	}
	defer f.Close()
	_, _ = fmt.Fprintln(f, filepath.Base(*values["data-dir"]))
	return 0
}

type fakeCluster struct {
	apipb.UnimplementedClusterServer
	leader string
}

func (f *fakeCluster) Info(context.Context, *apipb.InfoRequest) (*apipb.InfoResponse, error) {
	return &apipb.InfoResponse{Leader: "x", LeaderAddress: f.leader}, nil
}

func (f *fakeCluster) Workers(context.Context, *apipb.WorkersRequest) (*apipb.WorkersResponse, error) {
	n, err := strconv.Atoi(os.Getenv(workersVariable))
	resp := &apipb.WorkersResponse{}
	for range n {
		resp.Workers = append(resp.Workers, &apipb.WorkerInfo{Worker: &commandpb.Worker{Health: commandpb.WorkerHealth_WORKER_ALIVE}})
	}
	return resp, err
}

// playSupervisor runs a cluster in the foreground until it is killed.
func playSupervisor() int {
	if err := os.Setenv(roleVariable, "node"); err != nil {
		return 1
	}
	err := Dev(context.Background(), Node{Out: os.Stdout, Err: os.Stderr}, DevOptions{
		Coordinators: 1, Workers: 2, Slots: 1, Memory: 1, DataDir: os.Args[1], LogLevel: "info",
	})
	fmt.Println(err)
	return 1
}

// stage prepares the environment of nodes and returns the options of a small cluster.
func stage(t *testing.T, behaviour string) (o DevOptions, order string) {
	t.Helper()
	dir := t.TempDir()
	order = filepath.Join(dir, "order")
	t.Setenv(roleVariable, behaviour)
	t.Setenv(workersVariable, "2")
	t.Setenv(orderVariable, order)
	t.Setenv("TMPDIR", dir) // temporary clusters and the pointer to them
	return DevOptions{Coordinators: 3, Workers: 2, Slots: 4, Memory: 1 << 30, LogLevel: "info", Ports: FreePorts}, order
}

// output is a buffer that a test waits on.
type output struct {
	mu struct {
		sync.Mutex
		bytes.Buffer
	}
	wrote chan struct{}
}

func newOutput() *output { return &output{wrote: make(chan struct{}, 1)} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.wrote <- struct{}{}:
	default:
	}
	return o.mu.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.Buffer.String()
}

func (o *output) await(t *testing.T, text string) {
	t.Helper()
	for !strings.Contains(o.String(), text) {
		select {
		case <-o.wrote:
		case <-t.Context().Done():
			t.Fatalf("no %q in %s", text, o.String())
		}
	}
}

func wantExit(t *testing.T, err error, exit ops.Exit) {
	t.Helper()
	if _, got := ops.Explain(err); got != exit {
		t.Errorf("exit %d, want %d: %v", got, exit, err)
	}
}

func TestDetachedClusterLivesUntilItIsStopped(t *testing.T) {
	o, order := stage(t, "node")
	o.DataDir = filepath.Join(t.TempDir(), "data")
	out := newOutput()
	n := Node{Out: out, Err: out}
	if err := DevDetached(t.Context(), n, o); err != nil {
		t.Fatal(err)
	}
	out.await(t, "Stop          sluice dev stop --data-dir "+o.DataDir)
	first := layoutOf(t, o.DataDir)
	wantExit(t, DevDetached(t.Context(), n, o), ops.ExitPrecondition) // it runs already

	if err := DevStop(t.Context(), n, o.DataDir); err != nil {
		t.Fatal(err)
	}
	out.await(t, "5 of 5 nodes were running; all have ended")
	for _, m := range first.Nodes {
		if m.alive() {
			t.Errorf("%s (pid %d) still runs", m.Name, m.PID)
		}
	}
	ended, err := os.ReadFile(order)
	if err != nil {
		t.Fatal(err)
	}
	names := strings.Fields(string(ended))
	if len(names) != 5 || slices.ContainsFunc(names[:2], func(s string) bool { return s[0] != 'w' }) {
		t.Errorf("ended in the order %q: workers come first", names)
	}
	if err := DevStop(t.Context(), n, o.DataDir); err != nil { // again: nothing to do
		t.Error(err)
	}

	// The same directory is the same cluster: its addresses stay, and it has as many coordinators.
	o.Workers = 2
	if err := DevDetached(t.Context(), n, o); err != nil {
		t.Fatal(err)
	}
	second := layoutOf(t, o.DataDir)
	if err := DevStop(t.Context(), n, o.DataDir); err != nil {
		t.Fatal(err)
	}
	for i, m := range second.Nodes {
		if m.API != first.Nodes[i].API || m.Raft != first.Nodes[i].Raft || m.Data != first.Nodes[i].Data {
			t.Errorf("%s moved from %+v to %+v", m.Name, first.Nodes[i], m)
		}
	}
	o.Coordinators = 1
	wantExit(t, DevDetached(t.Context(), n, o), ops.ExitPrecondition)
}

// layoutOf checks what others rely on in cluster.json.
func layoutOf(t *testing.T, dir string) *File {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, FileName))
	if err != nil {
		t.Fatal(err)
	}
	var raw struct {
		Version int
		Nodes   []map[string]any
	}
	if err := json.Unmarshal(data, &raw); err != nil || raw.Version != 1 {
		t.Fatalf("%v: %s", err, data)
	}
	for _, n := range raw.Nodes {
		keys := []string{"name", "role", "pid", "http", "dataDir", "log", "api", "raft"}
		if n["role"] == roleWorker {
			keys = append(keys[:6:6], "control", "data")
		}
		for _, k := range keys {
			if v := fmt.Sprint(n[k]); v == "" || v == "<nil>" || v == "0" {
				t.Errorf("%v has no %s", n["name"], k)
			}
		}
	}
	f, err := readFile(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range f.Nodes {
		if !m.alive() {
			t.Errorf("%s (pid %d) does not run", m.Name, m.PID)
		}
		awaitStart(t, m)
	}
	return f
}

// awaitStart waits until a played node listens to signals.
func awaitStart(t *testing.T, m *Member) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(lastLines(m.Log, 1), "started") {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatalf("%s does not start: %s", m.Name, lastLines(m.Log, 5))
		}
	}
}

func TestTemporaryClusterLeavesNothingBehind(t *testing.T) {
	o, _ := stage(t, "node")
	out := newOutput()
	n := Node{Out: out, Err: out}
	n.Format = ops.JSON
	if err := DevDetached(t.Context(), n, o); err != nil {
		t.Fatal(err)
	}
	var said File
	if err := json.Unmarshal([]byte(out.String()), &said); err != nil || len(said.Nodes) != 5 || !said.Temporary {
		t.Errorf("%v: said in JSON %s", err, out.String())
	}
	if err := DevStop(t.Context(), n, ""); err != nil {
		t.Fatal(err)
	}
	wantExit(t, DevStop(t.Context(), n, ""), ops.ExitNotFound)
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "sluice-dev-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("%v: left behind %q", err, left)
	}
}

func TestForegroundClusterSurvivesANodeAndEndsWithItsContext(t *testing.T) {
	o, order := stage(t, "node")
	out := newOutput()
	ctx, cancel := context.WithCancel(t.Context())
	g := run.NewGroup(context.Background(), "test")
	g.Go("dev", func(context.Context) error { return Dev(ctx, Node{Out: out, Err: out}, o) })
	out.await(t, "export SLUICE_ADDR=")
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), "sluice-dev-*"))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("%v: %q", err, dirs)
	}
	f := layoutOf(t, dirs[0])
	victim := f.role(roleCoordinator)[1]
	if err := syscall.Kill(victim.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	out.await(t, fmt.Sprintf("c2 (pid %d) ended: signal: killed", victim.PID))
	if !f.Nodes[0].alive() || !f.Nodes[4].alive() {
		t.Error("others ended with it")
	}
	cancel()
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	for _, m := range f.Nodes {
		if m.alive() {
			t.Errorf("%s (pid %d) still runs", m.Name, m.PID)
		}
	}
	if ended, err := os.ReadFile(order); err != nil || len(strings.Fields(string(ended))) != 4 {
		t.Errorf("%v: ended politely: %s", err, ended)
	}
	if _, err := os.Stat(dirs[0]); err == nil {
		t.Error("the temporary directory was left behind")
	}
}

func TestForegroundClusterEndsWhenEveryNodeHas(t *testing.T) {
	o, _ := stage(t, "node")
	o.DataDir = t.TempDir()
	out := newOutput()
	n := Node{Out: out, Err: out}
	g := run.NewGroup(context.Background(), "test")
	g.Go("dev", func(context.Context) error { return Dev(context.Background(), n, o) })
	out.await(t, "export SLUICE_ADDR=")
	if err := DevStop(t.Context(), n, o.DataDir); err != nil {
		t.Error(err)
	}
	if err := g.Wait(); err == nil || !strings.Contains(err.Error(), "every node has ended") {
		t.Errorf("got %v", err)
	}
}

func TestNodeThatFailsAtOnceIsShownWithItsLog(t *testing.T) {
	for name, start := range map[string]func(context.Context, Node, DevOptions) error{"foreground": Dev, "detached": DevDetached} {
		t.Run(name, func(t *testing.T) {
			o, _ := stage(t, "failing")
			out := newOutput()
			err := start(t.Context(), Node{Out: out, Err: out}, o)
			wantExit(t, err, ops.ExitOther)
			if err == nil || !strings.Contains(err.Error(), "cannot go on: the disk is full") {
				t.Errorf("the reason is missing: %v", err)
			}
			if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "sluice-dev-*")); len(left) > 0 {
				t.Errorf("left behind %q", left)
			}
		})
	}
}

// TestSupervisedNodesDoNotOutliveTheirSupervisor relies on the kernel, so it is for Linux.
func TestSupervisedNodesDoNotOutliveTheirSupervisor(t *testing.T) {
	if _, err := os.Stat("/proc/self/cmdline"); err != nil {
		t.Skip("no parent-death signal here")
	}
	o, _ := stage(t, "supervisor")
	o.DataDir = t.TempDir()
	out := newOutput()
	cmd := exec.CommandContext(t.Context(), os.Args[0], o.DataDir)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out.await(t, "export SLUICE_ADDR=")
	f := layoutOf(t, o.DataDir)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if !gone(t.Context(), f.Nodes, 10*time.Second) {
		t.Error("nodes outlive their supervisor")
		if err := end(t.Context(), f.Nodes, 0); err != nil {
			t.Error(err)
		}
	}
}

func TestStrangersWithTheSameNumberAreLeftAlone(t *testing.T) {
	stranger := &Member{Name: "w1", PID: os.Getpid(), DataDir: "/nowhere/w1"}
	if stranger.alive() {
		t.Error("this test is taken for a node")
	}
	if err := end(t.Context(), []*Member{stranger, {Name: "stopped"}}, time.Second); err != nil {
		t.Error(err) // and this test has survived
	}
}

func TestNodesInheritFailPointsAndNothingElseOfOurs(t *testing.T) {
	got := childEnvironment([]string{"PATH=x", "SLUICE_ADDR=y", "SLUICE_FAILPOINTS=z", "SLUICE_DATA_DIR=w", "HOME=v"})
	if want := []string{"PATH=x", "SLUICE_FAILPOINTS=z", "HOME=v"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestBadOptionsAreUsageErrors(t *testing.T) {
	good := DevOptions{Coordinators: 1, Workers: 1, Slots: 1, Memory: 1 << 30}
	for name, change := range map[string]func(*DevOptions){
		"no coordinator": func(o *DevOptions) { o.Coordinators = 0 }, "even": func(o *DevOptions) { o.Coordinators = 2 },
		"seven": func(o *DevOptions) { o.Coordinators = 7 }, "many workers": func(o *DevOptions) { o.Workers = 99 },
		"negative": func(o *DevOptions) { o.Workers = -1 }, "no slot": func(o *DevOptions) { o.Slots = 0 },
		"odd ports": func(o *DevOptions) { o.Ports = "odd" },
	} {
		o := good
		change(&o)
		t.Run(name, func(t *testing.T) { wantExit(t, Dev(t.Context(), Node{}, o), ops.ExitUsage) })
	}
	out := newOutput()
	n := Node{Out: out, Err: out, Logging: Logging{Level: "info", Form: "text"}}
	wantExit(t, RunCoordinator(t.Context(), n, DefaultCoordinator()), ops.ExitUsage) // no data directory
	wantExit(t, RunWorker(t.Context(), n, DefaultWorker()), ops.ExitUsage)
	n.Logging.Level = "loud"
	wantExit(t, RunCoordinator(t.Context(), n, DefaultCoordinator()), ops.ExitUsage)
	n.Logging = Logging{Level: "info", Form: "xml"}
	wantExit(t, RunWorker(t.Context(), n, DefaultWorker()), ops.ExitUsage)
	wantExit(t, Recover(t.Context(), n, t.TempDir(), nil), ops.ExitUsage)
	wantExit(t, Recover(t.Context(), n, "/nowhere", []Peer{{ID: "a", RaftAddress: "b"}}), ops.ExitNotFound)
}

func TestDamagedFileIsNotTakenForNoCluster(t *testing.T) {
	for _, content := range []string{"{", `{"version": 2}`} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, FileName), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		wantExit(t, DevStop(t.Context(), Node{Out: newOutput()}, dir), ops.ExitPrecondition)
	}
}

// TestUsualPortsAreTakenAllTogetherOrNotAtAll: whoever has written one of them down would meet somebody else's cluster.
func TestUsualPortsAreTakenAllTogetherOrNotAtAll(t *testing.T) {
	usual := func(ports Ports) (n int) {
		f, err := layOut(t.Context(), DevOptions{Coordinators: 1, Workers: 1, Ports: ports}, nil, t.TempDir(), "sluice")
		if err != nil {
			t.Fatal(err)
		}
		missing := &File{Nodes: []*Member{{Role: roleCoordinator}, {Role: roleWorker}}}
		_, want := missing.missing()
		got := []string{f.Nodes[0].API, f.Nodes[0].Raft, f.Nodes[0].HTTP, f.Nodes[1].Data, f.Nodes[1].Control, f.Nodes[1].HTTP}
		for i, addr := range got {
			if addr == net.JoinHostPort(loopback, strconv.Itoa(want[i])) {
				n++
			}
		}
		return n
	}
	if n := usual(FreePorts); n != 0 {
		t.Errorf("%d usual ports although free ones were asked for", n)
	}
	if n := usual(UsualPorts); n != 0 && n != 6 { // somebody may have them
		t.Errorf("%d of 6 usual ports", n)
	}
	l, err := listen(t.Context(), firstWorkerHTTP)
	if err == nil {
		defer l.Close()
	}
	if n := usual(UsualPorts); n != 0 {
		t.Errorf("%d usual ports although one of them is taken", n)
	}
}
