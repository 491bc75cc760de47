//go:build unix

package worker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sluiceio/sluice/internal/pipe"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// The test binary is also the task process and, for deaths of whole agents, the agent: as real as in a cluster.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv(pipe.EnvTask) == "1":
		os.Exit(tinyJob())
	case os.Getenv(envAgent) != "":
		os.Exit(agentProcess())
	}
	os.Exit(m.Run())
}

// Environment by which an artifact (a script) chooses what the tiny job does before it can get parameters.
const envProtocol = "TINY_PROTOCOL"

// tinyJob is a job binary without a runtime: it does what the parameters of its specification say.
func tinyJob() int {
	end, err := pipe.Inherited()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	protocol := int32(taskpb.Protocol)
	if s := os.Getenv(envProtocol); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			return 1
		}
		protocol = int32(n)
	}
	j := &tiny{end: end}
	j.send(&taskpb.TaskMessage{Message: &taskpb.TaskMessage_Hello{Hello: &taskpb.Hello{
		Protocol: protocol, Version: "tiny", Pid: int64(os.Getpid()), JobName: "tiny",
	}}})
	g := run.NewGroup(context.Background(), "tiny")
	g.Go("connections", func(context.Context) error { return j.echo(g) })
	for {
		var m taskpb.AgentMessage
		if err := end.Link.Receive(&m); err != nil {
			return 0 // the agent is gone
		}
		if m.GetShutdown() != nil && !j.stubborn {
			return 0
		}
		j.do(&m)
	}
}

type tiny struct {
	end      *pipe.ProcessEnd
	process  uint64
	subtasks []*taskpb.SubtaskDeployment
	stubborn bool
}

func (j *tiny) send(m *taskpb.TaskMessage) {
	if err := j.end.Link.Send(context.Background(), m); err != nil {
		os.Exit(0)
	}
}

// echo answers each data connection with its first line.
func (j *tiny) echo(g *run.Group) error {
	for {
		conn, err := j.end.Conns.Accept()
		if err != nil {
			return nil
		}
		g.Go("connection", func(context.Context) error {
			defer conn.Close()
			line, err := bufio.NewReader(conn).ReadString('\n')
			if err == nil {
				_, err = fmt.Fprintf(conn, "%d: %s", os.Getpid(), line)
			}
			if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		})
	}
}

func (j *tiny) do(m *taskpb.AgentMessage) {
	switch m := m.Message.(type) {
	case *taskpb.AgentMessage_Build:
		j.build(m.Build)
	case *taskpb.AgentMessage_Deploy:
		j.deploy(m.Deploy)
	case *taskpb.AgentMessage_Cancel:
		j.report(jobpb.SubtaskState_SUBTASK_CANCELLED)
	case *taskpb.AgentMessage_OpenGate:
		j.report(jobpb.SubtaskState_SUBTASK_FINISHED)
	case *taskpb.AgentMessage_Commit:
		j.send(&taskpb.TaskMessage{Message: &taskpb.TaskMessage_CommitResult{CommitResult: &taskpb.CommitResult{
			Job: m.Commit.Job, JobEpoch: m.Commit.JobEpoch, Process: j.process, Checkpoint: m.Commit.Checkpoint,
		}}})
	case *taskpb.AgentMessage_AssignSplits:
		j.send(&taskpb.TaskMessage{Message: &taskpb.TaskMessage_SplitRequest{SplitRequest: &taskpb.SplitRequest{
			Operator: m.AssignSplits.Operator, Attempt: m.AssignSplits.Attempt, Have: int32(len(m.AssignSplits.Splits)),
		}}})
	}
}

func (j *tiny) build(b *taskpb.Build) {
	built := &taskpb.Built{Graph: tinyPlan(1).Graph}
	switch b.Spec.Params["build"] {
	case "print":
		fmt.Println("planning with", b.Spec.Params["text"])
	case "hang":
		select {}
	case "panic":
		panic("no such table")
	case "exit":
		fmt.Fprintln(os.Stderr, "I give up")
		os.Exit(4)
	case "errors":
		built = &taskpb.Built{Errors: []*jobpb.Diagnostic{{Code: "E011", Message: "duplicate id", Where: "main.go:7"}}}
	}
	j.send(&taskpb.TaskMessage{Message: &taskpb.TaskMessage_Built{Built: built}})
}

func (j *tiny) deploy(d *taskpb.Deployment) {
	j.process, j.subtasks = d.Process, d.Subtasks
	j.report(jobpb.SubtaskState_SUBTASK_RUNNING)
	switch d.Spec.Params["run"] {
	case "finish":
		j.report(jobpb.SubtaskState_SUBTASK_FINISHED)
	case "store":
		j.store(d)
	case "half":
		j.half(d)
	case "panic":
		panic("index out of luck")
	case "exit":
		os.Exit(7)
	case "segv":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSEGV)
	case "garbage":
		j.send(&taskpb.TaskMessage{}) // says nothing
	case "failure":
		j.send(&taskpb.TaskMessage{Message: &taskpb.TaskMessage_Failure{Failure: &taskpb.ProcessFailure{
			Failure: &jobpb.Failure{Code: "E030", Message: "the plan differs at operator 3", Kind: jobpb.FailureKind_FAILURE_FATAL},
		}}})
		os.Exit(1)
	case "stubborn":
		j.stubborn = true
	case "offspring":
		j.offspring()
	case "environment":
		for _, e := range os.Environ() {
			fmt.Println(e)
		}
		dir, _ := os.Getwd()
		fmt.Println("PWD is", dir)
	case "settings":
		for name, value := range d.Settings {
			fmt.Printf("setting %s is %s\n", name, value)
		}
	case "print":
		n, _ := strconv.Atoi(d.Spec.Params["lines"])
		for i := range n {
			fmt.Printf("line %d %s\n", i, strings.Repeat("x", 100))
		}
	}
	j.send(&taskpb.TaskMessage{Message: &taskpb.TaskMessage_Sample{Sample: &taskpb.Sample{
		ResidentBytes: 1 << 20, Counters: []*taskpb.Counters{{Attempt: 1, RecordsIn: 42}},
	}}})
}

// offspring starts a process of its own and tells its pid in the output.
func (j *tiny) offspring() {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	fmt.Println("offspring", cmd.Process.Pid)
}

func (j *tiny) report(state jobpb.SubtaskState) {
	for _, s := range j.subtasks {
		j.send(&taskpb.TaskMessage{Message: &taskpb.TaskMessage_Update{Update: &taskpb.SubtaskUpdate{
			Chain: s.Chain, Index: s.Index, Attempt: s.Attempt, Region: s.Region, RegionEpoch: s.RegionEpoch, State: state,
		}}})
	}
}

// tinyPlan is a plan of one operator.
func tinyPlan(parallelism int32) *jobpb.Plan {
	return &jobpb.Plan{
		Graph:       &jobpb.Graph{Name: "tiny", Operators: []*jobpb.Operator{{Id: "src", Kind: "source"}}, MaxParallelism: 256},
		Fingerprint: "f",
		Chains:      []*jobpb.Chain{{Index: 0, Operators: []int32{0}, Parallelism: parallelism, Name: "src"}},
		Regions:     []*jobpb.Region{{Index: 0, Subtasks: []*jobpb.SubtaskRange{{Chain: 0, First: 0, Count: parallelism}}}},
		Slots:       parallelism,
	}
}
