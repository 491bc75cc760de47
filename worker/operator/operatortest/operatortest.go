package operatortest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/task"
)

// Stamped is a record with its event time.
type Stamped[T any] struct {
	Value T
	At    element.Time
}

func (s Stamped[T]) String() string { return fmt.Sprintf("%v@%v", s.Value, s.At) }

// Harness holds one operator of one subtask.
type Harness[In, Out any] struct {
	Runtime  *task.Runtime
	Operator task.Operator

	push    task.Push[In]
	out     []Stamped[Out]
	slots   []string // of out, as they were when they were emitted
	changed string   // a record that was changed after it was emitted; empty: none
	busy    bool     // a record is being emitted
	drop    bool     // Discard
	now     time.Time
	id      element.CheckpointID // of the last snapshot
	store   Stored               // that snapshots belong to
	pushed  int                  // records since the last event
}

// Name is the operator id in every harness.
const Name = "under-test"

// New builds stage. The operator is closed at the end of the test.
func New[In, Out any](t testing.TB, stage task.StageOf[In, Out]) *Harness[In, Out] {
	t.Helper()
	h, err := Build(t, stage)
	if err != nil {
		t.Fatalf("build: %v", err)
	}
	return h
}

// Build is New for stages that may refuse.
func Build[In, Out any](t testing.TB, stage task.StageOf[In, Out]) (*Harness[In, Out], error) {
	return BuildIn(t, task.NewRuntime(t.Context(), Name), stage)
}

