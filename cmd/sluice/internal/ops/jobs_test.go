package ops

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

func ago(d time.Duration) int64 { return start.Add(-d).UnixMicro() }

func sampleJob() *apipb.StatusResponse {
	return &apipb.StatusResponse{
		Id: "flights-1", Name: "flights", Status: jobpb.JobStatus_JOB_RUNNING, StartedUs: ago(3*time.Hour + 12*time.Minute), Restarts: 1, Epoch: 1,
		Subtasks: []*apipb.SubtaskStatus{
			{Operator: "source → map", Chain: 0, Index: 0, Attempt: 1, Worker: "w-0123456789", State: jobpb.SubtaskState_SUBTASK_RUNNING,
				Counters: &taskpb.Counters{RecordsOut: 90_000, BusyUs: 30, IdleUs: 60, BackpressuredUs: 10, WatermarkUs: -1 << 63}},
			{Operator: "source → map", Chain: 0, Index: 1, Attempt: 1, Worker: "w-0123456789", State: jobpb.SubtaskState_SUBTASK_FINISHED,
				Counters: &taskpb.Counters{RecordsOut: 10_000, BusyUs: 50, IdleUs: 50, WatermarkUs: 1<<63 - 1}},
			{Operator: "count → out", Chain: 1, Index: 0, Attempt: 2, Worker: "w-ab", State: jobpb.SubtaskState_SUBTASK_RUNNING, Region: 1,
				Counters: &taskpb.Counters{RecordsIn: 5, WatermarkUs: start.UnixMicro()}},
			{Operator: "count → out", Chain: 1, Index: 1, State: jobpb.SubtaskState_SUBTASK_RUNNING, Region: 1},
		},
		Regions: []*apipb.RegionInfo{{Index: 0, Epoch: 1, State: jobpb.RegionStatus_REGION_RUNNING, Subtasks: []string{"a", "b"}}},
		Edges: []*apipb.EdgeInfo{{From: "map", To: "count", Partitioner: jobpb.Partitioner_PARTITIONER_HASH,
			Exchange: jobpb.ExchangeKind_EXCHANGE_PIPELINED, Reason: "unbounded input"}},
		Sinks:    []*apipb.SinkInfo{{Operator: "out", Guarantee: jobpb.Guarantee_GUARANTEE_EXACTLY_ONCE}},
		Failures: []*jobpb.Failure{{Code: "E060", Message: "the worker was lost\nits stream broke", TimeUs: ago(time.Hour), Worker: "w-dead", Position: "a.csv:7"}},
	}
}

func TestStatusTable(t *testing.T) {
	r := newRig(t, &fake{status: func(req *apipb.StatusRequest) (*apipb.StatusResponse, error) { return sampleJob(), nil }})
	if err := Status(t.Context(), r.Session, StatusOptions{Job: "flights-1"}); err != nil {
		t.Fatal(err)
	}
	want := `flights-1  RUNNING  ran 3h12m  restarts 1  losses 0

OPERATORS     RUNNING  STATE                  RE-RUN  IN  OUT     BUSY  BACKPR  WATERMARK
source → map  1/2      1 RUNNING, 1 FINISHED  0       0   100.0k  40%   5%      -
count → out   2/2      RUNNING                1       5   0       -     -       2026-01-02T03:04:05.000Z

REGION  STATE    EPOCH  SUBTASKS  AFTER
0       RUNNING  1      2         -

EDGE         PARTITIONER  EXCHANGE   REGIONS  STORED  REASON
map → count  hash         PIPELINED  -        -       unbounded input

sink out is exactly-once
2026-01-02T02:04:05.000Z E060: the worker was lost at a.csv:7 (worker w-dead)
  its stream broke
`
	if d := cmp.Diff(want, r.out.String()); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	r.out.Reset()
	if err := Status(t.Context(), r.Session, StatusOptions{Job: "flights-1", Detail: Subtasks}); err != nil {
		t.Fatal(err)
	}
	if want := "count → out[0]   2        RUNNING   1       w-ab      5   0      0 B      0 B\n"; !strings.Contains(r.out.String(), want) {
		t.Errorf("no line %q in\n%s", want, r.out.String())
	}
}

