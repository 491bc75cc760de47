package commandpb

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

func worker(change func(*Worker)) *Command {
	w := &Worker{Id: "w1", Incarnation: 1, Slots: 4, Address: "127.0.0.1:1"}
	change(w)
	return &Command{Command: &Command_RegisterWorker{RegisterWorker: &RegisterWorker{Worker: w}}}
}

func results(refs ...*jobpb.PartitionRef) *Command {
	return &Command{Command: &Command_ReleasePartitions{ReleasePartitions: &ReleasePartitions{Partitions: refs}}}
}

// restart is an otherwise valid restart.
func restart(r *RestartRegions) *Command {
	r.Regions, r.Cause = []*taskpb.RegionEpoch{{}}, &jobpb.Failure{}
	return &Command{Command: &Command_RestartRegions{RestartRegions: r}}
}

func TestMalformedCommandsAreRefused(t *testing.T) {
	digest := strings.Repeat("0a", 32)
	for name, c := range map[string]*Command{
		"nothing":                  {},
		"nil":                      nil,
		"negative time":            {TimeUs: -1, Command: &Command_CancelJob{CancelJob: &CancelJob{}}},
		"long request id":          {RequestId: strings.Repeat("r", MaxID+1), Command: &Command_CancelJob{CancelJob: &CancelJob{}}},
		"request id with a space":  {RequestId: "a b", Command: &Command_CancelJob{CancelJob: &CancelJob{}}},
		"no cluster":               {Command: &Command_InitCluster{InitCluster: &InitCluster{}}},
		"no node":                  {Command: &Command_PutNode{PutNode: &PutNode{}}},
		"no worker":                {Command: &Command_RegisterWorker{RegisterWorker: &RegisterWorker{}}},
		"no slots":                 worker(func(w *Worker) { w.Slots = 0 }),
		"too many slots":           worker(func(w *Worker) { w.Slots = MaxSlots + 1 }),
		"no incarnation":           worker(func(w *Worker) { w.Incarnation = 0 }),
		"negative memory":          worker(func(w *Worker) { w.Memory = -1 }),
		"line break in a host":     worker(func(w *Worker) { w.Id = "w\n1" }),
		"bad digest":               {Command: &Command_PutArtifact{PutArtifact: &PutArtifact{Digest: "x"}}},
		"negative size":            {Command: &Command_PutArtifact{PutArtifact: &PutArtifact{Digest: digest, Size: -1}}},
		"submit without id":        {Command: &Command_SubmitJob{SubmitJob: &SubmitJob{Spec: &jobpb.JobSpec{Artifact: digest}}}},
		"submit without spec":      {RequestId: "r", Command: &Command_SubmitJob{SubmitJob: &SubmitJob{}}},
		"plan without a plan":      {Command: &Command_PlanJob{PlanJob: &PlanJob{}}},
		"rejection without cause":  {Command: &Command_RejectPlan{RejectPlan: &RejectPlan{}}},
		"failure that is too long": {Command: &Command_FailJob{FailJob: &FailJob{Cause: &jobpb.Failure{Message: strings.Repeat("m", jobpb.MaxText+1)}}}},
		"no regions":               {Command: &Command_ScheduleRegions{ScheduleRegions: &ScheduleRegions{}}},
		"one region twice":         {Command: &Command_RestartRegions{RestartRegions: &RestartRegions{Regions: []*taskpb.RegionEpoch{{}, {}}, Cause: &jobpb.Failure{}}}},
		"no updates":               {Command: &Command_UpdateSubtasks{UpdateSubtasks: &UpdateSubtasks{}}},
		"output that is too large": {Command: &Command_UpdateSubtasks{UpdateSubtasks: &UpdateSubtasks{Updates: []*taskpb.SubtaskUpdate{{Committables: []*jobpb.Committable{{Data: make([]byte, jobpb.MaxCommittable+1)}}}}}}},
		"split that is too large":  {Command: &Command_AddSplits{AddSplits: &AddSplits{Splits: []*jobpb.Split{{Data: make([]byte, jobpb.MaxSplitBytes+1)}}}}},
		"no slots to give back":    {Command: &Command_ReleaseSlots{ReleaseSlots: &ReleaseSlots{}}},
		"nothing to release":       results(),
		"a result of no attempt":   results(&jobpb.PartitionRef{}),
		"a result of no edge":      results(&jobpb.PartitionRef{Edge: -1, Attempt: 1}),
		"a result of nobody":       results(&jobpb.PartitionRef{Producer: -1, Attempt: 1}),
		"a result that is none":    results(nil),
		"too many results":         results(make([]*jobpb.PartitionRef, MaxList+1)...),
		"a loss of no attempt":     restart(&RestartRegions{Lost: []*jobpb.PartitionRef{{}}}),
		"too many regions":         restart(&RestartRegions{Reordered: make([]int32, MaxList+1)}),
		"too much lost": {Command: &Command_UpdateSubtasks{UpdateSubtasks: &UpdateSubtasks{Updates: []*taskpb.SubtaskUpdate{{
			Failure: &jobpb.Failure{Lost: make([]*jobpb.PartitionRef, jobpb.MaxLost+1)}}}}}},
		"no assignments":    {Command: &Command_AssignSplits{AssignSplits: &AssignSplits{}}},
		"nothing to forget": {Command: &Command_ForgetJobs{ForgetJobs: &ForgetJobs{}}},
	} {
		err := c.Validate()
		if err == nil {
			t.Errorf("%s is taken", name)
			continue
		}
		if again := c.Validate(); again.Error() != err.Error() {
			t.Errorf("%s: two answers: %v and %v", name, err, again)
		}
	}
	for name, c := range map[string]*Command{
		"worker":                worker(func(*Worker) {}),
		"release":               results(&jobpb.PartitionRef{Attempt: 1}, &jobpb.PartitionRef{Edge: 2, Producer: 3, Attempt: 4}),
		"loss":                  restart(&RestartRegions{Lost: []*jobpb.PartitionRef{{Attempt: 1}}, Reordered: []int32{1}}),
		"end of an enumeration": {Command: &Command_AddSplits{AddSplits: &AddSplits{End: true}}},
		"submit":                {RequestId: "r", Command: &Command_SubmitJob{SubmitJob: &SubmitJob{Spec: &jobpb.JobSpec{Artifact: digest}}}},
	} {
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzValidateTrustsNothing(f *testing.F) {
	b, err := proto.Marshal(worker(func(*Worker) {}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		c := &Command{}
		if proto.Unmarshal(b, c) == nil {
			_ = c.Validate()
		}
	})
}
