package taskpb

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/proto/jobpb"
)

func plan() *jobpb.Plan {
	return &jobpb.Plan{
		Graph:       &jobpb.Graph{Name: "j", Operators: []*jobpb.Operator{{Id: "src", Kind: "source"}}},
		Fingerprint: "f",
		Chains:      []*jobpb.Chain{{Operators: []int32{0}, Parallelism: 2, Name: "src"}},
		Regions:     []*jobpb.Region{{Subtasks: []*jobpb.SubtaskRange{{Count: 2}}}},
	}
}

func deployment() *Deployment {
	return &Deployment{
		Job: "j-1", JobEpoch: 1, Process: 1, Plan: plan(),
		Subtasks:  []*SubtaskDeployment{{Attempt: 1, RegionEpoch: 1}, {Index: 1, Attempt: 1, RegionEpoch: 1, Enumerate: []int32{0}}},
		Locations: []*Location{{Attempt: 1, Worker: "w"}, {Index: 1, Attempt: 1, Worker: "w"}},
	}
}

func spec() *jobpb.JobSpec { return &jobpb.JobSpec{Name: "j", Artifact: strings.Repeat("a", 64)} }

func TestWhatAnAgentMeansIsValid(t *testing.T) {
	for _, m := range []*AgentMessage{
		{Message: &AgentMessage_Build{Build: &Build{Spec: spec()}}},
		{Message: &AgentMessage_Deploy{Deploy: deployment()}},
		{Message: &AgentMessage_Cancel{Cancel: &Cancel{Job: "j-1", Regions: []*RegionEpoch{{Region: 0, Epoch: 1}}}}},
		{Message: &AgentMessage_Commit{Commit: &Commit{Job: "j-1", Committables: []*jobpb.Committable{{Sink: "out", Data: []byte("x")}}}}},
		{Message: &AgentMessage_Shutdown{Shutdown: &Shutdown{}}},
		{Message: &AgentMessage_OpenGate{OpenGate: &OpenGate{Job: "j-1", Regions: []*RegionEpoch{{Region: 0, Epoch: 1}}}}},
		{Message: &AgentMessage_AssignSplits{AssignSplits: &AssignSplits{Job: "j-1", Attempt: 1, Splits: []*jobpb.Split{{Id: "a"}}}}},
	} {
		if err := m.Validate(); err != nil {
			t.Errorf("%v: %v", m, err)
		}
	}
}

func TestEveryFaultOfADeploymentIsNamedWithItsPlace(t *testing.T) {
	for want, edit := range map[string]func(d *Deployment){
		"job id":                          func(d *Deployment) { d.Job = "" },
		"plan: missing":                   func(d *Deployment) { d.Plan = nil },
		"graph: missing":                  func(d *Deployment) { d.Plan.Graph = nil },
		"must not be negative":            func(d *Deployment) { d.ProcessMemory = -1 },
		"subtasks[1]: chain 1 of 1":       func(d *Deployment) { d.Subtasks[1].Chain = 1 },
		"subtasks[0]: chain -1":           func(d *Deployment) { d.Subtasks[0].Chain = -1 },
		"subtasks[1]: chain 0: subtask 2": func(d *Deployment) { d.Subtasks[1].Index = 2 },
		"attempts count from 1":           func(d *Deployment) { d.Subtasks[0].Attempt = 0 },
		"appears twice":                   func(d *Deployment) { d.Subtasks[1].Index = 0 },
		"enumerates operator 5 of 1":      func(d *Deployment) { d.Subtasks[0].Enumerate = []int32{5} },
		"locations[1]: worker":            func(d *Deployment) { d.Locations[1].Worker = "" },
		"locations[0]: chain 7 of 1":      func(d *Deployment) { d.Locations[0].Chain = 7 },
	} {
		d := deployment()
		edit(d)
		err := (&AgentMessage{Message: &AgentMessage_Deploy{Deploy: d}}).Validate()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to name %q", err, want)
		}
	}
}

