package ops

import (
	"math"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// slow is a job of which one split has had no records for a while.
func slow() *apipb.WatermarksResponse {
	const now, second = 1_767_323_045_000_000, 1_000_000
	run := jobpb.SubtaskState_SUBTASK_RUNNING
	active, idle, paused := taskpb.ClockState_CLOCK_ACTIVE, taskpb.ClockState_CLOCK_IDLE, taskpb.ClockState_CLOCK_PAUSED
	held := &taskpb.SplitClock{Id: "3", State: active, WatermarkUs: now - 14*second, NewestUs: now - 13*second, RecordUs: now - 12*second}
	return &apipb.WatermarksResponse{
		Id: "bids-1", Name: "bids", Status: jobpb.JobStatus_JOB_RUNNING, NowUs: now, NewestUs: now - second,
		Operators: []*apipb.OperatorClock{
			{Operator: "bids", Operators: []string{"bids"}, State: active, WatermarkUs: now - 14*second, Subtasks: []*apipb.SubtaskClock{
				{Attempt: 1, State: run, Clock: &taskpb.Clock{ReadUs: now, WatermarkUs: now - 14*second, Source: &taskpb.SourceClock{
					Marking: true, NewestUs: now - 2*second, Active: 9, Idle: 1, Paused: 1, Splits: []*taskpb.SplitClock{
						held, {Id: "1", State: paused, WatermarkUs: now - 2*second, NewestUs: now - second, RecordUs: now - 100_000}, {Id: "7", State: idle, WatermarkUs: math.MinInt64, NewestUs: math.MinInt64},
					}}}},
				{Index: 1, Attempt: 2, State: jobpb.SubtaskState_SUBTASK_SCHEDULED},
			}},
			{Operator: "rates", Chain: 1, Operators: []string{"rates"}, State: idle, WatermarkUs: now - 40*second, Subtasks: []*apipb.SubtaskClock{
				{Attempt: 1, State: run, Clock: &taskpb.Clock{ReadUs: now, WatermarkUs: now - 40*second, Idle: true, Source: &taskpb.SourceClock{Marking: true, Idle: 1}}},
			}},
			{Operator: "join → calls → out", Chain: 2, Operators: []string{"join", "calls", "out"}, Inputs: []string{"bids", "rates"}, State: active, WatermarkUs: now - 14*second, Subtasks: []*apipb.SubtaskClock{
				{Attempt: 1, State: run, Clock: &taskpb.Clock{ReadUs: now, WatermarkUs: now - 14*second, Inputs: []*taskpb.InputClock{
					{State: active, WatermarkUs: now - 14*second, Channels: 2, IdleChannels: 1}, {State: idle, WatermarkUs: now - 40*second, From: -1, Channels: 1, IdleChannels: 1},
				}, Held: []*taskpb.HeldClock{{Operator: "calls", WatermarkUs: now - 15*second}}}},
			}},
		},
		Blames: []*apipb.Blame{{Cause: apipb.BlameCause_BLAME_SPLIT_SILENT, Operator: "bids", Split: held, SilentUs: 12 * second, Steps: []*apipb.BlameStep{
			{Operator: "join → calls → out", Chain: 2, WatermarkUs: now - 14*second, Input: "bids"}, {Operator: "bids", WatermarkUs: now - 14*second},
		}}},
		Read: &apipb.ReadInfo{Node: "n1", Leader: "n1", Term: 3},
	}
}

func TestWhoHoldsTimeBackIsSaidInOneLook(t *testing.T) {
	r := newRig(t, &fake{marks: func(q *apipb.WatermarksRequest) (*apipb.WatermarksResponse, error) {
		if q.Job != "bids-1" {
			return nil, apipb.NewError(codes.NotFound, &apipb.ErrorDetail{Code: "E090"}, "no such job")
		}
		return slow(), nil
	}})
	show := func(d Detail) string {
		t.Helper()
		r.out.Reset()
		if err := Watermarks(t.Context(), r.Session, WatermarksOptions{Job: "bids-1", Detail: d}); err != nil {
			t.Fatal(err)
		}
		return r.out.String()
	}
	golden(t, "watermarks.txt", show(Summary))
	golden(t, "watermarks.subtasks.txt", show(Subtasks))
	r.Format = JSON
	golden(t, "watermarks.json", show(Summary))
	wantExit(t, Watermarks(t.Context(), r.Session, WatermarksOptions{Job: "x"}), ExitNotFound, "E090")
}

// Every cause has words, and what can be changed is said.
func TestEveryCauseIsExplained(t *testing.T) {
	var all strings.Builder
	for v := range apipb.BlameCause(len(apipb.BlameCause_name)) {
		for _, b := range []*apipb.Blame{
			{Operator: "op", SilentUs: -1, Bounded: true, State: jobpb.SubtaskState_SUBTASK_CREATED},
			{Operator: "op", SilentUs: 3_000_000, IdleAfterUs: 60_000_000, Split: &taskpb.SplitClock{Id: "7", NewestUs: 1_000_000}},
			{SilentUs: 3_000_000, Split: &taskpb.SplitClock{Id: "7", NewestUs: math.MinInt64}},
			{Operator: "op", Split: &taskpb.SplitClock{Id: "8", State: taskpb.ClockState_CLOCK_PAUSED}},
		} {
			b.Cause = v
			cause, fix := causeOf(&apipb.WatermarksResponse{Id: "j-1", NewestUs: 9_000_000}, b)
			all.WriteString(enum(v) + ": " + cause + "\n")
			if fix != "" {
				all.WriteString("  fix: " + fix + "\n")
			}
		}
	}
	golden(t, "watermarks.causes.txt", all.String())
}

// A job of which nothing is known yet has no clock, and an answer of another release no surprises.
func TestAJobWithoutAClockIsShown(t *testing.T) {
	for _, resp := range []*apipb.WatermarksResponse{
		{Id: "j-1", NewestUs: math.MinInt64},
		{Id: "j-1", Operators: []*apipb.OperatorClock{{Subtasks: []*apipb.SubtaskClock{{}}}}, Blames: []*apipb.Blame{{}}},
	} {
		r := newRig(t, &fake{marks: func(*apipb.WatermarksRequest) (*apipb.WatermarksResponse, error) { return resp, nil }})
		if err := Watermarks(t.Context(), r.Session, WatermarksOptions{Job: "j-1", Detail: Subtasks}); err != nil || !strings.HasPrefix(r.out.String(), "j-1") {
			t.Errorf("%v: %q", err, r.out.String())
		}
	}
}
