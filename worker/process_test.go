//go:build unix

package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/worker/spawn"
)

// running deploys the tiny job and returns the pid of its process.
func running(t *testing.T, s *fakeSession, cfg Config, d *taskpb.Deployment) int {
	t.Helper()
	s.order(deploy(d))
	for range d.Subtasks {
		s.state(jobpb.SubtaskState_SUBTASK_RUNNING)
	}
	return pidOf(t, cfg, d.Job, d.Process)
}

func pidOf(t *testing.T, cfg Config, job string, process uint64) int {
	t.Helper()
	r, err := spawn.ReadRecord(processDir(filepath.Join(cfg.DataDir, processesName), processKey{job, process}))
	if err != nil {
		t.Fatal(err)
	}
	return r.Pid
}

// outputOf is what a task process has written so far.
func outputOf(t *testing.T, cfg Config, job string, process uint64) string {
	t.Helper()
	dir := processDir(filepath.Join(cfg.DataDir, processesName), processKey{job, process})
	var all strings.Builder
	files, err := filepath.Glob(filepath.Join(dir, spawn.LogName, "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(b)
	}
	return all.String()
}

func TestEveryEndOfATaskProcessIsReportedForWhatItIs(t *testing.T) {
	for _, test := range []struct {
		run    string
		kind   jobpb.FailureKind
		code   string
		signal string
		reason string
		stderr string
	}{
		{run: "panic", kind: jobpb.FailureKind_FAILURE_USER, code: codeCrashed, reason: "panic: index out of luck", stderr: "goroutine 1 [running]"},
		{run: "exit", kind: jobpb.FailureKind_FAILURE_USER, code: codeCrashed, reason: "exited with code 7 by itself"},
		{run: "segv", kind: jobpb.FailureKind_FAILURE_USER, code: codeCrashed, reason: "SIGSEGV"},
		{run: "garbage", kind: jobpb.FailureKind_FAILURE_FATAL, code: codeGarbled, reason: "does not speak the task protocol"},
		{run: "failure", kind: jobpb.FailureKind_FAILURE_FATAL, code: "E030", reason: "the plan differs at operator 3"},
	} {
		t.Run(test.run, func(t *testing.T) {
			c := newCoordinator(t)
			startWorker(t, testConfig(t, c))
			s := c.session()
			s.order(deploy(deployment("job-1", 7, c.tiny(), "run", test.run)))
			x := s.exit(7)
			if x.Kind != test.kind || x.Failure.GetCode() != test.code || !strings.Contains(x.Reason, test.reason) ||
				!strings.Contains(x.StderrTail, test.stderr) {
				t.Errorf("reported as %v", x)
			}
			if x.Failure.GetWorker() == "" {
				t.Error("the failure names no worker")
			}
		})
	}
}

func TestKillOfATaskProcessFromOutsideIsALoss(t *testing.T) {
	c := newCoordinator(t)
	cfg := testConfig(t, c)
	startWorker(t, cfg)
	s := c.session()
	pid := running(t, s, cfg, deployment("job-1", 7, c.tiny()))
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	x := s.exit(7)
	if x.Signal != "SIGKILL" || x.Kind != jobpb.FailureKind_FAILURE_LOSS || x.Failure.GetCode() != codeKilled {
		t.Errorf("reported as %v", x)
	}
}

func TestAReleasedProcessEndsAndIsNoFailure(t *testing.T) {
	c := newCoordinator(t)
	cfg := testConfig(t, c)
	startWorker(t, cfg)
	s := c.session()
	pid := running(t, s, cfg, deployment("job-1", 7, c.tiny()))
	s.order(release("job-1", 7))
	x := s.exit(7)
	if x.Kind != jobpb.FailureKind_FAILURE_UNSPECIFIED || x.Code != 0 || x.Failure != nil || !strings.HasPrefix(x.Reason, "released") {
		t.Errorf("reported as %v", x)
	}
	awaitDeath(t, pid)
	// Once more: it is not here, and says so instead of leaving the leader waiting.
	s.order(release("job-1", 7))
	if x := s.exit(7); !strings.Contains(x.Reason, "no such task process") {
		t.Errorf("second release answered by %v", x)
	}
	// Its number never lives again.
	s.order(deploy(deployment("job-1", 7, c.tiny())))
	if x := s.exit(7); !strings.Contains(x.Reason, "no such task process") {
		t.Errorf("deployment to an ended process answered by %v", x)
	}
}

func TestWhatDoesNotStopInTimeIsKilledWithItsOffspring(t *testing.T) {
	for _, behaviour := range []string{"stubborn", "offspring"} {
		t.Run(behaviour, func(t *testing.T) {
			c := newCoordinator(t)
			cfg := testConfig(t, c)
			if behaviour == "stubborn" {
				cfg.StopGrace = 300 * time.Millisecond
			}
			startWorker(t, cfg)
			s := c.session()
			pid := running(t, s, cfg, deployment("job-1", 7, c.tiny(), "run", behaviour))
			offspring := pid
			if behaviour == "offspring" {
				offspring = awaitPid(t, cfg, "job-1", 7)
			}
			s.order(release("job-1", 7))
			x := s.exit(7)
			if killed := strings.Contains(x.Reason, "was killed"); killed != (behaviour == "stubborn") {
				t.Errorf("reported as %v", x)
			}
			awaitDeath(t, pid)
			awaitDeath(t, offspring)
		})
	}
}

// awaitPid waits for the line by which the tiny job tells the pid of its own child.
func awaitPid(t *testing.T, cfg Config, job string, process uint64) int {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.Now().Add(limit)
	for range ticker.C {
		if m := regexp.MustCompile(`offspring (\d+)\n`).FindStringSubmatch(outputOf(t, cfg, job, process)); m != nil {
			pid, err := strconv.Atoi(m[1])
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
		if time.Now().After(deadline) {
			break
		}
	}
	t.Fatal("the tiny job started nothing")
	return 0
}

func TestTheEnvironmentOfATaskProcessIsClean(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "of the agent alone")
	c := newCoordinator(t)
	cfg := testConfig(t, c)
	cfg.Slots = 4
	w := startWorker(t, cfg)
	s := c.session()
	d := deployment("job-1", 7, c.tiny(), "run", "environment")
	running(t, s, cfg, d)
	s.order(release("job-1", 7))
	s.exit(7)
	out := outputOf(t, cfg, "job-1", 7)
	dir := processDir(filepath.Join(cfg.DataDir, processesName), processKey{"job-1", 7})
	for _, want := range []string{
		"TZ=UTC\n", "SLUICE_TASK=1\n", "SLUICE_WORKER=" + w.addresses.ID + "\n", "TMPDIR=" + filepath.Join(dir, "tmp") + "\n",
		fmt.Sprintf("GOMEMLIMIT=%d\n", int64(256<<20)/100*95), "PATH=" + os.Getenv("PATH") + "\n", "PWD is " + dir + "\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the environment lacks %q", want)
		}
	}
	if want := "SLUICE_RESULTS=" + filepath.Join(cfg.DataDir, "partitions") + "\n"; !strings.Contains(out, want) {
		t.Errorf("the environment lacks %q", want)
	}
	if want := "SLUICE_SPILL=" + filepath.Join(dir, "spill") + "\n"; !strings.Contains(out, want) {
		t.Errorf("the environment lacks %q", want)
	}
	if strings.Contains(out, "AWS_SECRET") || strings.Contains(out, "SLUICE_INSECURE") {
		t.Errorf("the environment is not clean:\n%s", out)
	}
	if _, err := os.Stat(filepath.Join(dir, "tmp")); !os.IsNotExist(err) {
		t.Errorf("the private TMPDIR was left: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "spill")); !os.IsNotExist(err) {
		t.Errorf("the spill directory was left: %v", err)
	}
}

