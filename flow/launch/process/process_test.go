//go:build unix

package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluiceio/sluice/flow/graph"
	"github.com/sluiceio/sluice/internal/pipe"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/internal/wire"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// limit bounds every wait of these tests; nothing comes near it.
const limit = 30 * time.Second

// child is a task process, seen from its agent.
type child struct {
	t    *testing.T
	end  *pipe.AgentEnd
	cmd  *exec.Cmd
	out  *output
	once func() int // waits and returns the exit code
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

func startChild(t *testing.T, env ...string) *child {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	end, inherit, err := pipe.Pair()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, end: end, cmd: exec.Command(self), out: &output{}}
	c.cmd.Env = []string{pipe.EnvTask + "=1", pipe.EnvWorker + "=w-1", "GORACE=atexit_sleep_ms=0", "PATH=" + os.Getenv("PATH")}
	c.cmd.Env = append(c.cmd.Env, env...)
	c.cmd.ExtraFiles, c.cmd.Stdout, c.cmd.Stderr = inherit, c.out, c.out
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, f := range inherit {
		_ = f.Close()
	}
	c.once = sync.OnceValue(func() int {
		_ = c.cmd.Wait()
		return c.cmd.ProcessState.ExitCode()
	})
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		c.once()
		_ = c.end.Close()
		if t.Failed() {
			t.Log(c.out.String())
		}
	})
	if err := end.Link.SetReceiveDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	hello := c.receive().GetHello()
	if hello == nil || hello.Protocol != taskpb.Protocol || hello.JobName != "numbers" || hello.Version != "test" || hello.Pid != int64(c.cmd.Process.Pid) {
		t.Fatalf("the first message is %v", hello)
	}
	return c
}

func (c *child) receive() *taskpb.TaskMessage {
	c.t.Helper()
	var m taskpb.TaskMessage
	if err := c.end.Link.Receive(&m); err != nil {
		c.t.Fatalf("the task process says no more: %v", err)
	}
	return &m
}

func (c *child) send(m *taskpb.AgentMessage) {
	c.t.Helper()
	if err := c.end.Link.Send(c.t.Context(), m); err != nil {
		c.t.Fatal(err)
	}
}

func (c *child) build(do string) *taskpb.Built {
	c.t.Helper()
	c.send(&taskpb.AgentMessage{Message: &taskpb.AgentMessage_Build{Build: &taskpb.Build{Spec: spec(do)}}})
	b := c.receive().GetBuilt()
	if b == nil {
		c.t.Fatal("no answer to the build")
	}
	return b
}

func (c *child) deploy(d *taskpb.Deployment) {
	c.t.Helper()
	c.send(&taskpb.AgentMessage{Message: &taskpb.AgentMessage_Deploy{Deploy: d}})
}

func (c *child) shutdown() {
	c.t.Helper()
	c.send(&taskpb.AgentMessage{Message: &taskpb.AgentMessage_Shutdown{Shutdown: &taskpb.Shutdown{Reason: "test"}}})
}

// exit waits for the end of the process.
func (c *child) exit(want int) {
	c.t.Helper()
	codes := make(chan int, 1)
	run.NewGroup(context.Background(), "test").Go("wait", func(context.Context) error {
		codes <- c.once()
		return nil
	})
	select {
	case code := <-codes:
		if code != want {
			c.t.Errorf("exit code %d, want %d", code, want)
		}
	case <-time.After(limit):
		c.t.Error("the process does not end")
	}
}

// until receives, answers questions for splits as a coordinator does, and returns when f is content.
func (c *child) until(f func(*taskpb.TaskMessage) bool) {
	c.t.Helper()
	for {
		m := c.receive()
		if r := m.GetSplitRequest(); r != nil {
			a := &taskpb.AssignSplits{
				Job: "job-1", Process: 1, Operator: r.Operator, Chain: r.Chain, Index: r.Index, Attempt: r.Attempt,
				RegionEpoch: r.RegionEpoch, Offset: r.Have, End: true,
			}
			if r.Have == 0 {
				a.Splits = []*jobpb.Split{{Id: "all"}}
			}
			// It may have been told to end meanwhile: then nobody listens, and receive says what is wrong.
			_ = c.end.Link.Send(c.t.Context(), &taskpb.AgentMessage{Message: &taskpb.AgentMessage_AssignSplits{AssignSplits: a}})
		}
		if f(m) {
			return
		}
	}
}

