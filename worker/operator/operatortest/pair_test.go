package operatortest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/task"
)

// journal tells everything that it is told.
type journal struct {
	task.Base
	out task.Push[string]
}

func (j *journal) OnInputEnd(i int) error            { j.out(fmt.Sprint("end ", i)); return nil }
func (j *journal) OnWatermark(at element.Time) error { j.out(fmt.Sprint("watermark ", at)); return nil }
func (j *journal) Finish() error                     { j.out("finish"); return nil }

func side[T any](name string) task.StageOf[T, string] {
	return func(rt *task.Runtime, out task.Push[string]) (task.Push[T], task.Operator, error) {
		j, err := task.Shared(rt, func() (*journal, error) { return &journal{out: out}, nil })
		return func(v T) { out(fmt.Sprint(name, v)) }, j, err
	}
}

// The harness keeps the order of calls that the engine keeps.
func TestAPairOfInputsIsDrivenAsTheEngineDoes(t *testing.T) {
	p := NewPair(t, task.NewRuntime(t.Context(), Name), side[int]("left "), side[string]("right "))
	p.PushRight(t, "a", 1)
	p.EndInput(t, 1)
	p.PushLeft(t, 7, 2)
	p.Watermark(t, 2)
	p.EndInput(t, 0)
	var got []string
	for _, s := range p.Out() {
		got = append(got, s.Value)
	}
	want := []string{"right a", "end 1", "left 7", fmt.Sprint("watermark ", element.Time(2)), "end 0", fmt.Sprint("watermark ", element.MaxTime), "finish"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if len(p.Out()) != 0 {
		t.Error("what was taken comes again")
	}
}
