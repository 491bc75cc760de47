package ops

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

var rewrite = flag.Bool("rewrite", false, "write what people see anew; read the difference")

// golden compares text with a file below testdata/golden.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), text); d != "" {
		t.Errorf("%s (-want +got)\n%s", name, d)
	}
}

// answered reads what a real cluster has answered with -o json: two of the example's queries over the 200,000 flights, one
// that meets two worlds and one whose join did not fit its memory.
func answered(t *testing.T, name string, into proto.Message) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "golden", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := protojson.Unmarshal(raw, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// TestAnswersLookAsTheyShould pins both forms of plan and status: JSON is a contract, tables are what people read.
func TestAnswersLookAsTheyShould(t *testing.T) {
	for _, query := range []string{"f5", "f8"} {
		t.Run(query, func(t *testing.T) {
			plan, status := &apipb.PlanResponse{}, &apipb.StatusResponse{}
			answered(t, query+".plan.json", plan)
			answered(t, query+".status.json", status)
			r := newRig(t, &fake{
				plan:   func(*apipb.PlanRequest) (*apipb.PlanResponse, error) { return plan, nil },
				status: func(*apipb.StatusRequest) (*apipb.StatusResponse, error) { return status, nil },
			})
			show := func(verb func() error) string {
				t.Helper()
				r.out.Reset()
				if err := verb(); err != nil {
					t.Fatal(err)
				}
				return r.out.String()
			}
			showPlan := func() error { return Plan(t.Context(), r.Session, PlanOptions{What: query}) }
			showStatus := func(d Detail) func() error {
				return func() error { return Status(t.Context(), r.Session, StatusOptions{Job: query, Detail: d}) }
			}
			golden(t, query+".plan.txt", show(showPlan))
			golden(t, query+".status.txt", show(showStatus(Summary)))
			golden(t, query+".subtasks.txt", show(showStatus(Subtasks)))
			r.Format = JSON
			golden(t, query+".plan.json", show(showPlan))
			golden(t, query+".status.json", show(showStatus(Summary)))
		})
	}
}

// TestAStatusTellsWhatWasLostAndRunAgain of a job in the middle of it.
func TestAStatusTellsWhatWasLostAndRunAgain(t *testing.T) {
	job := &apipb.StatusResponse{}
	answered(t, "f8.status.json", job)
	job.Status, job.EndedUs, job.StartedUs, job.Losses = jobpb.JobStatus_JOB_RESTARTING, 0, start.UnixMicro()-3_000_000, 1
	job.Regions[1].State, job.Regions[1].Epoch = jobpb.RegionStatus_REGION_RESTARTING, 2
	job.Subtasks[1].State, job.Subtasks[1].Attempt, job.Subtasks[1].Counters = jobpb.SubtaskState_SUBTASK_SCHEDULED, 3, nil
	job.Edges[0].Result = &apipb.ResultInfo{Producers: 2, Stored: 1, Lost: 1, Bytes: 1 << 20, Records: 100_000}
	job.Edges[1].Result = &apipb.ResultInfo{Producers: 2, Stored: 1, Released: 1, Bytes: 5, Records: 1}
	job.Edges[2].Result = &apipb.ResultInfo{Producers: 2}
	r := newRig(t, &fake{status: func(*apipb.StatusRequest) (*apipb.StatusResponse, error) { return job, nil }})
	if err := Status(t.Context(), r.Session, StatusOptions{Job: "f8"}); err != nil {
		t.Fatal(err)
	}
	golden(t, "lost.status.txt", r.out.String())
}

// TestAPlanThatCannotBeReadIsNoPanic: it may come from a coordinator of another release.
func TestAPlanThatCannotBeReadIsNoPanic(t *testing.T) {
	for _, p := range []*jobpb.Plan{nil, {}, {Graph: &jobpb.Graph{}, Edges: []*jobpb.Edge{{FromChain: 7}}}} {
		r := newRig(t, &fake{plan: func(*apipb.PlanRequest) (*apipb.PlanResponse, error) { return &apipb.PlanResponse{Plan: p}, nil }})
		if err := Plan(t.Context(), r.Session, PlanOptions{What: "j-1"}); err == nil || !strings.Contains(err.Error(), "plan") {
			t.Errorf("%v: %v, printed %q", p, err, r.out.String())
		}
	}
}