// reaches waits until n subtasks have reported the state.
func (c *child) reaches(state jobpb.SubtaskState, n int) {
	c.t.Helper()
	c.until(func(m *taskpb.TaskMessage) bool {
		if u := m.GetUpdate(); u.GetState() == jobpb.SubtaskState_SUBTASK_FAILED && state != u.State {
			c.t.Fatalf("a subtask failed: %v", u.Failure)
		}
		if m.GetUpdate().GetState() == state {
			n--
		}
		return n == 0
	})
}

func spec(do string) *jobpb.JobSpec {
	return &jobpb.JobSpec{Name: "numbers", Artifact: strings.Repeat("a", 64), Params: map[string]string{"do": do}}
}

// deployment of some chains of the job to a process; where is the process of each chain.
func deployment(process uint64, do string, where [2]uint64, addresses [2]string) *taskpb.Deployment {
	d := &taskpb.Deployment{
		Job: "job-1", JobEpoch: 3, Process: process, Plan: planNumbers(), Spec: spec(do), ProcessMemory: 512 << 20, Slots: 1,
	}
	for chain, p := range where {
		if p == process {
			s := &taskpb.SubtaskDeployment{Chain: int32(chain), Attempt: 1, RegionEpoch: 5}
			if chain == 0 {
				s.Enumerate = []int32{0}
			}
			d.Subtasks = append(d.Subtasks, s)
		}
		d.Locations = append(d.Locations, &taskpb.Location{
			Chain: int32(chain), Attempt: 1, RegionEpoch: 5, Worker: fmt.Sprint("w-", p), DataAddress: addresses[chain], Process: p,
		})
	}
	return d
}

func alone(do string) *taskpb.Deployment {
	return deployment(1, do, [2]uint64{1, 1}, [2]string{"127.0.0.1:1", "127.0.0.1:1"})
}

var result = fmt.Sprintf("%d numbers, total %d\n", count, count*(count-1)/2)

func TestABuildIsAnsweredAndEndsTheProcess(t *testing.T) {
	c := startChild(t)
	b := c.build("print")
	if len(b.Errors) > 0 || b.Graph.GetName() != "numbers" || len(b.Graph.Operators) != 2 {
		t.Errorf("answer: %v", b)
	}
	c.exit(exitOK)
	if !strings.Contains(c.out.String(), "planning\n") { // the agent captures it
		t.Errorf("output: %q", c.out)
	}
}

func TestAPanicOfTheBuildFunctionIsE043WithItsPlace(t *testing.T) {
	c := startChild(t)
	b := c.build("panic")
	if len(b.Errors) != 1 || b.Errors[0].Code != "E043" || !strings.Contains(b.Errors[0].Message, "index out of range") {
		t.Fatalf("answer: %v", b)
	}
	if e := b.Errors[0]; !strings.Contains(e.Where, "job_test.go:") || !strings.Contains(strings.Join(e.Hints, "\n"), "buildNumbers") {
		t.Errorf("no place: %v", e)
	}
	c.exit(exitOK)
}

func TestFaultsOfTheBuildFunctionAreAnswered(t *testing.T) {
	if b := startChild(t).build("reject"); len(b.Errors) != 1 || b.Errors[0].Code != "E011" {
		t.Errorf("rejected: %v", b)
	}
	if b := startChild(t).build("nothing"); len(b.Errors) != 1 || b.Errors[0].Code != "E043" {
		t.Errorf("neither program nor fault: %v", b)
	}
}

func TestAJobRunsToItsEnd(t *testing.T) {
	c := startChild(t)
	c.deploy(alone(""))
	c.reaches(jobpb.SubtaskState_SUBTASK_FINISHED, 2)
	var counted *taskpb.Sample
	c.until(func(m *taskpb.TaskMessage) bool {
		counted = m.GetSample()
		return counted != nil && len(counted.Counters) == 2 && counted.Counters[1].RecordsIn == count
	})
	if counted.HeapBytes <= 0 {
		t.Errorf("sample: %v", counted)
	}
	// Asked again, it repeats its reports and runs nothing twice.
	c.deploy(alone(""))
	c.reaches(jobpb.SubtaskState_SUBTASK_FINISHED, 2)
	c.send(&taskpb.AgentMessage{Message: &taskpb.AgentMessage_Commit{Commit: &taskpb.Commit{Job: "job-1", JobEpoch: 3, Process: 1, Checkpoint: 1}}})
	c.until(func(m *taskpb.TaskMessage) bool {
		r := m.GetCommitResult()
		if r != nil && (r.Checkpoint != 1 || r.Failure != nil) {
			t.Errorf("commit: %v", r)
		}
		return r != nil
	})
	c.shutdown()
	c.exit(exitOK)
	if out := c.out.String(); strings.Count(out, result) != 1 {
		t.Errorf("output: %q", out)
	}
}

