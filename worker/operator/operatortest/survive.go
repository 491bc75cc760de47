package operatortest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/task"
)

// Event is one step of a script for an operator behind a keyed edge: a record, a watermark, or time that passes.
type Event[In any] struct {
	Kind  EventKind
	Value In
	At    element.Time
	Pass  time.Duration
}

// EventKind says what an Event is.
type EventKind uint8

const (
	// Record hands over Value with the time At.
	Record EventKind = iota
	// Mark passes the watermark At.
	Mark
	// Pass moves the clock on.
	Pass
)

// life is what happens to an operator after each step of a script.
type life struct {
	name   string
	memory int64 // bytes; 0: no limit
	// restore: it is replaced by others, with the parallelism that turn says, which restore its snapshot.
	restore bool
	turns   []int
	// rewind: the step is taken back, and done again.
	rewind bool
}

// lives are what an operator has to survive without anybody seeing a difference.
func lives() []life {
	return []life{
		{name: "snapshot and restore after every step", restore: true, turns: []int{1}},
		{name: "another parallelism after every step", restore: true, turns: []int{1, 3, 2, 7}},
		{name: "every step taken back and done again", rewind: true},
		{name: "no memory for state", memory: 1, turns: []int{1}},
		{name: "no memory for state, and another parallelism after every step", memory: 1, restore: true, turns: []int{2, 1}},
	}
}

// Survives plays a script and then the end of the input, and again with snapshot and restore after every step, at a
// changing parallelism, with steps that are taken back, and with no memory for state. Each time what is emitted at each
// step must be the same, in any order. Records are emitted into one slot, and must not be changed afterwards.
func Survives[K comparable, In, Out any](t testing.TB, stage func() task.StageOf[In, Out], key func(In) K, script []Event[In]) {
	t.Helper()
	want := play(t, life{name: "undisturbed", turns: []int{1}}, stage, key, script)
	for _, l := range lives() {
		got := play(t, l, stage, key, script)
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("%s: step %d (%s) emits\n%s\ninstead of\n%s", l.name, i, describe(script, i), got[i], want[i])
			}
		}
	}
}

func describe[In any](script []Event[In], i int) string {
	if i == len(script) {
		return "the end"
	}
	return fmt.Sprintf("%+v", script[i])
}

// fleet is the subtasks of an operator.
type fleet[K comparable, In, Out any] struct {
	stage func() task.StageOf[In, Out]
	key   func(In) K
	hash  func(K) uint64
	subs  []*Harness[In, Out]
	now   time.Time
	mem   task.StateMemory
	base  Stored // what all snapshots have written
}

func (f *fleet[K, In, Out]) deploy(t testing.TB, parallelism int) {
	t.Helper()
	for _, h := range f.subs {
		if err := h.Operator.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
		if err := h.Runtime.CloseTables(); err != nil {
			t.Fatalf("close: %v", err)
		}
	}
	f.subs = nil
	for i := range parallelism {
		h := &Harness[In, Out]{Runtime: Subtask(t, i, parallelism, f.mem), now: f.now}
		h.Runtime.Now = func() time.Time { return h.now }
		var err error
		if h.push, h.Operator, err = f.stage()(h.Runtime, func(v Out) { h.emitted(t, v) }); err != nil {
			t.Fatalf("build: %v", err)
		}
		if f.base.Checkpoint > 0 {
			h.Restore(t, f.base)
		}
		f.subs = append(f.subs, h)
	}
}

func (f *fleet[K, In, Out]) snapshot(t testing.TB) {
	t.Helper()
	for _, h := range f.subs {
		s := h.Delta(t)
		f.base.Checkpoint = s.Checkpoint
		f.base.Chunks = append(f.base.Chunks, s.Chunks...)
	}
}

func (f *fleet[K, In, Out]) step(t testing.TB, e Event[In]) string {
	t.Helper()
	switch e.Kind {
	case Mark:
		for _, h := range f.subs {
			h.Watermark(t, e.At)
		}
	case Pass:
		f.now = f.now.Add(e.Pass)
		for _, h := range f.subs {
			h.Advance(t, e.Pass)
		}
	default:
		h := f.hash(f.key(e.Value))
		group := codec.KeyGroup(h, f.subs[0].Runtime.MaxParallelism)
		i := slices.IndexFunc(f.subs, func(s *Harness[In, Out]) bool { return s.Runtime.KeyGroups.Contains(group) })
		f.subs[i].Push(t, e.Value, e.At)
	}
	return f.out(t)
}

func (f *fleet[K, In, Out]) out(t testing.TB) string {
	t.Helper()
	var lines []string
	for _, h := range f.subs {
		for _, o := range h.Out() {
			lines = append(lines, fmt.Sprintf("%s @%d", text(o.Value), o.At))
		}
		if h.changed != "" {
			t.Fatalf("a record was changed after it was emitted: %s", h.changed)
		}
		if err := h.Runtime.Err(); err != nil {
			t.Fatalf("the operator failed: %v", err)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// play returns what is emitted at each step, and at the end.
func play[K comparable, In, Out any](t testing.TB, l life, stage func() task.StageOf[In, Out], key func(In) K, script []Event[In]) (emitted []string) {
	t.Helper()
	hash, err := codec.Hasher[K]()
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet[K, In, Out]{stage: stage, key: key, hash: hash, now: startOfTime, mem: Memory(t, l.memory)}
	turns := append([]int{}, l.turns...)
	if len(turns) == 0 {
		turns = []int{1}
	}
	f.deploy(t, turns[0])
	for i, e := range script {
		if l.rewind {
			before := f.now
			f.snapshot(t)
			f.step(t, e)
			f.now = before
			for _, h := range f.subs {
				h.SetClock(before)
				h.Rewind(t)
			}
		}
		emitted = append(emitted, f.step(t, e))
		if l.restore {
			f.snapshot(t)
			f.deploy(t, turns[(i+1)%len(turns)])
		}
	}
	for _, h := range f.subs {
		h.End(t)
	}
	emitted = append(emitted, f.out(t))
	f.deploy(t, 0)
	return emitted
}