func TestSettingsOfTheJobGoBeforeThoseOfTheWorker(t *testing.T) {
	c := newCoordinator(t)
	cfg := testConfig(t, c)
	cfg.Settings = map[string]string{"buffer.timeout": "5ms", "network.memory": "20%"}
	startWorker(t, cfg)
	s := c.session()
	d := deployment("job-1", 7, c.tiny(), "run", "settings")
	d.Settings = map[string]string{"buffer.timeout": "1ms", "restart": "none"}
	running(t, s, cfg, d)
	s.order(release("job-1", 7))
	s.exit(7)
	out := outputOf(t, cfg, "job-1", 7)
	for _, want := range []string{"setting buffer.timeout is 1ms\n", "setting network.memory is 20%\n", "setting restart is none\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
}

func TestABinaryThatIsNoJobIsE042(t *testing.T) {
	for name, script := range map[string]string{
		"ends at once":        "echo usage: tool FILE >&2; exit 2",
		"never says hello":    "exec sleep 1000",
		"speaks other":        "printf 'HTTP/1.1 200 OK\\r\\n\\r\\n' >&3; exec sleep 1000",
		"closes the link":     "exec 3>&- 4>&-; exec sleep 1000",
		"keeps its offspring": "sleep 1000 & exit 0",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCoordinator(t)
			cfg := testConfig(t, c)
			if name == "never says hello" {
				cfg.HelloTimeout = 500 * time.Millisecond
			}
			startWorker(t, cfg)
			s := c.session()
			digest := c.script(script)
			s.order(build("job-1", 1, digest))
			if f := s.built(1).Failure; f.GetCode() != codeNoJob || f.GetKind() != jobpb.FailureKind_FAILURE_FATAL {
				t.Errorf("build: %v", f)
			} else if name == "ends at once" && !strings.Contains(f.Stack, "usage: tool FILE") {
				t.Errorf("what the binary said is lost: %v", f)
			}
			s.order(deploy(deployment("job-1", 7, digest)))
			kind := jobpb.FailureKind_FAILURE_FATAL
			if name == "never says hello" { // the build has shown that it can: it may be in time on the next attempt
				kind = jobpb.FailureKind_FAILURE_USER
			}
			if x := s.exit(7); x.Failure.GetCode() != codeNoJob || x.Kind != kind {
				t.Errorf("deployment: %v", x)
			}
		})
	}
}