// TestStatusJSONIsThatOfTheAPI: scripts rely on these names, on enum names, on absent values being there, and on int64
// being strings, as in protobuf JSON.
func TestStatusJSONIsThatOfTheAPI(t *testing.T) {
	r := newRig(t, &fake{status: func(*apipb.StatusRequest) (*apipb.StatusResponse, error) { return sampleJob(), nil }})
	r.Format = JSON
	if err := Status(t.Context(), r.Session, StatusOptions{Job: "flights-1"}); err != nil {
		t.Fatal(err)
	}
	var got struct {
		ID, Status, Message string
		Restarts            *int
		EndedUs             *string
		Failure             any
		Subtasks            []struct {
			Operator string
			Index    *int
			Attempt  int
			Worker   string
			State    string
			Counters *struct{ RecordsOut string }
		}
		Regions []struct {
			Subtasks []string
			Epoch    string
			State    string
		}
		Edges []struct{ From, To, Exchange, Partitioner string }
	}
	if err := json.Unmarshal(r.out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	s := got.Subtasks[2]
	if got.ID != "flights-1" || got.Status != "JOB_RUNNING" || got.EndedUs == nil || *got.EndedUs != "0" || *got.Restarts != 1 ||
		s.Operator != "count → out" || *s.Index != 0 || s.Attempt != 2 || s.Worker != "w-ab" || s.State != "SUBTASK_RUNNING" ||
		got.Subtasks[0].Counters.RecordsOut != "90000" || got.Subtasks[3].Counters != nil ||
		got.Regions[0].State != "REGION_RUNNING" || got.Regions[0].Epoch != "1" || got.Edges[0].Exchange != "EXCHANGE_PIPELINED" {
		t.Errorf("got %s", r.out.String())
	}
	for _, absent := range []string{`"message": ""`, `"failure": null`, `"warnings": []`} {
		if !strings.Contains(r.out.String(), absent) {
			t.Errorf("no %s: fields that are empty must be there", absent)
		}
	}
	first := r.out.String()
	r.out.Reset()
	if err := Status(t.Context(), r.Session, StatusOptions{Job: "flights-1"}); err != nil || r.out.String() != first {
		t.Errorf("the same answer was printed differently: %v", err)
	}
}

func TestListTableSaysWhenItIsStale(t *testing.T) {
	r := newRig(t, &fake{list: func(_ context.Context, req *apipb.ListRequest) (*apipb.ListResponse, error) {
		if !req.Stale {
			return nil, noLeader()
		}
		return &apipb.ListResponse{
			Jobs: []*apipb.JobSummary{
				{Id: "a-1", Status: jobpb.JobStatus_JOB_FINISHED, Subtasks: 4, CreatedUs: ago(time.Minute), StartedUs: ago(59 * time.Second), EndedUs: ago(15 * time.Second)},
				{Id: "b-2", Status: jobpb.JobStatus_JOB_WAITING, Subtasks: 2, CreatedUs: ago(1500 * time.Millisecond), Message: "2 of 4 slots are free"},
				{Id: "c-3", Status: jobpb.JobStatus_JOB_FAILED, CreatedUs: ago(time.Second), EndedUs: ago(time.Second), FailureCode: "E053", FailureLine: "no file matches " + strings.Repeat("é", 200)},
			},
			Read: &apipb.ReadInfo{Node: "0123456789", Stale: true, Applied: 48211, WithoutLeaderUs: 12_000_000},
		}, nil
	}})
	if err := List(t.Context(), r.Session, ListOptions{Freshness: Stale}); err != nil {
		t.Fatal(err)
	}
	want := `JOB  STATUS    SUBTASKS  RESTARTS  CREATED                   RAN  MESSAGE
a-1  FINISHED  4         0         2026-01-02T03:03:05.000Z  44s  -
b-2  WAITING   0/2       0         2026-01-02T03:04:03.500Z  -    2 of 4 slots are free
c-3  FAILED    0         0         2026-01-02T03:04:04.000Z  -    E053: no file matches ` + strings.Repeat("é", 77) + `…

(stale: no leader for 12s; last applied 48211, as seen by 01234567)
`
	if d := cmp.Diff(want, r.out.String()); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestWatchShowsRatesUntilTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		r := newRig(t, &fake{status: func(*apipb.StatusRequest) (*apipb.StatusResponse, error) {
			n++
			j := &apipb.StatusResponse{Id: "a-1", Status: jobpb.JobStatus_JOB_RUNNING, Subtasks: []*apipb.SubtaskStatus{
				{Operator: "source", State: jobpb.SubtaskState_SUBTASK_RUNNING, Counters: &taskpb.Counters{RecordsOut: int64(n) * 20_000}},
			}}
			if n == 3 {
				j.Status = jobpb.JobStatus_JOB_FINISHED
			}
			return j, nil
		}})
		r.Now = time.Now
		if err := Watch(t.Context(), r.Session, StatusOptions{Job: "a-1", Every: 2 * time.Second}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(r.out.String(), "10.0k"); got != 2 || n != 3 {
			t.Errorf("%d rates in %d samples:\n%s", got, n, r.out.String())
		}
		if strings.Contains(r.out.String(), "\x1b") {
			t.Error("control characters in a pipe")
		}
	})
}

