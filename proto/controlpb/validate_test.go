package controlpb

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

func goodRegister() *Register {
	return &Register{
		Worker: "w", Incarnation: 1, Address: "a:1", DataAddress: "a:2", Slots: 1, ProtocolMin: 1, ProtocolMax: 1, Os: "linux", Arch: "amd64",
		Processes: []*ProcessInventory{{Job: "j-1", JobEpoch: 1, Process: 1, Subtasks: []*taskpb.SubtaskUpdate{
			{Attempt: 1, State: jobpb.SubtaskState_SUBTASK_RUNNING},
		}}},
	}
}

func register(change func(*Register)) *WorkerMessage {
	r := goodRegister()
	if change != nil {
		change(r)
	}
	return &WorkerMessage{Message: &WorkerMessage_Register{Register: r}}
}

func report(r *Report) *WorkerMessage {
	return &WorkerMessage{Message: &WorkerMessage_Report{Report: r}}
}

func build(b *BuildResult) *WorkerMessage {
	return &WorkerMessage{Message: &WorkerMessage_BuildResult{BuildResult: b}}
}

func TestWorkersMessagesAreValidated(t *testing.T) {
	update := &taskpb.SubtaskUpdate{Attempt: 1, State: jobpb.SubtaskState_SUBTASK_FINISHED}
	for name, m := range map[string]*WorkerMessage{
		"register":      register(nil),
		"heartbeat":     {Message: &WorkerMessage_Heartbeat{Heartbeat: &Heartbeat{Sequence: 1, Samples: []*ProcessSample{{Job: "j-1", Sample: &taskpb.Sample{}}}}}},
		"subtask":       report(&Report{Sequence: 1, Job: "j-1", Fact: &Report_Subtask{Subtask: update}}),
		"exit":          report(&Report{Job: "j-1", Fact: &Report_Exit{Exit: &ProcessExit{}}}),
		"commit":        report(&Report{Job: "j-1", Fact: &Report_Commit{Commit: &taskpb.CommitResult{}}}),
		"splits":        report(&Report{Job: "j-1", Fact: &Report_Splits{Splits: &taskpb.SplitsDiscovered{Splits: []*jobpb.Split{{}}}}}),
		"split request": report(&Report{Job: "j-1", Fact: &Report_SplitRequest{SplitRequest: &taskpb.SplitRequest{}}}),
		"built":         build(&BuildResult{Built: &taskpb.Built{Graph: &jobpb.Graph{}}}),
		"plan errors":   build(&BuildResult{Built: &taskpb.Built{Errors: []*jobpb.Diagnostic{{Code: "E011"}}}}),
		"build failed":  build(&BuildResult{Failure: &jobpb.Failure{Code: "E043"}}),
		"draining":      {Message: &WorkerMessage_Draining{Draining: &Draining{}}},
		"lost":          {Message: &WorkerMessage_Lost{Lost: &PartitionInventory{Job: "j", Partitions: []*taskpb.PartitionName{{JobEpoch: 1, RegionEpoch: 1, Attempt: 1}}}}},
	} {
		if err := m.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for want, m := range map[string]*WorkerMessage{
		"no known message":                      {},
		"register: empty":                       {Message: &WorkerMessage_Register{}},
		"register.worker: empty":                register(func(r *Register) { r.Worker = "" }),
		"register.host: 200 bytes":              register(func(r *Register) { r.Host = strings.Repeat("h", 200) }),
		"register.incarnation":                  register(func(r *Register) { r.Incarnation = 0 }),
		"register.slots":                        register(func(r *Register) { r.Slots = 0 }),
		"register.memory":                       register(func(r *Register) { r.Memory = -1 }),
		"register.protocol window":              register(func(r *Register) { r.ProtocolMax = 0 }),
		"register.artifacts":                    register(func(r *Register) { r.Artifacts = make([]string, maxArtifacts+1) }),
		"register.processes[1].process: empty":  register(func(r *Register) { r.Processes = append(r.Processes, nil) }),
		"register.processes[0].job: empty":      register(func(r *Register) { r.Processes[0].Job = "" }),
		"register.processes[0].subtasks[0].att": register(func(r *Register) { r.Processes[0].Subtasks[0].Attempt = 0 }),
		"register.processes[0].subtasks[0].sta": register(func(r *Register) { r.Processes[0].Subtasks[0].State = 99 }),
		"heartbeat: empty":                      {Message: &WorkerMessage_Heartbeat{}},
		"heartbeat.samples[0]: empty":           {Message: &WorkerMessage_Heartbeat{Heartbeat: &Heartbeat{Samples: []*ProcessSample{nil}}}},
		"heartbeat.samples[0].job":              {Message: &WorkerMessage_Heartbeat{Heartbeat: &Heartbeat{Samples: []*ProcessSample{{Sample: &taskpb.Sample{}}}}}},
		"counters[0]: empty":                    {Message: &WorkerMessage_Heartbeat{Heartbeat: &Heartbeat{Samples: []*ProcessSample{{Job: "j", Sample: &taskpb.Sample{Counters: []*taskpb.Counters{nil}}}}}}},
		"report: empty":                         report(nil),
		"report.job: empty":                     report(&Report{}),
		"report.fact":                           report(&Report{Job: "j"}),
		"report.subtask.subtask: empty":         report(&Report{Job: "j", Fact: &Report_Subtask{}}),
		"report.subtask.subtask -1[0]":          report(&Report{Job: "j", Fact: &Report_Subtask{Subtask: &taskpb.SubtaskUpdate{Chain: -1}}}),
		"report.exit: empty":                    report(&Report{Job: "j", Fact: &Report_Exit{}}),
		"report.exit.stderr_tail":               report(&Report{Job: "j", Fact: &Report_Exit{Exit: &ProcessExit{StderrTail: strings.Repeat("x", maxText+1)}}}),
		"report.commit: empty":                  report(&Report{Job: "j", Fact: &Report_Commit{}}),
		"report.splits: operator -1":            report(&Report{Job: "j", Fact: &Report_Splits{Splits: &taskpb.SplitsDiscovered{Operator: -1}}}),
		"report.splits.splits[0]: empty":        report(&Report{Job: "j", Fact: &Report_Splits{Splits: &taskpb.SplitsDiscovered{Splits: []*jobpb.Split{nil}}}}),
		"report.split_request: operator":        report(&Report{Job: "j", Fact: &Report_SplitRequest{SplitRequest: &taskpb.SplitRequest{Have: -1}}}),
		"build_result.built, failure":           build(&BuildResult{}),
		"build_result.built: neither":           build(&BuildResult{Built: &taskpb.Built{}}),
		"draining: empty":                       {Message: &WorkerMessage_Draining{}},
		"lost.job":                              {Message: &WorkerMessage_Lost{}},
		"lost.partitions[0]":                    {Message: &WorkerMessage_Lost{Lost: &PartitionInventory{Job: "j", Partitions: []*taskpb.PartitionName{nil}}}},
	} {
		if err := m.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestCoordinatorsMessagesAreValidated(t *testing.T) {
	welcome := &Welcome{Cluster: "c", HeartbeatUs: 1, LostAfterUs: 2}
	for name, m := range map[string]*CoordinatorMessage{
		"welcome": {Term: 1, Message: &CoordinatorMessage_Welcome{Welcome: welcome}},
		"ack":     {Term: 1, Message: &CoordinatorMessage_Ack{Ack: &Ack{}}},
		"build":   {Term: 1, Message: &CoordinatorMessage_Build{Build: &RequestBuild{Spec: &jobpb.JobSpec{}, TimeLimitUs: 1}}},
		"deploy":  {Term: 1, Message: &CoordinatorMessage_Deploy{Deploy: &Deploy{Deployment: &taskpb.Deployment{Job: "j"}}}},
		"cancel":  {Term: 1, Message: &CoordinatorMessage_Cancel{Cancel: &taskpb.Cancel{}}},
		"commit":  {Term: 1, Message: &CoordinatorMessage_Commit{Commit: &taskpb.Commit{}}},
		"release": {Term: 1, Message: &CoordinatorMessage_Release{Release: &Release{}}},
		"assign":  {Term: 1, Message: &CoordinatorMessage_AssignSplits{AssignSplits: &taskpb.AssignSplits{}}},
	} {
		if err := m.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		without := proto.CloneOf(m)
		without.Term = 0
		if err := without.Validate(); err == nil || !strings.Contains(err.Error(), "term") {
			t.Errorf("%s without a term: %v", name, err)
		}
	}
	for want, m := range map[string]*CoordinatorMessage{
		"no known message":           {Term: 1},
		"welcome: empty":             {Term: 1, Message: &CoordinatorMessage_Welcome{}},
		"welcome.cluster":            {Term: 1, Message: &CoordinatorMessage_Welcome{Welcome: &Welcome{HeartbeatUs: 1, LostAfterUs: 2}}},
		"welcome.heartbeat_us":       {Term: 1, Message: &CoordinatorMessage_Welcome{Welcome: &Welcome{}}},
		"welcome.lost_after_us":      {Term: 1, Message: &CoordinatorMessage_Welcome{Welcome: &Welcome{HeartbeatUs: 2, LostAfterUs: 3}}},
		"ack: empty":                 {Term: 1, Message: &CoordinatorMessage_Ack{}},
		"build: empty":               {Term: 1, Message: &CoordinatorMessage_Build{Build: &RequestBuild{}}},
		"build.time_limit_us":        {Term: 1, Message: &CoordinatorMessage_Build{Build: &RequestBuild{Spec: &jobpb.JobSpec{}}}},
		"deploy: empty":              {Term: 1, Message: &CoordinatorMessage_Deploy{}},
		"deploy.deployment.job":      {Term: 1, Message: &CoordinatorMessage_Deploy{Deploy: &Deploy{Deployment: &taskpb.Deployment{}}}},
		"cancel: empty":              {Term: 1, Message: &CoordinatorMessage_Cancel{}},
		"commit: empty":              {Term: 1, Message: &CoordinatorMessage_Commit{}},
		"release: empty":             {Term: 1, Message: &CoordinatorMessage_Release{}},
		"assign_splits: empty":       {Term: 1, Message: &CoordinatorMessage_AssignSplits{}},
		"term: must be positive":     {},
		"term: must be positive\x00": nil,
	} {
		if err := m.Validate(); err == nil || !strings.Contains(err.Error(), strings.TrimSuffix(want, "\x00")) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestPlansOfDeletionAndGatesAreChecked(t *testing.T) {
	one := []*taskpb.PartitionName{{JobEpoch: 1, Attempt: 1}}
	for want, m := range map[string]*CoordinatorMessage{
		"":                       {Term: 1, Message: &CoordinatorMessage_DropPartitions{DropPartitions: &taskpb.DropPartitions{Job: "j-1", Partitions: one}}},
		"drop_partitions: empty": {Term: 1, Message: &CoordinatorMessage_DropPartitions{}},
		"drop_partitions.job":    {Term: 1, Message: &CoordinatorMessage_DropPartitions{DropPartitions: &taskpb.DropPartitions{Job: "j-1"}}},
		"group_clocks: empty":    {Term: 1, Message: &CoordinatorMessage_GroupClocks{}},
		"group_clocks.job id":    {Term: 1, Message: &CoordinatorMessage_GroupClocks{GroupClocks: &taskpb.GroupClocks{}}},
		"open_gate: empty":       {Term: 1, Message: &CoordinatorMessage_OpenGate{}},
		"open_gate.job id":       {Term: 1, Message: &CoordinatorMessage_OpenGate{OpenGate: &taskpb.OpenGate{}}},
	} {
		if err := m.Validate(); want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%v: got %v, want an error about %q", m, err, want)
		}
	}
}

func TestTheInventoryOfStoredResultsIsChecked(t *testing.T) {
	with := func(p *PartitionInventory) *WorkerMessage {
		return register(func(r *Register) { r.Partitions = []*PartitionInventory{p} })
	}
	for want, p := range map[string]*PartitionInventory{
		"":                                       {Job: "j-1", Partitions: []*taskpb.PartitionName{{Attempt: 1}}},
		"register.partitions[0].job":             {},
		"register.partitions[0].partitions[0]: ": {Job: "j-1", Partitions: []*taskpb.PartitionName{{}}},
	} {
		if err := with(p).Validate(); want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%v: got %v, want an error about %q", p, err, want)
		}
	}
}