// Whoever kills a process need not wait until it has introduced itself: that does not make the binary a wrong one.
func TestAProcessThatIsKilledBeforeItSpeaksIsALoss(t *testing.T) {
	c := newCoordinator(t)
	startWorker(t, testConfig(t, c))
	s := c.session()
	digest := c.script("kill -9 $$")
	s.order(build("job-1", 1, digest))
	if f := s.built(1).Failure; f.GetCode() != codeKilled || f.GetKind() != jobpb.FailureKind_FAILURE_LOSS {
		t.Errorf("build: %v", f)
	}
	s.order(deploy(deployment("job-1", 7, digest)))
	if x := s.exit(7); x.Failure.GetCode() != codeKilled || x.Kind != jobpb.FailureKind_FAILURE_LOSS {
		t.Errorf("deployment: %v", x)
	}
}

func TestAFileThatCannotBeExecutedIsE041(t *testing.T) {
	c := newCoordinator(t)
	startWorker(t, testConfig(t, c))
	s := c.session()
	s.order(build("job-1", 1, c.put([]byte("\x00\x01this is no program"))))
	if f := s.built(1).Failure; f.GetCode() != codeNoExec {
		t.Errorf("build: %v", f)
	}
}

func TestAProtocolOutsideTheWindowIsE045(t *testing.T) {
	c := newCoordinator(t)
	startWorker(t, testConfig(t, c))
	s := c.session()
	digest := c.tiny(envProtocol + "=99")
	s.order(build("job-1", 1, digest))
	if f := s.built(1).Failure; f.GetCode() != codeProtocol || !strings.Contains(f.Message, "task protocol 99") {
		t.Errorf("build: %v", f)
	}
	s.order(deploy(deployment("job-1", 7, digest)))
	if x := s.exit(7); x.Failure.GetCode() != codeProtocol {
		t.Errorf("deployment: %v", x)
	}
}

func TestCancelCommitAndSplitsReachTheirProcess(t *testing.T) {
	c := newCoordinator(t)
	cfg := testConfig(t, c)
	startWorker(t, cfg)
	s := c.session()
	running(t, s, cfg, deployment("job-1", 7, c.tiny()))
	running(t, s, cfg, deployment("job-2", 8, c.tiny()))

	s.order(&controlpb.CoordinatorMessage{Message: &controlpb.CoordinatorMessage_AssignSplits{AssignSplits: &taskpb.AssignSplits{
		Job: "job-1", Process: 7, Attempt: 1, RegionEpoch: 1, Splits: []*jobpb.Split{{Id: "a"}, {Id: "b"}},
	}}})
	r := await(s, "split request", func(m *controlpb.WorkerMessage) (*controlpb.Report, bool) {
		return m.GetReport(), m.GetReport().GetSplitRequest() != nil
	})
	if r.Job != "job-1" || r.Process != 7 || r.GetSplitRequest().Have != 2 || r.Sequence != 0 {
		t.Errorf("split request: %v", r)
	}
	s.order(&controlpb.CoordinatorMessage{Message: &controlpb.CoordinatorMessage_Commit{Commit: &taskpb.Commit{
		Job: "job-1", JobEpoch: 1, Process: 7, Checkpoint: 3,
	}}})
	r = await(s, "commit result", func(m *controlpb.WorkerMessage) (*controlpb.Report, bool) {
		return m.GetReport(), m.GetReport().GetCommit() != nil
	})
	if r.Job != "job-1" || r.GetCommit().Checkpoint != 3 || r.Sequence == 0 {
		t.Errorf("commit result: %v", r)
	}
	s.order(&controlpb.CoordinatorMessage{Message: &controlpb.CoordinatorMessage_Cancel{Cancel: &taskpb.Cancel{Job: "job-2", JobEpoch: 1}}})
	if r := s.state(jobpb.SubtaskState_SUBTASK_CANCELLED); r.Job != "job-2" {
		t.Errorf("cancelled: %v", r)
	}
}

