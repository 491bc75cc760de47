//go:build linux

package spawn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/worker/record"
)

// limit bounds every wait of these tests; nothing comes near it.
const limit = 30 * time.Second

// starter is a running one.
func starter(t *testing.T) *Starter {
	t.Helper()
	s := NewStarter()
	g := run.NewGroup(context.Background(), "test")
	g.Go("starter", s.Run)
	t.Cleanup(func() {
		g.Stop()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
	return s
}

type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// script makes a binary and the specification of its process.
func script(t *testing.T, body string) (Spec, *output) {
	t.Helper()
	dir := t.TempDir()
	name := filepath.Join(dir, "job")
	if err := os.WriteFile(name, []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	out := &output{}
	return Spec{
		Binary: name, Dir: filepath.Join(dir, "process"), Job: "job-1", Process: 7, Worker: "w-1", MemoryBytes: 1 << 20, Procs: 1,
		Stdout: out, Stderr: out,
	}, out
}

// wait runs a child to its end.
func wait(t *testing.T, c *Child) Exit {
	t.Helper()
	exits := make(chan Exit, 1)
	g := run.NewGroup(context.Background(), "test")
	g.Go("wait", func(context.Context) error {
		e, err := c.Wait()
		exits <- e
		return err
	})
	select {
	case <-c.Done():
	case <-time.After(limit):
		c.Kill()
		t.Error("the process does not end")
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	_ = c.Close() // it may be closed already
	return <-exits
}

func TestOutputAndExitOfAChild(t *testing.T) {
	spec, out := script(t, "echo to stdout; echo to stderr >&2; exit 3")
	c, err := starter(t).Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if e := wait(t, c); e.Code != 3 || e.Signal != "" {
		t.Errorf("exit: %v", e)
	}
	if !strings.Contains(out.String(), "to stdout\n") || !strings.Contains(out.String(), "to stderr\n") {
		t.Errorf("output: %q", out)
	}
	r, err := ReadRecord(spec.Dir)
	if err != nil || r.Job != "job-1" || r.Process != 7 || r.Pid != c.Pid() {
		t.Errorf("record: %+v, %v", r, err)
	}
	if alive, err := r.alive(); alive || err != nil {
		t.Errorf("alive after the end: %v, %v", alive, err)
	}
}

func TestTheDirectoryIsLockedForTheLifeOfItsProcess(t *testing.T) {
	s := starter(t)
	spec, _ := script(t, "exec sleep 1000")
	c, err := s.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Start(t.Context(), spec); !errors.Is(err, errLocked) {
		t.Errorf("a second process in one directory: %v", err)
	}
	c.Kill()
	if e := wait(t, c); e.Signal != "SIGKILL" {
		t.Errorf("exit: %v", e)
	}
	lock, err := lockFile(filepath.Join(spec.Dir, LockName))
	if err != nil {
		t.Fatalf("locked after the end: %v", err)
	}
	_ = lock.Close()
	c.Kill() // after the end: nothing, whoever has the pid now
}

func TestABinaryThatIsBeingWrittenIsTriedAgain(t *testing.T) {
	spec, _ := script(t, "exit 0")
	f, err := os.OpenFile(spec.Binary, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := starter(t)
	ctx, cancel := context.WithCancel(t.Context())
	g := run.NewGroup(t.Context(), "test")
	started := make(chan *Child, 1)
	g.Go("start", func(context.Context) error {
		c, err := s.Start(ctx, spec)
		if err == nil {
			started <- c
		}
		return err
	})
	select { // it is busy for as long as the file is open for writing
	case <-started:
		t.Fatal("started a file that is being written")
	case <-time.After(5 * busyPause):
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	cancel()
	wait(t, <-started)
}

func TestWhatCannotBeStartedLeavesNothingRunning(t *testing.T) {
	s := starter(t)
	spec, _ := script(t, "exit 0")
	if err := os.WriteFile(spec.Binary, []byte("no program"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Start(t.Context(), spec); !errors.Is(err, syscall.ENOEXEC) {
		t.Errorf("no program: %v", err)
	}
	spec.Binary += "-missing"
	if _, err := s.Start(t.Context(), spec); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	// The lock and both sockets were given back: the directory serves the next try.
	if err := EndLeftover(t.Context(), spec.Dir); err != nil {
		t.Error(err)
	}
}

func TestNothingIsStartedAfterTheStarterHasEnded(t *testing.T) {
	s := NewStarter()
	g := run.NewGroup(t.Context(), "test")
	g.Go("starter", s.Run)
	g.Stop()
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	spec, _ := script(t, "exit 0")
	if _, err := s.Start(t.Context(), spec); !errors.Is(err, ErrStopped) {
		t.Errorf("start: %v", err)
	}
}

// The parent-death signal comes with the end of the thread that started the child, so the starter's thread must be its
// own; its end is the end of the children.
func TestChildrenDieWithTheStartersThread(t *testing.T) {
	s := NewStarter()
	g := run.NewGroup(context.Background(), "test")
	g.Go("starter", s.Run)
	spec, _ := script(t, "exec sleep 1000")
	c, err := s.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	g.Stop()
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if e := wait(t, c); e.Signal != "SIGKILL" {
		t.Errorf("exit: %v", e)
	}
}

// onMain calls f on the main thread: on this goroutine, if that has it, else on one of many that hold on to their threads
// until one of them has it.
func onMain(t *testing.T, f func() error) error {
	t.Helper()
	runtime.LockOSThread()
	if onMainThread() {
		defer runtime.UnlockOSThread()
		return f()
	}
	defer runtime.UnlockOSThread() // held, so that the others get the main thread
	g := run.NewGroup(t.Context(), "threads")
	tried, release := make(chan bool), make(chan struct{})
	const most = 200
	found := false
	for n := 0; n < most && !found; n++ {
		g.Go("thread", func(context.Context) error {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			main := onMainThread()
			tried <- main
			if main {
				return f()
			}
			<-release
			return nil
		})
		found = <-tried
	}
	close(release)
	if !found {
		t.Skipf("none of %d goroutines came to the main thread", most)
	}
	return g.Wait()
}

// TestChildrenDieAlsoIfTheStarterBeganOnTheMainThread: that thread outlives every goroutine.
func TestChildrenDieAlsoIfTheStarterBeganOnTheMainThread(t *testing.T) {
	s := NewStarter()
	spec, _ := script(t, "exec sleep 1000")
	starter, driver := run.NewGroup(context.Background(), "starter"), run.NewGroup(t.Context(), "driver")
	started := make(chan *Child, 1)
	driver.Go("start", func(ctx context.Context) error {
		defer starter.Stop()
		c, err := s.Start(ctx, spec)
		if err == nil {
			started <- c
		}
		return err
	})
	if err := errors.Join(onMain(t, func() error { return s.Run(starter.Context()) }), driver.Wait()); err != nil {
		t.Fatal(err)
	}
	if e := wait(t, <-started); e.Signal != "SIGKILL" {
		t.Errorf("exit: %v", e)
	}
}

func TestOffspringThatHoldsTheOutputDoesNotHoldUpTheEnd(t *testing.T) {
	spec, out := script(t, "sleep 1000 & echo started; exit 0")
	c, err := starter(t).Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if e := wait(t, c); e.Code != 0 {
		t.Errorf("exit: %v", e)
	}
	if out.String() != "started\n" {
		t.Errorf("output: %q", out)
	}
}

// ---------------------------------------------------------------- left over

// orphan starts a process as an agent does that dies without it. Its directory is dir; temp is what its environment
// says.
func orphan(t *testing.T, dir, temp, command string) *exec.Cmd {
	t.Helper()
	lock, err := prepare(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	cmd := exec.Command("/bin/sh", "-c", command)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + temp}
	cmd.ExtraFiles = []*os.File{lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	g := run.NewGroup(context.Background(), "test")
	g.Go("reap", func(context.Context) error {
		_ = cmd.Wait()
		return nil
	})
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
	return cmd
}

func TestALeftoverIsKilled(t *testing.T) {
	dir := t.TempDir()
	cmd := orphan(t, dir, "/tmp", "exec sleep 1000")
	if err := WriteRecord(dir, "job-1", 7, cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if err := EndLeftover(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if err := EndLeftover(t.Context(), dir); err != nil {
		t.Errorf("a second time: %v", err)
	}
}

func TestADirectoryThatSomebodyElseHoldsIsAnError(t *testing.T) {
	for name, edit := range map[string]func(*Record){
		"another start time": func(r *Record) { r.Start++ },
		"another boot":       func(r *Record) { r.Boot = "yesterday" },
		"another pid":        func(r *Record) { r.Pid = os.Getpid(); r.Start++ },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cmd := orphan(t, dir, "/tmp", "exec sleep 1000")
			if err := WriteRecord(dir, "job-1", 7, cmd.Process.Pid); err != nil {
				t.Fatal(err)
			}
			r, err := ReadRecord(dir)
			if err != nil {
				t.Fatal(err)
			}
			edit(&r)
			data, err := record.Encode(recordKind, r)
			if err != nil {
				t.Fatal(err)
			}
			if err := vfs.Publish(vfs.OS{}, filepath.Join(dir, RecordName), data); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := EndLeftover(ctx, dir); err == nil || !strings.Contains(err.Error(), dir) {
				t.Errorf("got %v", err)
			}
			if err := cmd.Process.Signal(syscall.Signal(0)); err != nil {
				t.Errorf("it was killed: %v", err)
			}
		})
	}
}

func TestADamagedRecordIsNoObstacleWhenNothingRuns(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, RecordName), []byte("garbage"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := EndLeftover(t.Context(), dir); err != nil {
		t.Error(err)
	}
}

// The process has died, something that it started lives on in its group. The environment tells that it is ours.
func TestOffspringOfADeadLeftoverIsKilledByItsEnvironment(t *testing.T) {
	dir, foreignDir := t.TempDir(), t.TempDir()
	const forks = "sleep 1000 5>&- 4>&- 3>&- >/dev/null 2>&1 & exit 0"
	cmd := orphan(t, dir, filepath.Join(dir, tempName), "read -r _; "+forks)
	foreign := orphan(t, foreignDir, filepath.Join(foreignDir, tempName), "read -r _; "+forks)
	// Both have ended as soon as their standard input (/dev/null) was read.
	for _, c := range []*exec.Cmd{cmd, foreign} {
		awaitGone(t, c.Process.Pid)
	}
	mine, other := membersOf(t, cmd.Process.Pid), membersOf(t, foreign.Process.Pid)
	if len(mine) != 1 || len(other) != 1 {
		t.Fatalf("groups: %v and %v", mine, other)
	}
	boot, err := bootID()
	if err != nil {
		t.Fatal(err)
	}
	// Its directory is dir, but its group is taken for the other one's: the environment must save that.
	for _, r := range []Record{{Pid: foreign.Process.Pid, Start: 1, Boot: boot}, {Pid: cmd.Process.Pid, Start: 1, Boot: boot}} {
		if err := r.end(dir); err != nil {
			t.Fatal(err)
		}
	}
	awaitGone(t, mine[0])
	if got := membersOf(t, foreign.Process.Pid); len(got) != 1 {
		t.Errorf("a process of another directory was killed: %v", got)
	}
}

func membersOf(t *testing.T, group int) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, e := range entries {
		var pid int
		if _, err := fmt.Sscanf(e.Name(), "%d", &pid); err != nil {
			continue
		}
		if f, err := statFields(pid); err == nil && f[groupField] == fmt.Sprint(group) && f[0] != "Z" {
			pids = append(pids, pid)
		}
	}
	return pids
}

func awaitGone(t *testing.T, pid int) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.Now().Add(limit)
	for range ticker.C {
		if f, err := statFields(pid); err != nil || f[0] == "Z" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d lives", pid)
		}
	}
}

func TestTheInheritedDescriptorsAreALink(t *testing.T) {
	// The child says on descriptor 3 what the agent wrote there: a message came through in both directions.
	spec, _ := script(t, "exec cat <&3 >&3")
	c, err := starter(t).Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Link.SetReceiveDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	sent := &taskpb.TaskMessage{Message: &taskpb.TaskMessage_Hello{Hello: &taskpb.Hello{Protocol: 1, JobName: "echo"}}}
	if err := c.Link.Send(t.Context(), sent); err != nil {
		t.Fatal(err)
	}
	var got taskpb.TaskMessage
	if err := c.Link.Receive(&got); err != nil || got.GetHello().JobName != "echo" {
		t.Errorf("received %v, %v", &got, err)
	}
	if err := c.Close(); err != nil { // the end of the link ends the process
		t.Fatal(err)
	}
	if e := wait(t, c); e.Code != 0 {
		t.Errorf("exit: %v", e)
	}
}

func FuzzRecord(f *testing.F) {
	data, err := record.Encode(recordKind, Record{Job: "j", Process: 1, Pid: 100, Start: 5, Boot: "b"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte("sluice-process 1\n{\"pid\":1}\ncrc32c 00000000\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, err := decodeRecord(data); err == nil && (r.Pid <= 1 || r.Boot == "") {
			t.Fatalf("%+v was believed: a signal to its group could reach everyone", r)
		}
	})
}
