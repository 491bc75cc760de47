package endtoend

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const root = "../.."

// binaries is the directory of sluice, flights, mixed, nexmark and trial, built once.
var binaries string

func TestMain(m *testing.M) {
	code, err := testMain(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(code)
}

func testMain(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "sluice-endtoend-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for _, pkg := range []string{"cmd/sluice", "examples/flights", "examples/mixed", "examples/nexmark", "internal/trial"} {
		cmd := exec.Command("go", "build", "-o", filepath.Join(dir, filepath.Base(pkg)), "./"+pkg)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("build %s: %w\n%s", pkg, err, out)
		}
	}
	binaries = dir
	return m.Run(), nil
}

func bin(name string) string { return filepath.Join(binaries, name) }

// answer is what a command said.
type answer struct {
	exit     int
	out, err string
}

func (a answer) String() string { return fmt.Sprintf("exit %d\n%s%s", a.exit, a.out, a.err) }

// says reports whether the command has said all of this on standard error.
func (a answer) says(texts ...string) bool {
	return !slices.ContainsFunc(texts, func(s string) bool { return !strings.Contains(a.err, s) })
}

// command runs a program to its end. What it leaves in the way of temporary files goes with the test.
func command(t *testing.T, env []string, name string, args ...string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("%s %v hangs\n%s%s", filepath.Base(name), args, out.String(), errs.String())
	}
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		t.Fatalf("%s %v: %v", filepath.Base(name), args, err)
	}
	return answer{exit: cmd.ProcessState.ExitCode(), out: out.String(), err: errs.String()}
}

// Exit codes of a job binary and of the command line.
const (
	exitOK           = 0
	exitNotFound     = 3
	exitPrecondition = 4
	exitPlan         = 2
	exitFailed       = 8

	exitCancelled = 9
)

// job runs a job binary embedded, with a directory for its temporary files.
func job(t *testing.T, name string, args ...string) answer {
	t.Helper()
	return command(t, []string{"TMPDIR=" + t.TempDir()}, bin(name), args...)
}

// cluster is a development cluster of one coordinator, unless the arguments say otherwise, and some workers.
type cluster struct {
	t    *testing.T
	dir  string         // everything of it
	addr string         // of every coordinator
	http string         // where the coordinator has its metrics
	cage *cage          // nil: it sees the file system as it is
	pids map[string]int // of the nodes, by name: c1, w1, …
}

type options struct {
	workers, slots int
	args           []string // added to the command line of sluice dev
	cage           *cage
}

func newCluster(t *testing.T, o options) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: filepath.Join(t.TempDir(), "cluster"), cage: o.cage}
	args := append([]string{"dev", "--detach", "--workers", fmt.Sprint(o.workers), "--slots", fmt.Sprint(o.slots), "--ports", "free", "--data-dir", c.dir}, o.args...)
	name := bin("sluice")
	if o.cage != nil {
		name, args = o.cage.wrap(t, c.dir, name, args)
	}
	if a := command(t, nil, name, args...); a.exit != exitOK {
		t.Fatalf("sluice dev: %v\n%s", a, c.logs())
	}
	t.Cleanup(func() {
		stop := exec.Command(bin("sluice"), "dev", "stop", "--data-dir", c.dir) // the test's context has ended
		if out, err := stop.CombinedOutput(); err != nil {
			t.Errorf("sluice dev stop: %v\n%s", err, out)
		}
		if t.Failed() {
			t.Log(c.logs())
		}
	})
	raw, err := os.ReadFile(filepath.Join(c.dir, "cluster.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Nodes []struct {
			Name, API, HTTP string
			PID             int
		}
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	c.http, c.pids = file.Nodes[0].HTTP, map[string]int{}
	var coordinators []string
	for _, n := range file.Nodes {
		c.pids[n.Name] = n.PID
		if strings.HasPrefix(n.Name, "c") {
			coordinators = append(coordinators, n.API)
		}
	}
	c.addr = strings.Join(coordinators, ",")
	return c
}

// logs is the end of the log of every node.
func (c *cluster) logs() string {
	const most = 16 << 10
	var b strings.Builder
	files, _ := filepath.Glob(filepath.Join(c.dir, "logs", "*.log")) // the pattern is right
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err == nil {
			fmt.Fprintf(&b, "== %s\n%s\n", filepath.Base(name), raw[max(0, len(raw)-most):])
		}
	}
	return b.String()
}

func (c *cluster) run(args ...string) answer {
	c.t.Helper()
	return command(c.t, []string{"SLUICE_ADDR=" + c.addr, "SLUICE_CONTEXTS=" + filepath.Join(c.dir, "contexts.json")}, bin("sluice"), args...)
}

// submit runs a job to its end, whatever that is.
func (c *cluster) submit(name string, args ...string) answer {
	c.t.Helper()
	return c.run(append([]string{"submit", bin(name), "--wait"}, args...)...)
}

// finish is submit of a job that has to finish.
func (c *cluster) finish(name string, args ...string) {
	c.t.Helper()
	if a := c.submit(name, args...); a.exit != exitOK {
		c.t.Fatalf("submit %s %v: %v", name, args, a)
	}
}

// decode runs a command with -o json.
func (c *cluster) decode(into any, args ...string) {
	c.t.Helper()
	a := c.run(append(args, "-o", "json")...)
	if a.exit != exitOK {
		c.t.Fatalf("sluice %v: %v", args, a)
	}
	if err := json.Unmarshal([]byte(a.out), into); err != nil {
		c.t.Fatalf("sluice %v: %v\n%s", args, err, a.out)
	}
}

// jobStatus is the part of `sluice status -o json` that tests look at.
type jobStatus struct {
	ID, Status string
	Subtasks   []struct {
		Operator, Worker, State string
		Index, Attempt, Region  int
		Operators               []string
		Counters                *struct {
			RecordsIn      int64 `json:",string"`
			SpilledBytes   int64 `json:",string"`
			SpilledRecords int64 `json:",string"`
			StoredBytes    int64 `json:",string"`
			RereadBytes    int64 `json:",string"`
		}
	}
	Edges   []struct{ From, To, Exchange, Reason string }
	Failure *struct{ Code, Message, Operator, Worker string }
}

func (c *cluster) status(job string) (s jobStatus) {
	c.t.Helper()
	c.decode(&s, "status", job)
	return s
}

// digest identifies a multiset of rows.
type digest struct {
	Count    int64
	Sum, Xor string
}

// digestOf reads the committed part files of dir.
func digestOf(t *testing.T, dir string) digest {
	t.Helper()
	var count int64
	var sum, xor uint64
	for _, row := range rowsOf(t, dir) {
		h := fnv.New64a()
		_, _ = io.WriteString(h, row)
		count++
		sum += h.Sum64()
		xor ^= h.Sum64()
	}
	return digest{count, fmt.Sprintf("%016x", sum), fmt.Sprintf("%016x", xor)}
}

// rowsOf are the rows of the part files of dir, in the order of their names.
func rowsOf(t *testing.T, dir string) (rows []string) {
	t.Helper()
	parts, err := filepath.Glob(filepath.Join(dir, "part-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range parts {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(raw)) {
			rows = append(rows, strings.TrimSuffix(line, "\n"))
		}
	}
	return rows
}

// absolute is a path inside the checkout, as another process needs it.
func absolute(t *testing.T, parts ...string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(append([]string{root}, parts...)...))
	if err != nil {
		t.Fatal(err)
	}
	return path
}
