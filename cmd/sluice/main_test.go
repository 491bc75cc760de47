package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/test/bufconn"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/internal/wire"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"

	"github.com/sluiceio/sluice/cmd/sluice/internal/ops"
)

// coordinators answer what the tests below ask.
type coordinators struct {
	apipb.UnimplementedJobsServer
	apipb.UnimplementedClusterServer
	ended jobpb.JobStatus
	asked []string // methods with what was asked for; calls come one after the other
}

func (c *coordinators) List(_ context.Context, r *apipb.ListRequest) (*apipb.ListResponse, error) {
	c.asked = append(c.asked, fmt.Sprintf("list stale=%t %v", r.Stale, r.Status))
	return &apipb.ListResponse{Jobs: []*apipb.JobSummary{{Id: "a-1"}, {Id: "b-2"}}}, nil
}

func (c *coordinators) Wait(_ context.Context, r *apipb.WaitRequest) (*apipb.StatusResponse, error) {
	return &apipb.StatusResponse{Id: r.Job, Status: c.ended}, nil
}

func (c *coordinators) Status(_ context.Context, r *apipb.StatusRequest) (*apipb.StatusResponse, error) {
	return nil, apipb.NewError(codes.NotFound, &apipb.ErrorDetail{Code: "E102"}, "unknown job %q", r.Job)
}

func (c *coordinators) AddPeer(_ context.Context, r *apipb.AddPeerRequest) (*apipb.AddPeerResponse, error) {
	c.asked = append(c.asked, "add "+r.Id+" "+r.ApiAddress+" "+r.RaftAddress)
	return &apipb.AddPeerResponse{}, nil
}

func (c *coordinators) RemovePeer(_ context.Context, r *apipb.RemovePeerRequest) (*apipb.RemovePeerResponse, error) {
	c.asked = append(c.asked, fmt.Sprintf("remove %s force=%t", r.Id, r.Force))
	return &apipb.RemovePeerResponse{}, nil
}

// line runs a command line against a cluster.
type line struct {
	app    *app
	env    map[string]string
	dialed []string
	out    bytes.Buffer
	err    bytes.Buffer
}