// waits is a coordinator whose job ends as given, after the calls before it ended as given.
func waits(before []error, end *apipb.StatusResponse) *fake {
	var calls atomic.Int64 // a call may begin before the one before it has gone
	return &fake{wait: func(ctx context.Context, _ *apipb.WaitRequest) (*apipb.StatusResponse, error) {
		n := int(calls.Add(1))
		if n <= len(before) {
			if before[n-1] == nil { // until the call's own deadline
				<-ctx.Done()
				return nil, status.FromContextError(ctx.Err()).Err()
			}
			return nil, before[n-1]
		}
		return end, nil
	}}
}

func TestWaitOutlivesDeadlinesAndLeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := &apipb.StatusResponse{Id: "a-1", Status: jobpb.JobStatus_JOB_FINISHED}
		r := newRig(t, waits([]error{nil, nil, noLeader(), noLeader(), nil, status.Error(codes.Unavailable, "gone")}, end), nil)
		if err := Wait(t.Context(), r.Session, WaitOptions{Job: "a-1"}); err != nil {
			t.Error(err)
		}
		if !strings.HasPrefix(r.out.String(), "a-1  FINISHED") {
			t.Errorf("got %s", r.out.String())
		}
	})
}

func TestWaitEndsWithWhatBecameOfTheJob(t *testing.T) {
	failure := &jobpb.Failure{Code: "E051", Message: "boom", Operator: "map", Index: 2, Attempt: 3, Position: "in.csv:7"}
	for _, c := range []struct {
		end  *apipb.StatusResponse
		exit Exit
		code string
		text string
	}{
		{&apipb.StatusResponse{Status: jobpb.JobStatus_JOB_FINISHED}, ExitOK, "", ""},
		{&apipb.StatusResponse{Status: jobpb.JobStatus_JOB_RUNNING}, ExitOK, "", ""}, // asked for
		{&apipb.StatusResponse{Id: "a-1", Status: jobpb.JobStatus_JOB_FAILED, Failure: failure}, ExitJobFailed, "E051", "map[2] attempt 3: boom"},
		{&apipb.StatusResponse{Id: "a-1", Status: jobpb.JobStatus_JOB_FAILED}, ExitJobFailed, CodeJobFailed, "no cause is known"},
		{&apipb.StatusResponse{Id: "a-1", Status: jobpb.JobStatus_JOB_FAILED, Failure: &jobpb.Failure{Code: "E043", Message: "build panicked"}}, ExitUsage, "E043", "build panicked"},
		{&apipb.StatusResponse{Id: "a-1", Status: jobpb.JobStatus_JOB_FAILED, Fingerprint: "f", Failure: &jobpb.Failure{Code: "E037", Message: "at deployment"}}, ExitJobFailed, "E037", "at deployment"},
		{&apipb.StatusResponse{Id: "a-1", Status: jobpb.JobStatus_JOB_CANCELLED}, ExitJobCancelled, CodeJobCancelled, "cancelled"},
	} {
		t.Run(c.end.Status.String(), func(t *testing.T) {
			r := newRig(t, waits(nil, c.end))
			err := Wait(t.Context(), r.Session, WaitOptions{Job: "a-1"})
			wantExit(t, err, c.exit, c.code)
			if err != nil && !strings.Contains(err.Error(), c.text) {
				t.Errorf("the cause is missing: %v", err)
			}
		})
	}
}

