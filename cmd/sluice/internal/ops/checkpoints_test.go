package ops

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// clicks is a job whose last checkpoint failed, with one savepoint that has lost copies.
func clicks() *apipb.CheckpointsResponse {
	const now, second = 1_767_323_045_000_000, 1_000_000
	periodic, savepoint := jobpb.CheckpointKind_CHECKPOINT_PERIODIC, jobpb.CheckpointKind_CHECKPOINT_SAVEPOINT
	return &apipb.CheckpointsResponse{
		Id: "clicks-7", Status: jobpb.JobStatus_JOB_RUNNING, Enabled: true, Failed: 1, Confirmed: 12, Wanted: 1,
		Kept: []*apipb.CheckpointInfo{
			{Id: 12, Kind: savepoint, StartedUs: now - 30*second, CompletedUs: now - 29*second, Bytes: 5 << 20, StateBytes: 7 << 20, Objects: 4, UnderReplicated: 2, Manifest: &jobpb.Object{Name: "clicks-7/1/12-1.manifest", Digest: []byte{0xab}}, RequestId: "r"},
			{Id: 13, Kind: periodic, StartedUs: now - 20*second, CompletedUs: now - 19_500_000, Bytes: 90_000, StateBytes: 7 << 20, Objects: 5, Missing: 1},
		},
		UnderWay: &jobpb.CheckpointStart{Id: 15, Kind: periodic, StartedUs: now - 2*second},
		History: []*jobpb.CheckpointRecord{
			{Id: 13, Kind: periodic, StartedUs: now - 20*second, EndedUs: now - 19_500_000, Completed: true, Bytes: 90_000, AlignedUs: 7000, FrozenUs: 120},
			{Id: 14, Kind: periodic, StartedUs: now - 10*second, EndedUs: now - 5*second, Failure: &jobpb.Failure{Code: "E150", Message: "count[2] did not answer"}},
		},
	}
}

func TestCheckpointsAreShownWithTheirCopiesAndFailures(t *testing.T) {
	r := newRig(t, &fake{kept: func(*apipb.CheckpointsRequest) (*apipb.CheckpointsResponse, error) { return clicks(), nil }})
	if err := Checkpoints(t.Context(), r.Session, CheckpointsOptions{Job: "clicks-7"}); err != nil {
		t.Fatal(err)
	}
	golden(t, "checkpoints.txt", r.out.String())
	r.out.Reset()
	if err := Checkpoints(t.Context(), r.Session, CheckpointsOptions{Job: "clicks-7", Savepoints: true}); err != nil {
		t.Fatal(err)
	}
	golden(t, "savepoints.txt", r.out.String())
	r.out.Reset()
	if err := DescribeSavepoint(t.Context(), r.Session, "clicks-7", 12); err != nil {
		t.Fatal(err)
	}
	golden(t, "savepoint.txt", r.out.String())
	wantExit(t, DescribeSavepoint(t.Context(), r.Session, "clicks-7", 11), ExitNotFound, "")
}

func TestAJobWithoutCheckpointsSaysWhy(t *testing.T) {
	r := newRig(t, &fake{kept: func(*apipb.CheckpointsRequest) (*apipb.CheckpointsResponse, error) {
		return &apipb.CheckpointsResponse{Id: "sum-1", Status: jobpb.JobStatus_JOB_RUNNING, WhyNot: "its input ends by itself"}, nil
	}})
	if err := Checkpoints(t.Context(), r.Session, CheckpointsOptions{Job: "sum-1"}); err != nil {
		t.Fatal(err)
	}
	if want := "sum-1  RUNNING  no checkpoints: its input ends by itself\n"; r.out.String() != want {
		t.Errorf("%q, want %q", r.out.String(), want)
	}
}

// TestASavepointIsAskedForUnderOneRequest: a leader that dies in the middle, and a call that ends before the savepoint does, are
// asked again under the same id, so that one savepoint is taken.
func TestASavepointIsAskedForUnderOneRequest(t *testing.T) {
	var asked []string
	r := newRig(t, &fake{savepoint: func(_ context.Context, q *apipb.SavepointRequest) (*apipb.SavepointResponse, error) {
		asked = append(asked, q.RequestId)
		switch len(asked) {
		case 1:
			return nil, unknownOutcome()
		case 2:
			return nil, noLeader()
		}
		return &apipb.SavepointResponse{Status: jobpb.JobStatus_JOB_STOPPED, Savepoint: &apipb.CheckpointInfo{Id: 3, Kind: q.Kind, CompletedUs: 1000}}, nil
	}})
	err := Savepoint(t.Context(), r.Session, SavepointOptions{Job: "clicks-7", RequestID: "me", Kind: jobpb.CheckpointKind_CHECKPOINT_STOP})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(asked, " "); got != "me me me" {
		t.Errorf("asked as %q", got)
	}
	if out := r.out.String(); !strings.Contains(out, "clicks-7:3") || !strings.Contains(out, "STOPPED") {
		t.Error(out)
	}
}

func TestASavepointThatFailedSaysWhy(t *testing.T) {
	r := newRig(t, &fake{savepoint: func(context.Context, *apipb.SavepointRequest) (*apipb.SavepointResponse, error) {
		return nil, apipb.NewError(codes.Aborted, &apipb.ErrorDetail{Code: "E151"}, "the savepoint failed: the store is full")
	}})
	err := Savepoint(t.Context(), r.Session, SavepointOptions{Job: "clicks-7", RequestID: "me", Kind: jobpb.CheckpointKind_CHECKPOINT_SAVEPOINT})
	wantExit(t, err, ExitPrecondition, "E151")
}

func TestNamesOfSavepoints(t *testing.T) {
	for _, c := range []struct {
		args []string
		job  string
		id   uint64
	}{
		{[]string{"clicks-7:12"}, "clicks-7", 12}, {[]string{"clicks-7", "12"}, "clicks-7", 12},
		{[]string{"clicks-7"}, "", 0}, {[]string{":1"}, "", 0}, {[]string{"clicks-7:0"}, "", 0}, {[]string{"clicks-7:x"}, "", 0}, {[]string{"clicks-7:-1"}, "", 0},
	} {
		job, id, err := SavepointOf(c.args)
		if job != c.job || id != c.id || (err == nil) != (c.id != 0) {
			t.Errorf("%q: %s %d %v", c.args, job, id, err)
		}
	}
}
