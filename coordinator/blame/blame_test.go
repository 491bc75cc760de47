package blame

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

const (
	active = taskpb.ClockState_CLOCK_ACTIVE
	idle   = taskpb.ClockState_CLOCK_IDLE
	ended  = taskpb.ClockState_CLOCK_ENDED

	now = 60_000_000 // when everybody tells, µs
)

// facts of a job that joins two sources, asks somebody about the pairs and writes down the answers:
// a[2], b[1] → join → calls → text [2] → out[1].
func facts() Facts {
	f := Facts{Plan: &jobpb.Plan{
		Graph: &jobpb.Graph{Operators: []*jobpb.Operator{
			{Id: "a"}, {Id: "b"}, {Id: "join", Inputs: []*jobpb.Input{{Operator: 0}, {Operator: 1}}},
			{Id: "calls", Inputs: []*jobpb.Input{{Operator: 2}}}, {Id: "text", Inputs: []*jobpb.Input{{Operator: 3}}},
			{Id: "out", Inputs: []*jobpb.Input{{Operator: 4}}},
		}},
		Chains: []*jobpb.Chain{
			{Index: 0, Operators: []int32{0}, Parallelism: 2, Name: "a"}, {Index: 1, Operators: []int32{1}, Parallelism: 1, Name: "b"},
			{Index: 2, Operators: []int32{2, 3, 4}, Parallelism: 2, Name: "join → calls → text"}, {Index: 3, Operators: []int32{5}, Parallelism: 1, Name: "out"},
		},
		Edges: []*jobpb.Edge{
			{Index: 0, FromOperator: 0, ToOperator: 2, Input: 0, FromChain: 0, ToChain: 2, Exchange: jobpb.ExchangeKind_EXCHANGE_PIPELINED},
			{Index: 1, FromOperator: 1, ToOperator: 2, Input: 1, FromChain: 1, ToChain: 2, Exchange: jobpb.ExchangeKind_EXCHANGE_PIPELINED},
			{Index: 2, FromOperator: 4, ToOperator: 5, Input: 0, FromChain: 2, ToChain: 3, Exchange: jobpb.ExchangeKind_EXCHANGE_PIPELINED},
		},
	}}
	for _, c := range f.Plan.Chains {
		for i := range c.Parallelism {
			f.Subtasks = append(f.Subtasks, &jobpb.Subtask{Chain: c.Index, Index: i, Attempt: 2, State: jobpb.SubtaskState_SUBTASK_RUNNING})
		}
	}
	source := func(chain, index int32, w int64, splits ...*taskpb.SplitClock) *taskpb.Clock {
		return &taskpb.Clock{Chain: chain, Index: index, Attempt: 2, ReadUs: now, WatermarkUs: w,
			Source: &taskpb.SourceClock{Marking: true, NewestUs: 1000, Splits: splits, Active: int32(len(splits))}}
	}
	split := func(id string, w int64) *taskpb.SplitClock {
		return &taskpb.SplitClock{Id: id, State: active, WatermarkUs: w, NewestUs: w + 1, RecordUs: now - 100_000}
	}
	join := func(index int32, w, a, b int64, from int32) *taskpb.Clock {
		return &taskpb.Clock{Chain: 2, Index: index, Attempt: 2, ReadUs: now, WatermarkUs: w, Inputs: []*taskpb.InputClock{
			{State: active, WatermarkUs: a, From: from, Channels: 2}, {State: active, WatermarkUs: b, Channels: 1},
		}}
	}
	f.Clocks = []*taskpb.Clock{
		source(0, 0, 900, split("a0", 900)), source(0, 1, 300, split("a1", 300), split("a2", 800)), source(1, 0, 950, split("b0", 950)),
		join(0, 300, 300, 950, 1), join(1, 300, 300, 950, 1),
		{Chain: 3, Attempt: 2, ReadUs: now, WatermarkUs: 300, Inputs: []*taskpb.InputClock{{State: active, WatermarkUs: 300, From: 1, Channels: 2}}},
		{Chain: 0, Index: 1, Attempt: 1, ReadUs: now, WatermarkUs: 1}, // of an attempt that is gone
	}
	return f
}

