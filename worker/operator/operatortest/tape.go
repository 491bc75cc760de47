package operatortest

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/snapshot/chunk"
	"github.com/sluiceio/sluice/worker/state"
	"github.com/sluiceio/sluice/worker/task"
)

// tape holds the checkpoints of one operator of one subtask: a chunk chain, as a store would.
type tape struct {
	id     element.CheckpointID
	chunks []*chunk.Reader
}

// take is a barrier, and the completion of its checkpoint.
func (p *tape) take(t testing.TB, rt *task.Runtime, op task.Operator) {
	t.Helper()
	p.id++
	if err := op.OnBarrier(p.id); err != nil {
		t.Fatalf("barrier %d: %v", p.id, err)
	}
	for _, table := range rt.Tables() {
		snap, err := table.Freeze(p.id, state.Delta)
		if err != nil {
			t.Fatalf("freeze %d: %v", p.id, err)
		}
		for done := false; !done; {
			if done, err = snap.Step(100); err != nil {
				t.Fatalf("snapshot %d: %v", p.id, err)
			}
			for part, ok := snap.Take(); ok; part, ok = snap.Take() {
				var b bytes.Buffer
				if _, err := part.WriteTo(&b); err != nil {
					t.Fatal(err)
				}
				r, err := chunk.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
				if err != nil {
					t.Fatal(err)
				}
				p.chunks = append(p.chunks, r)
			}
		}
		table.Completed(p.id)
	}
}

// give restores a fresh operator.
func (p *tape) give(t testing.TB, rt *task.Runtime, op task.Operator) {
	t.Helper()
	for _, table := range rt.Tables() {
		if err := table.Import(t.Context(), p.chunks, rt.KeyGroups.First, rt.KeyGroups.End); err != nil {
			t.Fatalf("import %d: %v", p.id, err)
		}
		table.Restored(p.id)
	}
	if r, ok := op.(task.Restorer); ok {
		if err := r.OnRestored(); err != nil {
			t.Fatalf("restore %d: %v", p.id, err)
		}
	}
}

// End is an operator with its surroundings.
type End struct {
	Runtime  *task.Runtime
	Operator task.Operator
}

// Move takes a snapshot of one operator and restores a fresh one from it.
func Move(t testing.TB, from, to End) {
	t.Helper()
	var p tape
	p.take(t, from.Runtime, from.Operator)
	p.give(t, to.Runtime, to.Operator)
}

// PairItem is one step of a script for two inputs: a record of either, or a watermark.
type PairItem[Left, Right any] struct {
	Left      Left
	Right     Right
	IsRight   bool
	At        element.Time
	Watermark bool
}

// ConformPair plays the items and then the end of both inputs, and compares what the operator emits after each with model,
// which is called with the items so far; end says that the input has ended. It does so once as it is, and once with a
// snapshot and a restore into a fresh operator after every item. make makes the stages.
func ConformPair[Left, Right, Out any](t testing.TB, make func() (task.StageOf[Left, Out], task.StageOf[Right, Out]), items []PairItem[Left, Right], model func(done []PairItem[Left, Right], end bool) []Stamped[Out], opts ...cmp.Option) {
	t.Helper()
	for _, restarts := range []string{"", ", restored after every item"} {
		var p *Pair[Left, Right, Out]
		var checkpoints tape
		build := func(wm element.Time) {
			rt := task.NewRuntime(t.Context(), Name)
			rt.State.Checkpoints = restarts != ""
			rt.Watermark = wm
			l, r := make()
			p = NewPair(t, rt, l, r)
		}
		build(element.MinTime)
		for i, it := range items {
			switch {
			case it.Watermark:
				p.Watermark(t, it.At)
			case it.IsRight:
				p.PushRight(t, it.Right, it.At)
			default:
				p.PushLeft(t, it.Left, it.At)
			}
			if err := p.Runtime.TableErr(); err != nil {
				t.Fatalf("the state failed: %v", err)
			}
			compare(t, fmt.Sprintf("item %d (%+v)%s", i, it, restarts), model(items[:i+1], false), p.Out(), opts)
			if restarts != "" {
				checkpoints.take(t, p.Runtime, p.Operator)
				build(p.Runtime.Watermark)
				checkpoints.give(t, p.Runtime, p.Operator)
			}
		}
		p.EndInput(t, 0)
		p.EndInput(t, 1)
		compare(t, "the end"+restarts, model(items, true), p.Out(), opts)
		if err := p.Runtime.Err(); err != nil {
			t.Fatalf("the operator failed: %v", err)
		}
	}
}
