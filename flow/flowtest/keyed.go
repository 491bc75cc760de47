package flowtest

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/worker/operator/operatortest"
	"github.com/sluiceio/sluice/worker/operator/process"
	"github.com/sluiceio/sluice/worker/state/handle"
	"github.com/sluiceio/sluice/worker/task"
)

// Harness drives one KeyedProcessor without a job: records, watermarks and time come from the test, which sees output, state
// and timers after each of them.
//
//	h := flowtest.Keyed(t, Txn.Account, func() *detector { return &detector{limit: 500} })
//	h.Push(txn, at)
//	h.Watermark(at.Add(time.Minute))
//	if got := h.Out(); …
//
// Whatever fails in the operator fails the test. It belongs to the goroutine of the test.
type Harness[K comparable, In, Out any] struct {
	t     testing.TB
	stage task.StageOf[In, Out]
	key   func(In) K
	hash  func(K) uint64
	mem   task.StateMemory
	subs  []*operatortest.Harness[In, Out]
	base  operatortest.Stored // of the checkpoint that the subtasks began with
	now   time.Time
	sides map[string][]any
}

// clockStart is what the clock of a harness shows at first.
var clockStart = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// Keyed makes a harness with one subtask, whose clock shows the beginning of 2026. key is that of KeyBy.
func Keyed[K comparable, In, Out any, P flow.KeyedProcessor[K, In, Out]](t testing.TB, key func(In) K, factory func() P) *Harness[K, In, Out] {
	t.Helper()
	return harness(t, key, func(o process.Options) task.StageOf[In, Out] { return keyedStage(key, factory, o) })
}

// harness makes one of an operator.
func harness[K comparable, In, Out any](t testing.TB, key func(In) K, stage func(process.Options) task.StageOf[In, Out]) *Harness[K, In, Out] {
	t.Helper()
	hash, err := codec.Hasher[K]()
	if err != nil {
		t.Fatal(err)
	}
	h := &Harness[K, In, Out]{t: t, key: key, hash: hash, now: clockStart, sides: map[string][]any{}, mem: operatortest.Memory(t, 0)}
	h.stage = stage(process.Options{Unread: func(side string, v any, _ flow.Time) {
		h.sides[side] = append(h.sides[side], v)
	}})
	h.deploy(1)
	return h
}

// keyedStage is the operator as Process makes it.
func keyedStage[K comparable, In, Out any, P flow.KeyedProcessor[K, In, Out]](key func(In) K, factory func() P, o process.Options) task.StageOf[In, Out] {
	return process.Keyed(key, func(set *process.KeySetup[K, Out]) (func(*process.KeyCtx[K, Out], In) error, error) {
		p := factory()
		if err := p.Open((*flow.Setup[K, Out])(set)); err != nil {
			return nil, err
		}
		return func(c *process.KeyCtx[K, Out], v In) error { return p.Process((*flow.Ctx[K, Out])(c), v) }, nil
	}, o)
}

// deploy replaces the subtasks by others, which begin with the state of base.
func (h *Harness[K, In, Out]) deploy(parallelism int) {
	h.t.Helper()
	for _, s := range h.subs {
		s.Close(h.t)
	}
	h.subs = nil
	for i := range parallelism {
		s, err := operatortest.BuildIn(h.t, operatortest.Subtask(h.t, i, parallelism, h.mem), h.stage)
		if err != nil {
			h.t.Fatal(err)
		}
		s.SetClock(h.now)
		if h.base.Checkpoint > 0 {
			s.Restore(h.t, h.base)
		}
		h.subs = append(h.subs, s)
	}
}

// of is the subtask that has a key.
func (h *Harness[K, In, Out]) of(k K) *operatortest.Harness[In, Out] {
	group := codec.KeyGroup(h.hash(k), h.subs[0].Runtime.MaxParallelism)
	i := slices.IndexFunc(h.subs, func(s *operatortest.Harness[In, Out]) bool { return s.Runtime.KeyGroups.Contains(group) })
	return h.subs[i]
}

// Push hands over a record with its event time.
func (h *Harness[K, In, Out]) Push(v In, at flow.Time) {
	h.t.Helper()
	h.of(h.key(v)).Push(h.t, v, at)
	h.check()
}

// TryPush is Push for a record that may fail.
func (h *Harness[K, In, Out]) TryPush(v In, at flow.Time) error {
	h.t.Helper()
	s := h.of(h.key(v))
	s.Push(h.t, v, at)
	return s.Runtime.Err()
}

func (h *Harness[K, In, Out]) check() {
	h.t.Helper()
	for _, s := range h.subs {
		if err := s.Runtime.Err(); err != nil {
			h.t.Fatal(err)
		}
	}
}

// Watermark says that no record with a time at or below at follows: timers by event time fire.
func (h *Harness[K, In, Out]) Watermark(at flow.Time) {
	h.t.Helper()
	for _, s := range h.subs {
		s.Watermark(h.t, at)
	}
	h.check()
}