// BuildIn is Build in surroundings that the test has prepared.
func BuildIn[In, Out any](t testing.TB, rt *task.Runtime, stage task.StageOf[In, Out]) (*Harness[In, Out], error) {
	h := &Harness[In, Out]{Runtime: rt, now: startOfTime}
	rt.Now = func() time.Time { return h.now }
	push, op, err := stage(h.Runtime, func(v Out) { h.emitted(t, v) })
	if op != nil {
		t.Cleanup(func() {
			if err := errors.Join(op.Close(), rt.CloseTables()); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
	h.push, h.Operator = push, op
	return h, err
}

// startOfTime is what the clock of a harness shows at first.
var startOfTime = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// emitted takes a record into the one slot that there is for it. It is copied as text: what the operator changes later in
// what it has emitted is found by Out.
func (h *Harness[In, Out]) emitted(t testing.TB, v Out) {
	if h.drop {
		return
	}
	if h.busy {
		t.Fatalf("%v is emitted while another record is", v)
	}
	h.busy = true
	h.out = append(h.out, Stamped[Out]{v, h.Runtime.At})
	h.slots = append(h.slots, text(v))
	h.busy = false
}

func text(v any) string { return fmt.Sprintf("%+v", v) }

// batch is the number of records between two rounds of maintenance, as in an engine that is busy.
const batch = 64

// StateBytes is the size of the state now.
func (h *Harness[In, Out]) StateBytes() int64 {
	h.Runtime.Measure()
	return h.Runtime.Counters.StateBytes
}

// Close ends the operator before the test does.
func (h *Harness[In, Out]) Close(t testing.TB) {
	t.Helper()
	if err := errors.Join(h.Operator.Close(), h.Runtime.CloseTables()); err != nil {
		t.Fatalf("close: %v", err)
	}
}

// Advance moves the clock on, and calls the operator if it waits for that.
func (h *Harness[In, Out]) Advance(t testing.TB, d time.Duration) {
	t.Helper()
	h.now = h.now.Add(d)
	h.pushed = 0
	if err := h.Runtime.Maintain(); err != nil {
		t.Fatalf("at %v: %v", h.now, err)
	}
	for h.Runtime.Due(h.now) {
		w, ok := h.Operator.(task.Waker)
		if !ok {
			t.Fatal("the operator waits for a time and has no OnTime")
		}
		if err := w.OnTime(h.now); err != nil {
			t.Fatalf("at %v: %v", h.now, err)
		}
	}
}

// Now is what the clock shows.
func (h *Harness[In, Out]) Now() time.Time { return h.now }

// Push hands over a record. The event time must be as before when it returns: an operator that moves it puts it back.
func (h *Harness[In, Out]) Push(t testing.TB, v In, at element.Time) { // no t.Helper: tests of speed push millions
	if h.pushed%batch == 0 {
		if err := h.Runtime.Maintain(); err != nil {
			t.Fatalf("before record %v: %v", v, err)
		}
	}
	h.pushed++
	h.Runtime.At = at
	h.push(v)
	if h.Runtime.At != at {
		t.Fatalf("the operator left the event time at %v, the record had %v", h.Runtime.At, at)
	}
}

// Watermark passes a watermark on. It must grow.
func (h *Harness[In, Out]) Watermark(t testing.TB, at element.Time) {
	t.Helper()
	h.Runtime.Watermark = at
	h.pushed = 0
	if err := h.Operator.OnWatermark(at); err != nil {
		t.Fatalf("watermark %v: %v", at, err)
	}
	if err := h.Runtime.TableErr(); err != nil {
		t.Fatalf("watermark %v: %v", at, err)
	}
	h.Runtime.Measure()
}

// End ends the input.
func (h *Harness[In, Out]) End(t testing.TB) {
	t.Helper()
	h.Watermark(t, element.MaxTime)
	if err := h.Operator.Finish(); err != nil {
		t.Fatalf("finish: %v", err)
	}
}

// Out is what was emitted since the last call. What is there must be what was emitted.
func (h *Harness[In, Out]) Out() []Stamped[Out] {
	out := h.out
	for i := range out {
		if now := text(out[i].Value); now != h.slots[i] {
			h.changed = fmt.Sprintf("%s became %s", h.slots[i], now)
		}
	}
	h.out, h.slots = nil, nil
	return out
}

// Discard drops what is emitted from now on, for measurements.
func (h *Harness[In, Out]) Discard() { h.drop = true }

// Item is one step of a script: a record, or a watermark.
type Item[In any] struct {
	Value     In
	At        element.Time
	Watermark bool
}

// Conform plays the items and then the end, and compares what the operator emits after each with model, which is called with
// the items so far and the watermark before them; end says that the input has ended. Order within one item does not
// count if less is given.
func Conform[In, Out any](t testing.TB, stage task.StageOf[In, Out], items []Item[In], model func(done []Item[In], end bool) []Stamped[Out], opts ...cmp.Option) {
	t.Helper()
	h := New(t, stage)
	for i, it := range items {
		if it.Watermark {
			h.Watermark(t, it.At)
		} else {
			h.Push(t, it.Value, it.At)
		}
		compare(t, fmt.Sprintf("item %d (%+v)", i, it), model(items[:i+1], false), h.Out(), opts)
	}
	h.End(t)
	compare(t, "the end", model(items, true), h.Out(), opts)
	if err := h.Runtime.Err(); err != nil {
		t.Fatalf("the operator failed: %v", err)
	}
}

func compare[Out any](t testing.TB, after string, want, got []Stamped[Out], opts []cmp.Option) {
	t.Helper()
	if len(want) == 0 && len(got) == 0 {
		return
	}
	if d := cmp.Diff(want, got, opts...); d != "" {
		t.Fatalf("after %s: (-want +got)\n%s", after, d)
	}
}

// StopsEmitting fails if the operator, at the end of its input, goes on to emit when the attempt has failed or was told to
// stop: what many keys have to say may take longer than an attempt has for stopping. fill brings its state about.
func StopsEmitting[In, Out any](t *testing.T, stage task.StageOf[In, Out], fill func(push func(v In, at element.Time))) {
	t.Helper()
	broken := errors.New("broken behind the operator")
	for name, stop := range map[string]func(rt *task.Runtime, cancel func()){
		"failed":  func(rt *task.Runtime, _ func()) { rt.Fail(broken) },
		"stopped": func(_ *task.Runtime, cancel func()) { cancel() },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		rt, emitted := task.NewRuntime(ctx, Name), 0
		push, op, err := stage(rt, func(Out) {
			emitted++
			stop(rt, cancel)
		})
		if err != nil {
			t.Fatal(err)
		}
		fill(func(v In, at element.Time) {
			rt.At = at
			push(v)
		})
		err = op.OnWatermark(element.MaxTime)
		if emitted != 1 || !errors.Is(err, broken) && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: emitted %d times; error %v", name, emitted, err)
		}
		if err := op.Close(); err != nil {
			t.Error(err)
		}
		cancel()
	}
}

// NoAllocation fails if pushing a record allocates in the steady state that warm has brought about.
func NoAllocation[In, Out any](t *testing.T, h *Harness[In, Out], warm int, record func(i int) (In, element.Time)) {
	t.Helper()
	h.Discard()
	i := 0
	next := func() {
		v, at := record(i)
		h.Runtime.At = at
		h.push(v)
		i++
	}
	for range warm {
		next()
	}
	if n := testing.AllocsPerRun(1000, next); n != 0 {
		t.Errorf("%v allocations per record", n)
	}
}