func newLine(t *testing.T, c *coordinators) *line {
	t.Helper()
	t.Setenv("SLUICE_CONTEXTS", filepath.Join(t.TempDir(), "contexts.json"))
	l := bufconn.Listen(64 << 10)
	s := grpc.NewServer()
	apipb.RegisterJobsServer(s, c)
	apipb.RegisterClusterServer(s, c)
	g := run.NewGroup(context.Background(), "cluster")
	g.Go("serve", func(context.Context) error { return s.Serve(l) })
	t.Cleanup(s.Stop)
	x := &line{env: map[string]string{}}
	x.app = &app{out: &x.out, err: &x.err, now: time.Now,
		getenv: func(name string) (string, bool) { v, ok := x.env[name]; return v, ok },
		dial: func(p wire.Policy) func(string) (*grpc.ClientConn, error) {
			return func(addr string) (*grpc.ClientConn, error) {
				x.dialed = append(x.dialed, addr)
				return p.Client("127.0.0.1:1", grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
			}
		}}
	return x
}

func (x *line) run(t *testing.T, args ...string) ops.Exit {
	t.Helper()
	x.out.Reset()
	x.err.Reset()
	x.dialed = nil
	fresh := *x.app // flags of the line before
	return fresh.execute(t.Context(), args)
}

func (x *line) want(t *testing.T, exit ops.Exit, args ...string) {
	t.Helper()
	if got := x.run(t, args...); got != exit {
		t.Errorf("sluice %s: exit %d, want %d\n%s%s", strings.Join(args, " "), got, exit, x.out.String(), x.err.String())
	}
}

func TestEveryVerbOfTheContractExists(t *testing.T) {
	x := newLine(t, &coordinators{})
	for _, verb := range []string{
		"dev", "dev stop", "coordinator", "worker", "submit", "list", "status", "wait", "plan", "cancel", "workers", "workers list", "workers drain",
		"workers undrain", "peers", "raft", "raft info", "raft add-peer", "raft remove-peer", "raft transfer-leader", "raft snapshot save",
		"raft snapshot restore", "raft recover", "events", "logs", "digest", "new job", "job", "context", "version", "completion", "completion bash",
	} {
		x.want(t, ops.ExitOK, append(strings.Fields(verb), "--help")...)
		first := x.out.String()
		if x.want(t, ops.ExitOK, append([]string{"help"}, strings.Fields(verb)...)...); x.out.String() != first {
			t.Errorf("sluice help %s shows something else:\n%s", verb, x.out.String())
		}
		last := strings.Fields(verb)
		if !strings.Contains(x.out.String(), "sluice "+strings.Join(last, " ")) {
			t.Errorf("sluice %s --help shows something else:\n%s", verb, x.out.String())
		}
	}
	for _, verb := range []string{"list", "status", "submit", "peers", "raft info"} {
		x.run(t, append(strings.Fields(verb), "--help")...)
		for _, flag := range []string{"--addr", "--timeout", "--output"} {
			if !strings.Contains(x.out.String(), flag) {
				t.Errorf("sluice %s has no %s", verb, flag)
			}
		}
	}
}

func TestWrongCommandLinesAreTwo(t *testing.T) {
	x := newLine(t, &coordinators{})
	for _, args := range [][]string{
		{"lst"}, {"list", "extra"}, {"list", "--nope"}, {"list", "-o", "yaml"}, {"list", "--status", "asleep"}, {"list", "--timeout", "soon"},
		{"list", "--timeout", "-1s"}, {"list", "--addr", "nowhere"}, {"list", "--addr", "10.0.0.1:7420"}, {"status"}, {"status", "a", "b"},
		{"status", "a", "--watch", "--every", "0s"}, {"wait"}, {"submit"}, {"submit", "x", "--wait", "--dry-run"},
		{"plan", "x", "-p", "novalue"}, {"plan", "x", "-p", "a=1", "-p", "a=2"}, {"plan", "x", "--set", "=1"}, {"workers", "drain"},
		{"raft", "add-peer", "n"}, {"raft", "recover"}, {"raft", "recover", "--data-dir", "/nowhere", "--peers", "a"}, {"raft", "nope"},
		{"dev", "--coordinators", "2"}, {"dev", "--memory", "much"}, {"coordinator"}, {"worker", "--data-dir", "/nowhere"},
		{"coordinator", "--config", "/nowhere"}, {"new", "job", "Bad Name"}, {"job", "nope"}, {"digest"},
	} {
		x.want(t, ops.ExitUsage, args...)
		if !strings.HasPrefix(x.err.String(), "error E090: ") && !strings.HasPrefix(x.err.String(), "error: ") {
			t.Errorf("sluice %s: %s", strings.Join(args, " "), x.err.String())
		}
		if x.out.Len() > 0 && args[0] != "raft" && args[0] != "new" {
			t.Errorf("sluice %s wrote an answer: %s", strings.Join(args, " "), x.out.String())
		}
	}
	for line, want := range map[string]string{
		"lst":        "error E090: unknown command \"lst\" for \"sluice\"\n  fix: did you mean list?\n  fix: sluice --help, or --help after a verb\n",
		"help lst":   "error E090: unknown command \"lst\" for \"sluice\"\n",
		"status":     "error E090: sluice status: no JOB is given\n  fix: sluice status JOB [flags]\n",
		"status a b": "error E090: sluice status: unexpected argument \"b\"\n",
		"worker":     "error E090: worker: data directory: not set\n  join: at least one coordinator is needed\n  fix: --data-dir DIR: ",
	} {
		if exit := x.run(t, strings.Fields(line)...); exit != ops.ExitUsage || !strings.HasPrefix(x.err.String(), want) || x.out.Len() > 0 {
			t.Errorf("sluice %s: exit %d, %s%s", line, exit, x.err.String(), x.out.String())
		}
	}
	if x.run(t, "status", "-o", "json"); !strings.Contains(x.err.String(), `"exit": 2`) {
		t.Errorf("no JSON: %s", x.err.String())
	}
}

func TestOutcomesOfJobsAreExitCodes(t *testing.T) {
	for status, exit := range map[jobpb.JobStatus]ops.Exit{
		jobpb.JobStatus_JOB_FINISHED: ops.ExitOK, jobpb.JobStatus_JOB_FAILED: ops.ExitJobFailed, jobpb.JobStatus_JOB_CANCELLED: ops.ExitJobCancelled,
	} {
		newLine(t, &coordinators{ended: status}).want(t, exit, "wait", "a-1")
	}
	x := newLine(t, &coordinators{})
	x.want(t, ops.ExitNotFound, "status", "a-1")
	if x.err.String() != "error E102: unknown job \"a-1\"\n" {
		t.Errorf("got %q", x.err.String())
	}
	x.want(t, ops.ExitOther, "peers") // the fake does not have it
}

func TestFlagsReachTheRequest(t *testing.T) {
	c := &coordinators{}
	x := newLine(t, c)
	x.want(t, ops.ExitOK, "list", "--stale", "--status", "running,failed")
	x.want(t, ops.ExitOK, "ls")
	x.want(t, ops.ExitOK, "raft", "add-peer", "n", "--api", "h:1", "--raft", "h:2")
	x.want(t, ops.ExitOK, "raft", "remove-peer", "n", "--force")
	want := []string{"list stale=true [JOB_RUNNING JOB_FAILED]", "list stale=false []", "add n h:1 h:2", "remove n force=true"}
	if !slices.Equal(c.asked, want) {
		t.Errorf("got %q, want %q", c.asked, want)
	}
}

func TestAddressesComeFromFlagThenEnvironmentThenContextThenDev(t *testing.T) {
	x := newLine(t, &coordinators{})
	x.want(t, ops.ExitOK, "list")
	if !slices.Equal(x.dialed, defaultAddrs) {
		t.Errorf("default: %q", x.dialed)
	}
	x.want(t, ops.ExitOK, "context", "add", "lab", "127.0.0.1:1,127.0.0.1:2")
	x.want(t, ops.ExitOK, "context", "add", "other", "127.0.0.1:9")
	for _, c := range []struct {
		env  string
		args []string
		want string
	}{
		{"", []string{"list"}, "127.0.0.1:1 127.0.0.1:2"},
		{"", []string{"list", "--context", "other"}, "127.0.0.1:9"},
		{"127.0.0.1:3,127.0.0.1:4", []string{"list"}, "127.0.0.1:3 127.0.0.1:4"},
		{"127.0.0.1:3", []string{"list", "--addr", "127.0.0.1:5"}, "127.0.0.1:5"},
	} {
		x.env["SLUICE_ADDR"] = c.env
		x.want(t, ops.ExitOK, c.args...)
		if got := strings.Join(x.dialed, " "); got != c.want {
			t.Errorf("%v with %q: %q", c.args, c.env, got)
		}
	}
	x.env["SLUICE_ADDR"] = ""
	x.want(t, ops.ExitNotFound, "list", "--context", "none")
	x.env["SLUICE_TIMEOUT"] = "soon"
	x.want(t, ops.ExitUsage, "list")
	if !strings.Contains(x.err.String(), `SLUICE_TIMEOUT="soon"`) {
		t.Errorf("the variable is not named: %s", x.err.String())
	}
	x.env["SLUICE_TIMEOUT"], x.env["SLUICE_INSECURE"] = "", "true"
	x.want(t, ops.ExitOK, "list", "--addr", "10.0.0.1:7420")
}

func TestConfigFileFillsWhatWasNotSaid(t *testing.T) {
	path := filepath.Join(t.TempDir(), "worker.conf")
	content := "# a worker\nslots = 7\n\nmemory=3GiB\nzone = from file\njoin = 127.0.0.1:1,127.0.0.1:2\n" +
		"set = network.memory=20%\nset = buffer.timeout=5ms\n"
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	x := newLine(t, &coordinators{})
	c := x.app.workerVerb()
	if err := c.ParseFlags([]string{"--zone", "from flag"}); err != nil {
		t.Fatal(err)
	}
	if err := fromFile(c.Flags(), path); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"slots": "7", "memory": "3GiB", "zone": "from flag", "join": "[127.0.0.1:1,127.0.0.1:2]",
		"set": "[network.memory=20%,buffer.timeout=5ms]"} {
		if got := c.Flags().Lookup(name).Value.String(); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if err := os.WriteFile(path, []byte("slots = many\nnope = 1\nslots\nhelp = 1\nconfig = x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	x.want(t, ops.ExitUsage, "worker", "--config", path)
	for n := 1; n <= 5; n++ {
		if !strings.Contains(x.err.String(), fmt.Sprintf("line %d: ", n)) {
			t.Errorf("line %d is not complained about: %s", n, x.err.String())
		}
	}
}

func TestAmountsOfMemory(t *testing.T) {
	for text, want := range map[string]int64{"8GiB": 8 << 30, "512MiB": 512 << 20, "1.5GB": 1_500_000_000, "64 MB": 64_000_000, "1024": 1024, "7B": 7, "1TiB": 1 << 40} {
		var b bytesValue
		if err := b.Set(text); err != nil || int64(b) != want {
			t.Errorf("%s is %d, %v; want %d", text, b, err, want)
		}
		var again bytesValue
		if err := again.Set(b.String()); err != nil || again != b {
			t.Errorf("%s prints as %s, which is %d", text, b.String(), again)
		}
	}
	for _, text := range []string{"", "GiB", "-1GiB", "much", "1XB", "1e30GiB", "NaN"} {
		var b bytesValue
		if err := b.Set(text); err == nil {
			t.Errorf("%q was read as %d", text, b)
		}
	}
}

func TestShellIsOfferedTheJobs(t *testing.T) {
	x := newLine(t, &coordinators{})
	x.want(t, ops.ExitOK, "__complete", "status", "")
	if !strings.HasPrefix(x.out.String(), "a-1\nb-2\n") {
		t.Errorf("got %s", x.out.String())
	}
}

func TestVersionNeedsNoCluster(t *testing.T) {
	x := newLine(t, &coordinators{})
	x.want(t, ops.ExitOK, "version")
	if !strings.Contains(x.out.String(), "none answers") {
		t.Errorf("got %s", x.out.String())
	}
	x.want(t, ops.ExitOK, "version", "-o", "json")
	if !strings.Contains(x.out.String(), `"protocolMax": `) {
		t.Errorf("got %s", x.out.String())
	}
}