func TestOtherNonsenseOfAnAgentIsRefused(t *testing.T) {
	for name, m := range map[string]*AgentMessage{
		"nothing":             {},
		"no specification":    {Message: &AgentMessage_Build{Build: &Build{}}},
		"a path for artifact": {Message: &AgentMessage_Build{Build: &Build{Spec: &jobpb.JobSpec{Name: "j", Artifact: "../x"}}}},
		"no job":              {Message: &AgentMessage_Cancel{Cancel: &Cancel{}}},
		"a long job":          {Message: &AgentMessage_Cancel{Cancel: &Cancel{Job: strings.Repeat("x", maxName+1)}}},
		"a negative region":   {Message: &AgentMessage_Cancel{Cancel: &Cancel{Job: "j", Regions: []*RegionEpoch{{Region: -1}}}}},
		"no sink":             {Message: &AgentMessage_Commit{Commit: &Commit{Job: "j", Committables: []*jobpb.Committable{{}}}}},
		"too much to commit": {Message: &AgentMessage_Commit{Commit: &Commit{Job: "j", Committables: []*jobpb.Committable{{
			Sink: "s", Data: make([]byte, jobpb.MaxCommittable+1)}}}}},
		"a split without id": {Message: &AgentMessage_AssignSplits{AssignSplits: &AssignSplits{Job: "j", Attempt: 1, Splits: []*jobpb.Split{{}}}}},
		"a negative offset":  {Message: &AgentMessage_AssignSplits{AssignSplits: &AssignSplits{Job: "j", Attempt: 1, Offset: -1}}},
	} {
		if err := m.Validate(); err == nil {
			t.Errorf("%s: valid", name)
		}
	}
}

func TestATaskProcessIsNotTrusted(t *testing.T) {
	failure := &jobpb.Failure{Message: "x"}
	update := func(s jobpb.SubtaskState, f *jobpb.Failure, c ...*jobpb.Committable) *TaskMessage {
		return &TaskMessage{Message: &TaskMessage_Update{Update: &SubtaskUpdate{Attempt: 1, State: s, Failure: f, Committables: c}}}
	}
	built := func(b *Built) *TaskMessage { return &TaskMessage{Message: &TaskMessage_Built{Built: b}} }
	for name, m := range map[string]*TaskMessage{
		"nothing":                   {},
		"no protocol":               {Message: &TaskMessage_Hello{Hello: &Hello{JobName: "j"}}},
		"no name":                   {Message: &TaskMessage_Hello{Hello: &Hello{Protocol: 1}}},
		"neither graph nor errors":  built(&Built{}),
		"graph and errors":          built(&Built{Graph: plan().Graph, Errors: []*jobpb.Diagnostic{{Code: "E1"}}}),
		"an empty graph":            built(&Built{Graph: &jobpb.Graph{Name: "j"}}),
		"an error without code":     built(&Built{Errors: []*jobpb.Diagnostic{{}}}),
		"too much output":           built(&Built{Graph: plan().Graph, Output: strings.Repeat("x", MaxOutput+1)}),
		"no state":                  update(jobpb.SubtaskState_SUBTASK_UNSPECIFIED, nil),
		"an unknown state":          update(99, nil),
		"created":                   update(jobpb.SubtaskState_SUBTASK_CREATED, nil),
		"failed without failure":    update(jobpb.SubtaskState_SUBTASK_FAILED, nil),
		"finished with failure":     update(jobpb.SubtaskState_SUBTASK_FINISHED, failure),
		"running with committables": update(jobpb.SubtaskState_SUBTASK_RUNNING, nil, &jobpb.Committable{Sink: "s"}),
		"no attempt":                {Message: &TaskMessage_Sample{Sample: &Sample{Counters: []*Counters{{}}}}},
		"a commit of no job":        {Message: &TaskMessage_CommitResult{CommitResult: &CommitResult{}}},
		"a failure of nothing":      {Message: &TaskMessage_Failure{Failure: &ProcessFailure{}}},
		"splits of operator -1":     {Message: &TaskMessage_SplitsDiscovered{SplitsDiscovered: &SplitsDiscovered{Operator: -1}}},
		"fewer than no splits":      {Message: &TaskMessage_SplitRequest{SplitRequest: &SplitRequest{Attempt: 1, Have: -1}}},
	} {
		if err := m.Validate(); err == nil {
			t.Errorf("%s: valid", name)
		}
	}
	for _, m := range []*TaskMessage{
		{Message: &TaskMessage_Hello{Hello: &Hello{Protocol: 99, JobName: "j"}}}, // the window is the agent's business
		built(&Built{Graph: plan().Graph}), built(&Built{Errors: []*jobpb.Diagnostic{{Code: "E011"}}}),
		update(jobpb.SubtaskState_SUBTASK_RUNNING, nil), update(jobpb.SubtaskState_SUBTASK_FAILED, failure),
		update(jobpb.SubtaskState_SUBTASK_FINISHED, nil, &jobpb.Committable{Sink: "s"}),
		{Message: &TaskMessage_SplitRequest{SplitRequest: &SplitRequest{Attempt: 1}}},
	} {
		if err := m.Validate(); err != nil {
			t.Errorf("%v: %v", m, err)
		}
	}
}