// told is who is to blame, in one line.
func told(f Facts) string {
	r := &apipb.WatermarksResponse{}
	Of(f, r)
	var lines []string
	for _, b := range r.Blames {
		var parts []string
		for _, s := range b.Steps {
			part := fmt.Sprintf("%s[%d] %d", s.Operator, s.Index, s.WatermarkUs)
			if s.Input != "" {
				part += fmt.Sprintf(" waits for %s[%d]", s.Input, s.From)
			}
			parts = append(parts, part)
		}
		cause := strings.ToLower(strings.TrimPrefix(b.Cause.String(), "BLAME_")) + " " + b.Operator
		if b.Split != nil {
			cause += " split " + b.Split.Id
		}
		if b.SilentUs != 0 {
			cause += fmt.Sprintf(" silent %d", b.SilentUs)
		}
		lines = append(lines, strings.Join(append(parts, cause), "; "))
	}
	return strings.Join(lines, "\n")
}

func TestTheBlameLeadsFromTheEndToWhatHoldsTheClock(t *testing.T) {
	const way = "out[0] 300 waits for text[1]; join → calls → text[1] 300 waits for a[1]; a[1] 300; "
	for _, c := range []struct {
		name   string
		change func(f *Facts)
		want   string
	}{
		{"a split that is behind", func(*Facts) {}, way + "split_behind a split a1"},
		{"a split without records", func(f *Facts) { f.Clocks[1].Source.Splits[0].RecordUs = now - 12_000_000 }, way + "split_silent a split a1 silent 12000000"},
		{"a split that has had none", func(f *Facts) { f.Clocks[1].Source.Splits[0].RecordUs = 0 }, way + "split_silent a split a1 silent -1"},
		{"splits to come", func(f *Facts) { f.Clocks[1].Source.Awaits = true }, way + "awaits_splits a"},
		{"an operator at work", func(f *Facts) { f.Clocks[4].Held = []*taskpb.HeldClock{{Operator: "calls", WatermarkUs: 300}} },
			"out[0] 300 waits for text[1]; join → calls → text[1] 300; operator calls"},
		{"an operator behind the edge is not asked", func(f *Facts) {
			f.Plan.Edges[2].FromOperator, f.Clocks[4].Held = 2, []*taskpb.HeldClock{{Operator: "calls", WatermarkUs: 300}}
		}, "out[0] 300 waits for join[1]; join → calls → text[1] 300 waits for a[1]; a[1] 300; split_behind a split a1"},
		{"the other input", func(f *Facts) {
			f.Clocks[2].WatermarkUs, f.Clocks[2].Source.Splits[0].WatermarkUs = 100, 100
			f.Clocks[4].Inputs[1].WatermarkUs, f.Clocks[4].WatermarkUs = 100, 100
		}, "out[0] 300 waits for text[1]; join → calls → text[1] 100 waits for b[0]; b[0] 100; split_behind b split b0"},
		{"an idle input does not count", func(f *Facts) { f.Clocks[4].Inputs[0].State = idle },
			"out[0] 300 waits for text[1]; join → calls → text[1] 300 waits for b[0]; b[0] 950; split_behind b split b0"},
		{"a subtask that does not run", func(f *Facts) { f.Subtasks[1].State = jobpb.SubtaskState_SUBTASK_SCHEDULED }, way + "not_running a"},
		{"a subtask that has told nothing", func(f *Facts) { f.Clocks[1].Attempt = 9 }, strings.Replace(way, "a[1] 300;", fmt.Sprintf("a[1] %d;", int64(NoTime)), 1) + "unknown a"},
		{"records wait", func(f *Facts) { f.Clocks[1].WatermarkUs = 800 }, "out[0] 300 waits for text[1]; join → calls → text[1] 300; backlog join"},
		{"a little is always under way", func(f *Facts) { f.Clocks[1].WatermarkUs = 400 }, strings.Replace(way, "a[1] 300;", "a[1] 400;", 1) + "split_behind a split a1"},
		{"what was told later says nothing of a backlog", func(f *Facts) { f.Clocks[1].WatermarkUs, f.Clocks[1].ReadUs = 800, now+1 },
			strings.Replace(way, "a[1] 300;", "a[1] 800;", 1) + "split_behind a split a1"},
		{"stored results", func(f *Facts) { f.Plan.Edges[0].Exchange = jobpb.ExchangeKind_EXCHANGE_BLOCKING },
			"out[0] 300 waits for text[1]; join → calls → text[1] 300; stored a"},
		{"nothing is left", func(f *Facts) {
			for _, s := range f.Subtasks {
				s.State = jobpb.SubtaskState_SUBTASK_FINISHED
			}
		}, fmt.Sprintf("out[0] %d; ended ", int64(End))},
		{"all is idle", func(f *Facts) {
			for _, k := range f.Clocks {
				k.Idle = true
				for _, in := range k.Inputs {
					in.State, in.From = idle, -1
				}
			}
		}, "out[0] 300 waits for text[0]; join → calls → text[0] 300 waits for a[0]; a[0] 900; idle a"},
		{"a source that makes no watermarks", func(f *Facts) {
			for _, k := range f.Clocks {
				k.Idle = true
				for _, in := range k.Inputs {
					in.State, in.From = idle, -1
				}
			}
			f.Clocks[0].Source.Marking = false
		}, "out[0] 300 waits for text[0]; join → calls → text[0] 300 waits for a[0]; a[0] 900; no_time a"},
		{"no plan yet", func(f *Facts) { f.Plan = nil }, ""},
	} {
		f := facts()
		c.change(&f)
		if got := told(f); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestTheClockOfAnOperatorIsTheLowestThatCounts(t *testing.T) {
	f := facts()
	show := func() (line string) {
		r := &apipb.WatermarksResponse{}
		Of(f, r)
		o := r.Operators[0]
		return fmt.Sprintf("%s %v %d of %d, newest %d, inputs %v of %v", o.Operator, o.State, o.WatermarkUs, len(o.Subtasks), r.NewestUs, r.Operators[2].Inputs, r.Operators[2].Operators)
	}
	want := func(text string) {
		t.Helper()
		if got := show(); got != text {
			t.Errorf("got %s, want %s", got, text)
		}
	}
	const rest = " of 2, newest 1000, inputs [a b] of [join calls text]"
	want("a CLOCK_ACTIVE 300" + rest)
	f.Clocks[1].Idle = true
	want("a CLOCK_ACTIVE 900" + rest)
	f.Subtasks[0].State = jobpb.SubtaskState_SUBTASK_FINISHED
	want("a CLOCK_IDLE 300" + rest)
	f.Subtasks[1].State = jobpb.SubtaskState_SUBTASK_FINISHED
	want(fmt.Sprintf("a CLOCK_ENDED %d", int64(End)) + rest)
}

// What comes over the wire may be anything that its checks let through: an answer comes out, and the way to it ends.
func TestAnyClocksHaveAnAnswer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := facts()
		state := rapid.SampledFrom([]taskpb.ClockState{0, active, idle, ended, taskpb.ClockState_CLOCK_PAUSED})
		when := rapid.SampledFrom([]int64{NoTime, 0, 5, 1000, End})
		f.Clocks = nil
		for _, s := range f.Subtasks {
			s.State = rapid.SampledFrom([]jobpb.SubtaskState{jobpb.SubtaskState_SUBTASK_RUNNING, jobpb.SubtaskState_SUBTASK_RUNNING, jobpb.SubtaskState_SUBTASK_FINISHED, jobpb.SubtaskState_SUBTASK_CREATED}).Draw(t, "state")
			c := &taskpb.Clock{Chain: s.Chain, Index: s.Index, Attempt: s.Attempt, ReadUs: when.Draw(t, "read"), WatermarkUs: when.Draw(t, "watermark"), Idle: rapid.Bool().Draw(t, "idle")}
			for range rapid.IntRange(0, 3).Draw(t, "inputs") {
				c.Inputs = append(c.Inputs, &taskpb.InputClock{State: state.Draw(t, "input"), WatermarkUs: when.Draw(t, "said"), From: rapid.Int32Range(-1, 3).Draw(t, "from")})
			}
			for range rapid.IntRange(0, 1).Draw(t, "held") {
				c.Held = append(c.Held, &taskpb.HeldClock{Operator: rapid.SampledFrom([]string{"calls", "a", "nobody"}).Draw(t, "holder"), WatermarkUs: when.Draw(t, "passed")})
			}
			if rapid.Bool().Draw(t, "source") {
				c.Source = &taskpb.SourceClock{Marking: rapid.Bool().Draw(t, "marking"), Splits: []*taskpb.SplitClock{{State: state.Draw(t, "split"), RecordUs: when.Draw(t, "record")}}}
			}
			f.Clocks = append(f.Clocks, c)
		}
		r := &apipb.WatermarksResponse{}
		Of(f, r)
		if len(r.Operators) != 4 || len(r.Blames) != 1 || r.Blames[0].Cause == apipb.BlameCause_BLAME_UNSPECIFIED {
			t.Fatalf("%v", r)
		}
	})
}
