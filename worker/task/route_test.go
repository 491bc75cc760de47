package task

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/worker/task/fault"
)

func customJob(t *testing.T, consumers int, route func(v, consumers int) int) (*job, *collected[string]) {
	j := newJob(t)
	src := j.source("src", 2, NewSource(ints(1000), SourceOptions[int]{}))
	sink := &collected[string]{}
	tell := StageOf[int, string](func(rt *Runtime, out Push[string]) (Push[int], Operator, error) {
		return func(v int) { out(fmt.Sprint(rt.Task.Subtask, ":", v)) }, Base{}, nil
	})
	op := j.join("ranges", consumers, end{from: src, by: jobpb.Partitioner_PARTITIONER_CUSTOM, x: NewCustomExchange(mustCodec[int](t), route), st: tell})
	j.then(op, "sink", NewSink(sink))
	return j, sink
}

func TestACustomPartitionerDecidesWhoGetsARecord(t *testing.T) {
	j, sink := customJob(t, 3, func(v, consumers int) int { return v * consumers / 1000 })
	finished(t, j)
	var want []string
	for v := range 1000 {
		want = append(want, fmt.Sprint(v*3/1000, ":", v))
	}
	slices.Sort(want)
	if got := sorted(sink.written()); !slices.Equal(got, want) {
		t.Errorf("%d records, %v…", len(got), got[:min(5, len(got))])
	}
}

func TestACustomPartitionerOutOfRangeFailsTheAttempt(t *testing.T) {
	for _, index := range []int{-1, 1, 2, 1 << 40} {
		for _, consumers := range []int{1, 2} {
			if index < consumers && index >= 0 {
				continue
			}
			j, _ := customJob(t, consumers, func(v, _ int) int {
				if v == 7 {
					return index
				}
				return 0
			})
			f := failedByUser(t, j)
			if f.Code != fault.CodeRoute || f.Kind != jobpb.FailureKind_FAILURE_USER || f.Operator != "ranges" ||
				!strings.Contains(f.Message, fmt.Sprintf("consumer %d of %d", index, consumers)) || !strings.Contains(f.Position, "row 7") {
				t.Errorf("index %d of %d: %v", index, consumers, f)
			}
		}
	}
}

func TestAPanicOfACustomPartitionerNamesItsOperator(t *testing.T) {
	j, _ := customJob(t, 2, func(v, _ int) int {
		if v == 7 {
			panic("no such range")
		}
		return 0
	})
	f := failedByUser(t, j)
	if f.Code != fault.CodePanic || f.Operator != "ranges" || !strings.Contains(f.Position, "row 7") || !strings.Contains(f.Stack, "route_test.go") {
		t.Errorf("%v", f)
	}
}

// failedByUser runs j, of which one attempt fails by itself.
func failedByUser(t *testing.T, j *job) *jobpb.Failure {
	t.Helper()
	c := start(t, j)
	if err := c.proc.Deploy(j.deployment(3, 1)); err != nil {
		t.Fatal(err)
	}
	for {
		if f := c.await(1)[0].Failure; f != nil && f.Kind != jobpb.FailureKind_FAILURE_LOSS {
			return f
		}
	}
}

func waitFor(gate <-chan struct{}) func(context.Context, int) error {
	return func(ctx context.Context, _ int) error {
		select {
		case <-gate:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// diary notes what its operator is told.
type diary struct {
	Base
	emit Push[string]
}

func (d *diary) OnInputEnd(input int) error {
	d.emit(fmt.Sprint("ended ", input))
	return nil
}

func (d *diary) OnWatermark(at element.Time) error {
	if at == element.MaxTime {
		d.emit("last watermark")
	}
	return nil
}

func (d *diary) Finish() error {
	d.emit("finish")
	return nil
}

func TestAnOperatorLearnsWhichOfItsInputsHasEnded(t *testing.T) {
	c := mustCodec[int](t)
	j := newJob(t)
	gate := make(chan struct{})
	first := ints(10)
	held := ints(10)
	held.poll = waitFor(gate)
	a := j.source("a", 1, NewSource(held, SourceOptions[int]{}))
	b := j.source("b", 1, NewSource(first, SourceOptions[int]{}))
	input := func(i int) Stage {
		return StageOf[int, string](func(rt *Runtime, out Push[string]) (Push[int], Operator, error) {
			d, err := Shared(rt, func() (*diary, error) { return &diary{emit: out}, nil })
			return func(v int) { out(fmt.Sprint("record of ", i)) }, d, err
		})
	}
	sink := &collected[string]{}
	// Only subtask 0 reads the global edges; the other one has no channels at all.
	op := j.join("op", 2, end{from: a, by: rebalance, x: NewExchange(c), st: input(0)},
		end{from: b, by: global, x: NewExchange(c), st: input(1)}, end{from: b, by: global, x: NewExchange(c), st: input(2)})
	j.then(op, "sink", NewSink(sink))
	var ended atomic.Int32
	sink.write = func(v string, _ element.Time) error {
		if v == "ended 2" && ended.Add(1) == 2 {
			close(gate) // the held source goes on when the others have ended everywhere
		}
		return nil
	}
	finished(t, j)
	for _, w := range sink.writers {
		var ends []string
		for i, v := range w.vals {
			if strings.HasPrefix(v, "record of 1") && slices.Contains(w.vals[:i], "ended 1") {
				t.Errorf("subtask %d: a record follows the end of its input", w.task.Subtask)
			}
			if !strings.HasPrefix(v, "record") {
				ends = append(ends, v)
			}
		}
		want := []string{"ended 1", "ended 2", "ended 0", "last watermark", "finish"}
		if w.task.Subtask == 0 && ends[0] == "ended 2" { // two inputs in their own time
			want[0], want[1] = want[1], want[0]
		}
		if !slices.Equal(ends, want) {
			t.Errorf("subtask %d: %q, want %q", w.task.Subtask, ends, want)
		}
	}
}