func TestAnOlderJobEpochIsRefused(t *testing.T) {
	c := newCoordinator(t)
	cfg := testConfig(t, c)
	startWorker(t, cfg)
	s := c.session()
	d := deployment("job-1", 7, c.tiny())
	d.JobEpoch = 4
	running(t, s, cfg, d)
	old := deployment("job-1", 7, d.Spec.Artifact)
	old.JobEpoch = 3
	for _, u := range old.Subtasks {
		u.Attempt = 9
	}
	s.order(deploy(old))
	s.order(&controlpb.CoordinatorMessage{Message: &controlpb.CoordinatorMessage_Cancel{Cancel: &taskpb.Cancel{Job: "job-1", JobEpoch: 3}}})
	s.order(&controlpb.CoordinatorMessage{Message: &controlpb.CoordinatorMessage_Commit{Commit: &taskpb.Commit{
		Job: "job-1", JobEpoch: 4, Process: 7, Checkpoint: 3,
	}}})
	await(s, "commit result and nothing before it", func(m *controlpb.WorkerMessage) (bool, bool) {
		if u := m.GetReport().GetSubtask(); u != nil {
			t.Errorf("the old epoch had an effect: %v", u)
		}
		return true, m.GetReport().GetCommit() != nil
	})
}

// ---------------------------------------------------------------- the agent's own death

func TestKillOfTheAgentEndsItsTaskProcesses(t *testing.T) {
	c := newCoordinator(t)
	cfg := testConfig(t, c)
	agent := startAgent(t, cfg)
	s := c.session()
	pids := []int{
		running(t, s, cfg, deployment("job-1", 7, c.tiny())),
		running(t, s, cfg, deployment("job-2", 8, c.tiny(), "run", "stubborn")),
	}
	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = agent.Wait()
	for _, pid := range pids {
		awaitDeath(t, pid)
	}
	s.gone()
}

// A process that outlives its agent (a system without parent-death signals, a process that ignores the end of its link)
// is killed by the next incarnation before that registers.
func TestARestartedAgentEndsWhatIsLeftBeforeItRegisters(t *testing.T) {
	c := newCoordinator(t)
	cfg := testConfig(t, c)
	pid := leaveProcess(t, cfg, processKey{"job-1", 7})
	startWorker(t, cfg)
	s := c.session()
	if err := syscall.Kill(pid, 0); err == nil && !zombie(pid) {
		t.Error("the worker registered before the process of its predecessor had ended")
	}
	awaitDeath(t, pid)
	if len(s.register.Processes) > 0 {
		t.Errorf("inventory: %v", s.register.Processes)
	}
	// Whoever still asks for it learns that it is gone.
	s.order(deploy(deployment("job-1", 7, c.tiny())))
	if x := s.exit(7); !strings.Contains(x.Reason, "no such task process") {
		t.Errorf("deployment to a process of the past answered by %v", x)
	}
}

func TestAForeignProcessIsNeverKilled(t *testing.T) {
	c := newCoordinator(t)
	cfg := testConfig(t, c)
	pid := leaveProcess(t, cfg, processKey{"job-1", 7})
	// The record now names a process that has the same pid and was started at another time.
	dir := processDir(filepath.Join(cfg.DataDir, processesName), processKey{"job-1", 7})
	forgeRecord(t, dir, func(r *spawn.Record) { r.Start++ })
	// Nobody holds the directory's lock, as when the pid was handed on.
	if err := os.Remove(filepath.Join(dir, spawn.LockName)); err != nil {
		t.Fatal(err)
	}
	startWorker(t, cfg)
	c.session()
	if err := syscall.Kill(pid, 0); err != nil || zombie(pid) {
		t.Errorf("a process that was not the worker's own was killed: %v", err)
	}
}