// Two processes behind two data ports. The consumer is deployed first: its producer is "not yet" there.
func TestRecordsCrossTheDataPort(t *testing.T) {
	producer, consumer := startChild(t), startChild(t)
	ports := newPorts(t)
	where := [2]uint64{1, 2}
	addresses := [2]string{ports.add(1, producer), ports.add(2, consumer)}
	consumer.deploy(deployment(2, "", where, addresses))
	ports.await(t, pipe.NotYet)
	producer.deploy(deployment(1, "", where, addresses))
	ports.ready(1)
	producer.reaches(jobpb.SubtaskState_SUBTASK_FINISHED, 1)
	consumer.reaches(jobpb.SubtaskState_SUBTASK_FINISHED, 1)
	producer.shutdown()
	consumer.shutdown()
	producer.exit(exitOK)
	consumer.exit(exitOK)
	if out := consumer.out.String(); !strings.Contains(out, result) {
		t.Errorf("output: %q", out)
	}
}

// ports are the data ports of the test's agents, one for each process.
type ports struct {
	group    *run.Group
	outcomes chan string

	mu    sync.Mutex
	known map[uint64]bool
}

func newPorts(t *testing.T) *ports {
	p := &ports{group: run.NewGroup(context.Background(), "ports"), outcomes: make(chan string, 1000), known: map[uint64]bool{2: true}}
	t.Cleanup(func() {
		p.group.Stop()
		if err := p.group.Wait(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func (p *ports) add(process uint64, c *child) string {
	l, err := wire.Policy{}.Listen(c.t.Context(), "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	port := &pipe.Port{
		Listener: l, Timeout: limit,
		Route: func(preface pipe.Preface) (pipe.Answer, *pipe.Sender) {
			p.mu.Lock()
			defer p.mu.Unlock()
			want := pipe.Preface{Job: pipe.HashJob("job-1"), Process: process, JobEpoch: 3, RegionEpoch: 5}
			if preface != want {
				c.t.Errorf("preface %+v, want %+v", preface, want)
			}
			if !p.known[process] {
				return pipe.NotYet, nil
			}
			return pipe.Accepted, c.end.Conns
		},
		Note: func(outcome string, _ error) { p.outcomes <- outcome },
	}
	p.group.Go("port", port.Run)
	return l.Addr().String()
}

func (p *ports) ready(process uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known[process] = true
}

func (p *ports) await(t *testing.T, a pipe.Answer) {
	t.Helper()
	deadline := time.After(limit)
	for {
		select {
		case got := <-p.outcomes:
			if got == a.String() {
				return
			}
		case <-deadline:
			t.Fatalf("nobody was answered %q", a)
		}
	}
}

func TestAPlanOfAnotherBinaryIsE030WithTheFirstDifference(t *testing.T) {
	c := startChild(t)
	d := alone("")
	d.Plan.Graph.Operators[1].Id = "total"
	d.Plan.Fingerprint = graph.Fingerprint(d.Plan.Graph)
	c.deploy(d)
	f := c.failure()
	if f.Code != "E030" || f.Kind != jobpb.FailureKind_FAILURE_FATAL || !strings.Contains(f.Message, `operator 1 was sink "total"`) {
		t.Errorf("failure: %v", f)
	}
	c.exit(exitFailed)
}

// failure waits for what the process says of itself before it ends.
func (c *child) failure() (f *jobpb.Failure) {
	c.t.Helper()
	c.until(func(m *taskpb.TaskMessage) bool {
		f = m.GetFailure().GetFailure()
		return f != nil
	})
	return f
}

func TestABuildFunctionThatFailsOnlyAtDeploymentSaysSo(t *testing.T) {
	for do, code := range map[string]string{"panic": "E043", "reject": "E011"} {
		c := startChild(t)
		c.deploy(alone(do))
		if f := c.failure(); f.Code != code || f.Kind != jobpb.FailureKind_FAILURE_FATAL || !strings.Contains(f.Message, "not when the job was planned") {
			t.Errorf("%s: %v", do, f)
		}
		c.exit(exitFailed)
	}
}

func TestABuildFunctionThatDoesNotReturnAtDeploymentEndsTheProcess(t *testing.T) {
	c := startChild(t)
	c.deploy(alone("hang"))
	if f := c.failure(); f.Code != "E044" || f.Kind != jobpb.FailureKind_FAILURE_FATAL {
		t.Errorf("failure: %v", f)
	}
	c.exit(exitFailed)
}

func TestAnEndlessRecursionCrashesBeforeItTakesTheMemory(t *testing.T) {
	c := startChild(t)
	c.send(&taskpb.AgentMessage{Message: &taskpb.AgentMessage_Build{Build: &taskpb.Build{Spec: spec("recurse")}}})
	c.exit(2)
	if want := "goroutine stack exceeds 67108864-byte limit"; !strings.Contains(c.out.String(), want) {
		t.Errorf("the process said nothing of %q", want)
	}
}

func TestMemoryThatCannotFitIsExplained(t *testing.T) {
	c := startChild(t)
	d := alone("")
	d.Settings = map[string]string{"network.memory": "95%", "state.memory": "90%"}
	c.deploy(d)
	if f := c.failure(); f.Kind != jobpb.FailureKind_FAILURE_FATAL || !strings.Contains(f.Message, "network.memory") {
		t.Errorf("failure: %v", f)
	}
	c.exit(exitFailed)
}

func TestTheEndOfTheAgentEndsTheProcessWhateverItDoes(t *testing.T) {
	for _, do := range []string{"idle", "endless", "stuck", "hang"} {
		t.Run(do, func(t *testing.T) {
			c := startChild(t)
			switch do {
			case "idle":
			case "hang": // in the build function
				c.send(&taskpb.AgentMessage{Message: &taskpb.AgentMessage_Build{Build: &taskpb.Build{Spec: spec(do)}}})
			default:
				c.deploy(alone(do))
				c.reaches(jobpb.SubtaskState_SUBTASK_RUNNING, 2)
			}
			if err := c.end.Close(); err != nil {
				t.Fatal(err)
			}
			c.exit(exitOrphan)
		})
	}
}

func TestShutdownStopsWhatRuns(t *testing.T) {
	c := startChild(t)
	c.deploy(alone("endless"))
	c.reaches(jobpb.SubtaskState_SUBTASK_RUNNING, 2)
	c.shutdown()
	c.reaches(jobpb.SubtaskState_SUBTASK_CANCELLED, 2) // said before the end
	c.exit(exitOK)
}

func TestCancelStopsTheRegionAndNotTheProcess(t *testing.T) {
	c := startChild(t)
	c.deploy(alone("endless"))
	c.reaches(jobpb.SubtaskState_SUBTASK_RUNNING, 2)
	c.send(&taskpb.AgentMessage{Message: &taskpb.AgentMessage_Cancel{Cancel: &taskpb.Cancel{Job: "job-1", JobEpoch: 3}}})
	c.reaches(jobpb.SubtaskState_SUBTASK_CANCELLED, 2)
	d := alone("")
	for _, s := range d.Subtasks {
		s.Attempt, s.RegionEpoch = 2, 6
	}
	for _, l := range d.Locations {
		l.Attempt, l.RegionEpoch = 2, 6
	}
	c.deploy(d)
	c.reaches(jobpb.SubtaskState_SUBTASK_RUNNING, 2)
	c.shutdown()
	c.exit(exitOK)
}

func TestWhatIsNoAgentEndsTheProcess(t *testing.T) {
	c := startChild(t)
	c.send(&taskpb.AgentMessage{}) // says nothing: not valid
	c.exit(exitOrphan)
}

func TestATaskProcessWithoutAgentSaysSo(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = []string{pipe.EnvTask + "=1"}
	out, err := cmd.CombinedOutput()
	var bad *exec.ExitError
	if !errors.As(err, &bad) || bad.ExitCode() != exitOrphan || !strings.Contains(string(out), "no worker agent to talk to") {
		t.Errorf("%v: %q", err, out)
	}
}

func TestTheQueueKeepsFactsLongerThanRepetitions(t *testing.T) {
	q := newQueue()
	m := &taskpb.TaskMessage{}
	n := 0
	for q.put(m, queueRepeating) {
		n++
	}
	if n != queueRepeating {
		t.Errorf("%d repetitions were kept", n)
	}
	for q.put(m, queueFacts) {
		n++
	}
	if n != queueFacts {
		t.Errorf("%d facts were kept", n)
	}
	q.close()
	if !q.put(m, queueFacts) {
		t.Error("a message after the end counts as lost")
	}
	for range n {
		if _, more := q.next(t.Context()); !more {
			t.Fatal("a message was lost")
		}
	}
	if _, more := q.next(t.Context()); more {
		t.Error("more than was put")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, more := newQueue().next(ctx); more {
		t.Error("a message from nowhere")
	}
}