func TestFixesOfAPlanAreHints(t *testing.T) {
	show := func(f *jobpb.Failure) string {
		var out bytes.Buffer
		ReportError(&out, Table, outcome(&apipb.StatusResponse{Id: "a-1", Status: jobpb.JobStatus_JOB_FAILED, Failure: f}))
		return out.String()
	}
	want := "error E031: job a-1 failed: unknown parameter --x\n  fix: did you mean --y?\n  fix: known parameters: --y\n"
	if got := show(&jobpb.Failure{Code: "E031", Message: "unknown parameter --x\n  fix: did you mean --y?\n  fix: known parameters: --y"}); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	want = "error E051: job a-1 failed: boom\n  not restarted\n  fix: sluice status a-1 shows every attempt, sluice logs a-1 what it wrote\n"
	if got := show(&jobpb.Failure{Code: "E051", Message: "boom\nnot restarted"}); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestWaitTimesOutWithSevenAndUnreachableWithFive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			f    *fake
			exit Exit
		}{
			{waits(make([]error, 100), nil), ExitTimeout},
			{waits([]error{noLeader(), noLeader(), noLeader(), noLeader(), noLeader(), noLeader(), noLeader(), noLeader(), noLeader(), noLeader(),
				noLeader(), noLeader(), noLeader(), noLeader(), noLeader(), noLeader(), noLeader(), noLeader(), noLeader(), noLeader()}, nil), ExitUnreachable},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
			wantExit(t, Wait(ctx, newRig(t, c.f).Session, WaitOptions{Job: "a-1"}), c.exit, "")
			cancel()
		}
	})
}

func TestInterruptedWaitSaysThatTheJobGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		err := Wait(ctx, newRig(t, waits(make([]error, 100), nil)).Session, WaitOptions{Job: "a-1"})
		wantExit(t, err, ExitInterrupted, "")
		if !strings.Contains(err.Error(), "a-1 goes on") {
			t.Errorf("got %v", err)
		}
	})
}

func TestUnknownJobIsThree(t *testing.T) {
	unknown := apipb.NewError(codes.NotFound, &apipb.ErrorDetail{Code: "E102"}, "unknown job")
	r := newRig(t, &fake{
		status: func(*apipb.StatusRequest) (*apipb.StatusResponse, error) { return nil, unknown },
		wait:   func(context.Context, *apipb.WaitRequest) (*apipb.StatusResponse, error) { return nil, unknown },
		cancel: func(*apipb.CancelRequest) (*apipb.CancelResponse, error) { return nil, unknown },
		events: func(*apipb.EventsRequest, grpc.ServerStreamingServer[jobpb.Event]) error { return unknown },
		logs:   func(*apipb.LogsRequest, grpc.ServerStreamingServer[apipb.LogLine]) error { return unknown },
		plan:   func(*apipb.PlanRequest) (*apipb.PlanResponse, error) { return nil, unknown },
	})
	for name, err := range map[string]error{
		"status": Status(t.Context(), r.Session, StatusOptions{Job: "x"}),
		"watch":  Watch(t.Context(), r.Session, StatusOptions{Job: "x", Every: time.Second}),
		"wait":   Wait(t.Context(), r.Session, WaitOptions{Job: "x"}),
		"cancel": Cancel(t.Context(), r.Session, CancelOptions{Job: "x"}),
		"events": Events(t.Context(), r.Session, EventsOptions{Job: "x"}),
		"logs":   Logs(t.Context(), r.Session, LogsOptions{Job: "x"}),
		"plan":   Plan(t.Context(), r.Session, PlanOptions{What: "x"}),
	} {
		t.Run(name, func(t *testing.T) { wantExit(t, err, ExitNotFound, "E102") })
	}
}

