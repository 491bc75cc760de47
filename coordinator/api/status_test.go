package api

import (
	"strings"
	"testing"

	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

func TestASummaryTellsWhyAJobFailed(t *testing.T) {
	s, index := state.New(), uint64(0)
	apply := func(c *commandpb.Command) state.Result {
		t.Helper()
		index++
		c.Version, c.TimeUs, c.Proposer = state.Version, int64(index), "c1"
		r := s.Apply(index, 1, c)
		if r.Status != state.Applied {
			t.Fatalf("%v: %s %s", c, r.Code, r.Message)
		}
		return r
	}
	artifact := strings.Repeat("0", 64)
	apply(&commandpb.Command{Command: &commandpb.Command_PutArtifact{PutArtifact: &commandpb.PutArtifact{
		Digest: artifact, Size: 1, Os: "linux", Arch: "amd64", Nodes: []string{"c1"},
	}}})
	id := apply(&commandpb.Command{RequestId: "r", Command: &commandpb.Command_SubmitJob{SubmitJob: &commandpb.SubmitJob{
		Spec: &jobpb.JobSpec{Name: "j", Artifact: artifact},
	}}}).Job
	if got := summary(s.View().Job(id)); got.FailureCode != "" || got.FailureLine != "" || got.StartedUs != 0 || got.CreatedUs != 2 {
		t.Errorf("before: %v", got)
	}
	apply(&commandpb.Command{Command: &commandpb.Command_FailJob{FailJob: &commandpb.FailJob{
		Job: id, JobEpoch: s.View().Job(id).Epoch(), Cause: &jobpb.Failure{Kind: jobpb.FailureKind_FAILURE_FATAL, Code: "E031", Message: "unknown parameter --x\n  fix: none"},
	}}})
	if got := summary(s.View().Job(id)); got.FailureCode != "E031" || got.FailureLine != "unknown parameter --x" {
		t.Errorf("after: %v", got)
	}
}
