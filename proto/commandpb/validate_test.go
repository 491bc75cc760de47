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
		"no assignments":           {Command: &Command_AssignSplits{AssignSplits: &AssignSplits{}}},
		"nothing to forget":        {Command: &Command_ForgetJobs{ForgetJobs: &ForgetJobs{}}},
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
