package operatortest

import (
	"testing"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/task"
)

// Pair holds one operator of one subtask that has two inputs.
type Pair[Left, Right, Out any] struct {
	Runtime  *task.Runtime
	Operator task.Operator

	left  task.Push[Left]
	right task.Push[Right]
	ended [2]bool
	out   []Stamped[Out]
}

// NewPair builds the stages of both inputs as the engine does: with one Runtime, in order; the operator is that of the
// first one. It is closed at the end of the test.
func NewPair[Left, Right, Out any](t testing.TB, rt *task.Runtime, left task.StageOf[Left, Out], right task.StageOf[Right, Out]) *Pair[Left, Right, Out] {
	t.Helper()
	p := &Pair[Left, Right, Out]{Runtime: rt}
	emit := func(v Out) { p.out = append(p.out, Stamped[Out]{v, rt.At}) }
	var err error
	if p.left, p.Operator, err = left(rt, emit); err != nil {
		t.Fatalf("build: %v", err)
	}
	t.Cleanup(func() {
		if err := p.Operator.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if p.right, _, err = right(rt, emit); err != nil {
		t.Fatalf("build: %v", err)
	}
	return p
}

// PushLeft hands over a record of the first input. The event time must be as before when it returns.
func (p *Pair[Left, Right, Out]) PushLeft(t testing.TB, v Left, at element.Time) {
	t.Helper()
	p.before(t, 0, at)
	p.left(v)
	p.after(t, at)
}

// PushRight is PushLeft for the second input.
func (p *Pair[Left, Right, Out]) PushRight(t testing.TB, v Right, at element.Time) {
	t.Helper()
	p.before(t, 1, at)
	p.right(v)
	p.after(t, at)
}

func (p *Pair[Left, Right, Out]) before(t testing.TB, input int, at element.Time) {
	t.Helper()
	if p.ended[input] {
		t.Fatalf("the test pushes a record of input %d after its end", input)
	}
	p.Runtime.At = at
}

func (p *Pair[Left, Right, Out]) after(t testing.TB, at element.Time) {
	t.Helper()
	if p.Runtime.At != at {
		t.Fatalf("the operator left the event time at %v, the record had %v", p.Runtime.At, at)
	}
}

// Watermark passes a watermark on: the lower one of both inputs. It must grow.
func (p *Pair[Left, Right, Out]) Watermark(t testing.TB, at element.Time) {
	t.Helper()
	p.Runtime.Watermark = at
	if err := p.Operator.OnWatermark(at); err != nil {
		t.Fatalf("watermark %v: %v", at, err)
	}
}

// EndInput ends one input; the end of the second one ends the operator.
func (p *Pair[Left, Right, Out]) EndInput(t testing.TB, input int) {
	t.Helper()
	if p.ended[input] {
		t.Fatalf("the test ends input %d twice", input)
	}
	p.ended[input] = true
	if e, ok := p.Operator.(task.InputEnder); ok {
		if err := e.OnInputEnd(input); err != nil {
			t.Fatalf("end of input %d: %v", input, err)
		}
	}
	if p.ended != [2]bool{true, true} {
		return
	}
	p.Watermark(t, element.MaxTime)
	if err := p.Operator.Finish(); err != nil {
		t.Fatalf("finish: %v", err)
	}
}

// Out is what was emitted since the last call.
func (p *Pair[Left, Right, Out]) Out() []Stamped[Out] {
	out := p.out
	p.out = nil
	return out
}