func TestCancelIsRepeatedWithTheSameRequestID(t *testing.T) {
	var ids tally
	n := 0
	r := newRig(t, &fake{cancel: func(req *apipb.CancelRequest) (*apipb.CancelResponse, error) {
		ids.add(req.RequestId)
		if n++; n == 1 {
			return nil, unknownOutcome()
		}
		return &apipb.CancelResponse{Status: jobpb.JobStatus_JOB_CANCELLING}, nil
	}})
	if err := Cancel(t.Context(), r.Session, CancelOptions{Job: "a-1", RequestID: "r"}); err != nil {
		t.Fatal(err)
	}
	if got := ids.all(); !slices.Equal(got, []string{"r", "r"}) {
		t.Errorf("request ids %q", got)
	}
	if r.out.String() != "job a-1  CANCELLING\n" {
		t.Errorf("got %q", r.out.String())
	}
}

// TestEventsAreShownOnceThoughTheCoordinatorIsLost plays a coordinator that dies in the middle of a stream.
func TestEventsAreShownOnceThoughTheCoordinatorIsLost(t *testing.T) {
	all := []*jobpb.Event{{Index: 3, Kind: "a"}, {Index: 5, Kind: "b", Job: "j"}, {Index: 9, Kind: "c", Worker: "w", Message: "m"}}
	tell := func(die int) *fake {
		return &fake{events: func(req *apipb.EventsRequest, s grpc.ServerStreamingServer[jobpb.Event]) error {
			for i, e := range all {
				if e.Index <= req.AfterIndex {
					continue
				}
				if i == die {
					return status.Error(codes.Unavailable, "dies")
				}
				if err := s.Send(e); err != nil {
					return err
				}
			}
			return nil
		}}
	}
	r := newRig(t, tell(1), tell(2), tell(-1))
	if err := Events(t.Context(), r.Session, EventsOptions{}); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for line := range strings.Lines(r.out.String()) {
		kinds = append(kinds, strings.Fields(line)[2])
	}
	if !slices.Equal(kinds, []string{"a", "b", "c"}) {
		t.Errorf("got\n%s", r.out.String())
	}
	r.out.Reset()
	r.Format = JSON
	if err := Events(t.Context(), r.Session, EventsOptions{}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(r.out.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not one document per line: %s", line)
		}
	}
}

func TestLogsAreWholeLinesOfEachProcess(t *testing.T) {
	pieces := []*apipb.LogLine{
		{Worker: "w1", Process: 1, Data: []byte("one\ntw")}, {Worker: "w2", Process: 4, Data: []byte("other\r\n")},
		{Worker: "w1", Process: 1, Data: []byte("o\n\nlast without break")},
	}
	lost := false
	r := newRig(t, &fake{logs: func(req *apipb.LogsRequest, s grpc.ServerStreamingServer[apipb.LogLine]) error {
		if req.TailBytes != 7 && !lost {
			return fmt.Errorf("tail %d", req.TailBytes)
		}
		for i, p := range pieces {
			if i == 2 && !lost {
				lost = true
				return status.Error(codes.Unavailable, "dies")
			}
			if err := s.Send(p); err != nil {
				return err
			}
		}
		return nil
	}})
	if err := Logs(t.Context(), r.Session, LogsOptions{Job: "j", Tail: 7}); err != nil {
		t.Fatal(err)
	}
	want := "w1/1  one\nw2/4  other\nw1/1  tw\n" + // the coordinator died here
		"w1/1  one\nw2/4  other\nw1/1  two\nw1/1  \nw1/1  last without break\n"
	if d := cmp.Diff(want, r.out.String()); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if !strings.Contains(r.err.String(), "lines in between may be missing") {
		t.Errorf("nothing was said about the loss: %s", r.err.String())
	}
}