// Whatever bytes arrive: Validate answers, it does not panic, and what it calls valid can be indexed.
func FuzzValidate(f *testing.F) {
	for _, m := range []proto.Message{
		&AgentMessage{Message: &AgentMessage_Deploy{Deploy: deployment()}},
		&TaskMessage{Message: &TaskMessage_Built{Built: &Built{Graph: plan().Graph}}},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(_ *testing.T, data []byte) {
		var a AgentMessage
		if proto.Unmarshal(data, &a) == nil && a.Validate() == nil {
			for _, s := range a.GetDeploy().GetSubtasks() {
				_ = a.GetDeploy().Plan.Chains[s.Chain]
			}
		}
		var m TaskMessage
		if proto.Unmarshal(data, &m) == nil {
			_ = m.Validate()
		}
	})
}

func stored(edit func(*SubtaskUpdate, *jobpb.Partition)) *SubtaskUpdate {
	p := &jobpb.Partition{State: jobpb.PartitionState_PARTITION_STORED, Bytes: 10, Records: 1, Digest: make([]byte, 32), RegionEpoch: 3, Attempt: 2}
	u := &SubtaskUpdate{Attempt: 2, RegionEpoch: 3, State: jobpb.SubtaskState_SUBTASK_FINISHED, Partitions: []*jobpb.Partition{p}}
	edit(u, p)
	return u
}

func TestAStoredResultIsThatOfTheAttemptThatReportsIt(t *testing.T) {
	if err := stored(func(*SubtaskUpdate, *jobpb.Partition) {}).Validate(); err != nil {
		t.Error(err)
	}
	for want, edit := range map[string]func(*SubtaskUpdate, *jobpb.Partition){
		"stored results with SUBTASK_RUNNING": func(u *SubtaskUpdate, _ *jobpb.Partition) { u.State = jobpb.SubtaskState_SUBTASK_RUNNING },
		"PARTITION_LOST":                      func(_ *SubtaskUpdate, p *jobpb.Partition) { p.State = jobpb.PartitionState_PARTITION_LOST },
		"attempt 1, region epoch 3":           func(_ *SubtaskUpdate, p *jobpb.Partition) { p.Attempt = 1 },
		"attempt 2, region epoch 4":           func(_ *SubtaskUpdate, p *jobpb.Partition) { p.RegionEpoch = 4 },
		"edge -1":                             func(_ *SubtaskUpdate, p *jobpb.Partition) { p.Edge = -1 },
		"-5 bytes":                            func(_ *SubtaskUpdate, p *jobpb.Partition) { p.Bytes = -5 },
		"-1 records":                          func(_ *SubtaskUpdate, p *jobpb.Partition) { p.Records = -1 },
		"digest of 31 bytes":                  func(_ *SubtaskUpdate, p *jobpb.Partition) { p.Digest = p.Digest[:31] },
	} {
		if err := stored(edit).Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error about %q", err, want)
		}
	}
}

func TestAPlanOfDeletionNamesWhatItMeans(t *testing.T) {
	one := []*PartitionName{{JobEpoch: 1, Attempt: 1}}
	for want, d := range map[string]*DropPartitions{
		"": {Job: "j-1", Partitions: one}, "job id": {Partitions: one}, "neither": {Job: "j-1"}, "both": {Job: "j-1", All: true, Partitions: one},
		"partitions[1]: attempts count from 1": {Job: "j-1", Partitions: append(one, &PartitionName{})},
		"partitions[0]: edge -1":               {Job: "j-1", Partitions: []*PartitionName{{Attempt: 1, Edge: -1}}},
	} {
		if err := d.Validate(); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v: got %v, want an error about %q", d, err, want)
		}
	}
	if err := (&DropPartitions{Job: "j-1", All: true}).Validate(); err != nil {
		t.Error(err)
	}
}