// End ends the input: all timers by event time fire, and OnEnd is called.
func (h *Harness[K, In, Out]) End() {
	h.t.Helper()
	for _, s := range h.subs {
		s.End(h.t)
	}
	h.check()
}

// AdvanceClock moves the clock on by d: timers by the clock fire, and values with a time to live expire.
func (h *Harness[K, In, Out]) AdvanceClock(d time.Duration) {
	h.t.Helper()
	h.now = h.now.Add(d)
	for _, s := range h.subs {
		s.Advance(h.t, d)
	}
	h.check()
}

// Now is what the clock shows.
func (h *Harness[K, In, Out]) Now() time.Time { return h.now }

// Out is what was emitted since the last call.
func (h *Harness[K, In, Out]) Out() (vs []Out) {
	for _, e := range h.Stamped() {
		vs = append(vs, e.Value)
	}
	return vs
}

// Stamped is Out with event times.
func (h *Harness[K, In, Out]) Stamped() (all []flow.Stamped[Out]) {
	h.t.Helper()
	for _, s := range h.subs {
		for _, e := range s.Out() {
			all = append(all, flow.Stamped[Out]{Value: e.Value, Time: e.At})
		}
		if what := s.Changed(); what != "" {
			h.t.Fatalf("the operator has changed what it had emitted: %s", what)
		}
	}
	return all
}

// Side is what was emitted to a side output since the last call.
func (h *Harness[K, In, Out]) Side[S any](tag flow.Tag[S]) (vs []S) {
	h.t.Helper()
	for _, v := range h.sides[tag.Name()] {
		s, ok := v.(S)
		if !ok {
			h.t.Fatalf("side output %q has a %T", tag.Name(), v)
		}
		vs = append(vs, s)
	}
	delete(h.sides, tag.Name())
	return vs
}

// inspected is an operator that shows what a key has.
type inspected[K comparable] interface {
	Inspect(k K, name string) any
	Deadlines(k K) []flow.Time
}

func (h *Harness[K, In, Out]) inspect(k K) inspected[K] {
	return h.of(k).Operator.(inspected[K])
}

// Value is a value or reducing state of a key, and whether there is one.
func (h *Harness[K, In, Out]) Value[V any](k K, state string) (v V, ok bool) {
	h.t.Helper()
	switch s := h.inspect(k).Inspect(k, state).(type) {
	case *handle.Value[V]:
		return s.Load()
	case *handle.Reducing[V]:
		return s.Load()
	case nil:
		h.t.Fatalf("there is no state %q", state)
	default:
		h.t.Fatalf("state %q is a %T", state, s)
	}
	return v, false
}

// List is a list state of a key.
func (h *Harness[K, In, Out]) List[V any](k K, state string) []V {
	h.t.Helper()
	s, ok := h.inspect(k).Inspect(k, state).(*handle.List[V])
	if !ok {
		h.t.Fatalf("there is no list %q of this type", state)
	}
	return slices.Collect(s.All())
}

// Map is a map state of a key.
func (h *Harness[K, In, Out]) Map[MK comparable, V any](k K, state string) map[MK]V {
	h.t.Helper()
	s, ok := h.inspect(k).Inspect(k, state).(*handle.Map[MK, V])
	if !ok {
		h.t.Fatalf("there is no map %q of these types", state)
	}
	m := map[MK]V{}
	for k, v := range s.All() {
		m[k] = v
	}
	return m
}

// Timers are the deadlines of a key, of all its timers, the earliest first.
func (h *Harness[K, In, Out]) Timers(k K) []flow.Time { return h.inspect(k).Deadlines(k) }

// StateBytes is the memory of the state.
func (h *Harness[K, In, Out]) StateBytes() (n int64) {
	for _, s := range h.subs {
		n += s.StateBytes()
	}
	return n
}

// Snapshot is the state as a checkpoint would have it now.
func (h *Harness[K, In, Out]) Snapshot() []byte {
	h.t.Helper()
	h.take()
	return encodeSnapshot(h.base)
}

// take makes base the state of now.
func (h *Harness[K, In, Out]) take() {
	h.t.Helper()
	for _, s := range h.subs {
		of := s.Delta(h.t)
		h.base.Checkpoint = of.Checkpoint
		h.base.Chunks = append(slices.Clip(h.base.Chunks), of.Chunks...)
	}
}

// Restore replaces state and timers by those of a snapshot, as after a failure: the watermark begins anew.
func (h *Harness[K, In, Out]) Restore(snapshot []byte) {
	h.t.Helper()
	s, err := decodeSnapshot(snapshot)
	if err != nil {
		h.t.Fatal(err)
	}
	h.base = s
	h.deploy(len(h.subs))
}

// RestoreFile restores a snapshot from a file, such as one that an older release has written.
func (h *Harness[K, In, Out]) RestoreFile(path string) {
	h.t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		h.t.Fatal(err)
	}
	h.Restore(b)
}

// Rescale goes on with another number of subtasks: state and timers are redistributed, as after a checkpoint.
func (h *Harness[K, In, Out]) Rescale(parallelism int) {
	h.t.Helper()
	h.take()
	h.deploy(parallelism)
}
