package timer_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/snapshot/chunk"
	"github.com/sluiceio/sluice/worker/state"
	"github.com/sluiceio/sluice/worker/state/budget"
	"github.com/sluiceio/sluice/worker/state/overflow"
	"github.com/sluiceio/sluice/worker/state/timer"
)

const groups = 3

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func inMemory(t testing.TB) *overflow.Store {
	s := must(overflow.New(overflow.Config{}))
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// fired is a call of an operator.
type fired struct {
	Timer string
	Key   string
	At    element.Time
}

// operator has timers of every kind, and a state beside them.
type operator struct {
	d     *state.Directory[string]
	s     *timer.Service[string]
	count *state.Value[int64]
	idle  *timer.Timer
	late  *timer.Timer
	ticks *timer.Timers
	wait  *timer.Timer // by the clock
	calls []fired
	again func(timer string, at element.Time)
}

func newOperator(st *overflow.Store) *operator {
	opts := state.Options{MaxParallelism: groups, Checkpoints: true}
	if st != nil {
		opts.Overflow, opts.Budget = st, budget.New(1<<40)
	}
	o := &operator{d: must(state.NewDirectory[string](opts)), again: func(string, element.Time) {}}
	o.count = must(state.ValueOf[int64](o.d, "count"))
	o.s = timer.New(o.d)
	call := func(name string) func(element.Time) error {
		return func(at element.Time) error {
			o.calls = append(o.calls, fired{name, o.d.Key(), at})
			o.again(name, at)
			return nil
		}
	}
	o.idle, o.late = must(o.s.Event("idle", call("idle"))), must(o.s.Event("late", call("late")))
	o.ticks = must(o.s.Events("ticks", call("ticks")))
	o.wait = must(o.s.Proc("wait", call("wait")))
	return o
}

func (o *operator) close() error { return errors.Join(o.s.Close(), o.d.Close()) }

// deadline is one of the model.
type deadline struct {
	at  element.Time
	seq int
}

type name struct {
	timer, key string
	at         element.Time // of a set; else 0
}

type model struct {
	deadlines map[name]deadline
	seq       int
}

func (m *model) clone() *model { return &model{maps.Clone(m.deadlines), m.seq} }

func (m *model) set(timer, key string, at element.Time) {
	n := name{timer, key, 0}
	if d, ok := m.deadlines[n]; ok && d.at == at {
		return
	}
	m.seq++
	m.deadlines[n] = deadline{at, m.seq}
}

func (m *model) add(key string, at element.Time) {
	n := name{"ticks", key, at}
	if _, ok := m.deadlines[n]; !ok {
		m.seq++
		m.deadlines[n] = deadline{at, m.seq}
	}
}

// pop takes the first deadline of the clock at or before t.
func (m *model) pop(o *operator, proc bool, t element.Time) (f fired, ok bool) {
	var best name
	less := func(a, b name) bool {
		group := func(k string) int { return codec.KeyGroup(o.d.Hash(k), groups) }
		x, y := m.deadlines[a], m.deadlines[b]
		return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(group(a.key), group(b.key)), cmp.Compare(x.seq, y.seq)) < 0
	}
	for n, d := range m.deadlines {
		if (n.timer == "wait") == proc && d.at <= t && (!ok || less(n, best)) {
			best, ok = n, true
		}
	}
	if ok {
		f = fired{best.timer, best.key, m.deadlines[best].at}
		delete(m.deadlines, best)
	}
	return f, ok
}

type machine struct {
	store  *overflow.Store
	o      *operator
	m      *model
	base   *model
	frozen map[element.CheckpointID]*model
	chunks map[element.CheckpointID][]*chunk.Reader
	chain  []*chunk.Reader
	id     element.CheckpointID
	done   element.CheckpointID
}

func newMachine(s *overflow.Store) *machine {
	return &machine{store: s, o: newOperator(s), m: &model{deadlines: map[name]deadline{}}, base: &model{deadlines: map[name]deadline{}},
		frozen: map[element.CheckpointID]*model{}, chunks: map[element.CheckpointID][]*chunk.Reader{}}
}

func (x *machine) set(t *rapid.T) {
	k := fmt.Sprint("k", rapid.IntRange(0, 11).Draw(t, "key"))
	at := element.Time(rapid.Int64Range(0, 12).Draw(t, "at"))
	x.o.d.Seek(k, x.o.d.Hash(k))
	if rapid.IntRange(0, 5).Draw(t, "count") == 0 {
		*x.o.count.Ref()++
	}
	switch rapid.IntRange(0, 9).Draw(t, "op") {
	case 0, 1:
		x.o.idle.Set(at)
		x.m.set("idle", k, at)
	case 2:
		x.o.idle.Clear()
		delete(x.m.deadlines, name{"idle", k, 0})
	case 3, 4:
		x.o.late.Set(at)
		x.m.set("late", k, at)
	case 5, 6:
		x.o.ticks.Add(at)
		x.m.add(k, at)
	case 7:
		x.o.ticks.Remove(at)
		delete(x.m.deadlines, name{"ticks", k, at})
	case 8:
		x.o.wait.Set(at)
		x.m.set("wait", k, at)
	case 9:
		x.o.ticks.Clear()
		maps.DeleteFunc(x.m.deadlines, func(n name, _ deadline) bool { return n.timer == "ticks" && n.key == k })
	}
	got, ok := x.o.idle.At()
	if d, known := x.m.deadlines[name{"idle", k, 0}]; ok != known || ok && got != d.at {
		t.Fatalf("idle is %v, %v; want %v, %v", got, ok, d.at, known)
	}
}

// advance moves a clock; callbacks set timers again, some of them due at once.
func (x *machine) advance(t *rapid.T) {
	to := element.Time(rapid.Int64Range(-2, 15).Draw(t, "to"))
	proc := rapid.Bool().Draw(t, "proc")
	plan := rapid.SliceOfN(rapid.Int64Range(-4, 6), 0, 5).Draw(t, "again")
	steps := slices.Clone(plan)
	x.o.calls = nil
	x.o.again = func(_ string, at element.Time) {
		if len(steps) > 0 {
			x.o.late.Set(at + element.Time(steps[0]))
			x.o.ticks.Add(at + element.Time(steps[0]))
			steps = steps[1:]
		}
	}
	sweep := x.o.s.AdvanceEvents
	if proc {
		sweep = x.o.s.AdvanceProc
	}
	if err := sweep(to, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	var want []fired
	for f, ok := x.m.pop(x.o, proc, to); ok; f, ok = x.m.pop(x.o, proc, to) {
		want = append(want, f)
		if len(plan) > 0 {
			x.m.set("late", f.Key, f.At+element.Time(plan[0]))
			x.m.add(f.Key, f.At+element.Time(plan[0]))
			plan = plan[1:]
		}
	}
	if d := gocmp.Diff(want, x.o.calls); d != "" {
		t.Fatalf("advanced to %v: %s", to, d)
	}
}

func (x *machine) next(t *rapid.T) {
	at, ok := x.o.s.NextProc()
	for n, d := range x.m.deadlines {
		if n.timer == "wait" && (!ok || d.at < at) {
			t.Fatalf("the next deadline by the clock is %v, %v, although %s waits for %v", at, ok, n.key, d.at)
		}
	}
}

func parts(t interface{ Fatal(...any) }, s *state.Snapshot) (chain []*chunk.Reader) {
	for done := false; !done; {
		var err error
		if done, err = s.Step(7); err != nil {
			t.Fatal(err)
		}
		for p, ok := s.Take(); ok; p, ok = s.Take() {
			var b bytes.Buffer
			must(p.WriteTo(&b))
			chain = append(chain, must(chunk.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))))
		}
	}
	return chain
}

func (x *machine) freeze(t *rapid.T) {
	x.id++
	s := must(x.o.d.Freeze(x.id, state.Delta))
	x.frozen[x.id] = x.m.clone()
	x.chunks[x.id] = parts(t, s)
}

func (x *machine) decide(t *rapid.T) {
	ids := slices.Sorted(maps.Keys(x.frozen))
	if len(ids) == 0 {
		return
	}
	id := rapid.SampledFrom(ids).Draw(t, "id")
	if rapid.Bool().Draw(t, "abort") {
		x.o.d.Aborted(id)
		delete(x.frozen, id)
		delete(x.chunks, id)
		return
	}
	x.o.d.Completed(id)
	x.base, x.done = x.frozen[id], id
	x.chain = append(x.chain, x.chunks[id]...)
	maps.DeleteFunc(x.frozen, func(i element.CheckpointID, _ *model) bool { return i <= id })
	maps.DeleteFunc(x.chunks, func(i element.CheckpointID, _ []*chunk.Reader) bool { return i <= id })
}

func (x *machine) rewind(t *rapid.T) {
	if err := x.o.d.Rewind(x.done); err != nil {
		t.Fatal(err)
	}
	clear(x.frozen)
	clear(x.chunks)
	seq := x.m.seq
	x.m = x.base.clone()
	x.m.seq = seq
}

// crash restores the timers from chunks, in two halves.
func (x *machine) crash(t *rapid.T) {
	if err := x.o.close(); err != nil {
		t.Fatal(err)
	}
	x.o = newOperator(x.store)
	cut := rapid.IntRange(0, groups).Draw(t, "cut")
	for _, part := range [][2]int{{cut, groups}, {0, cut}} {
		if err := x.o.d.Import(t.Context(), x.chain, part[0], part[1]); err != nil {
			t.Fatal(err)
		}
	}
	x.o.d.Restored(x.done)
	clear(x.frozen)
	clear(x.chunks)
	x.m = x.base.clone()
	for _, d := range x.m.deadlines {
		x.m.seq = max(x.m.seq, d.seq)
	}
}

func (x *machine) evict(t *rapid.T) {
	for range rapid.IntRange(1, 10).Draw(t, "units") {
		state.EvictSome(x.o.d, rapid.IntRange(0, 5).Draw(t, "column"), rapid.Uint32Range(0, 20).Draw(t, "id"))
	}
	x.o.s.Spill()
}

func TestTimersEqualTheirModel(t *testing.T) {
	for what, st := range map[string]*overflow.Store{"in memory": nil, "evicting": inMemory(t)} {
		t.Run(what, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				x := newMachine(st)
				all := map[string]func(*rapid.T){"set": x.set, "set2": x.set, "set3": x.set, "advance": x.advance, "freeze": x.freeze, "decide": x.decide,
					"rewind": x.rewind, "crash": x.crash, "": x.next}
				if st != nil {
					all["evict"] = x.evict
				}
				rt.Repeat(all)
				if err := x.o.close(); err != nil {
					rt.Fatal(err)
				}
			})
		})
	}
}

// A timer that every record postpones takes one entry, and one that is cleared and set again does not pile up.
func TestTheIndexDoesNotGrowWithChanges(t *testing.T) {
	o := newOperator(nil)
	const keys = 2000
	for round := range 100 {
		for k := range keys {
			key := fmt.Sprint(k)
			o.d.Seek(key, o.d.Hash(key))
			o.idle.Set(element.Time(1000 + round))
			o.late.Set(element.Time(1_000_000 + round))
			o.late.Clear()
		}
		if err := o.s.AdvanceEvents(element.Time(round), func() error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	for range 300 { // one bucket is cleaned by each
		if err := o.s.AdvanceEvents(100, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if n := o.s.Len(); n > 4*keys {
		t.Errorf("%d entries for %d deadlines", n, keys)
	}
	if err := o.s.AdvanceEvents(element.MaxTime, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if len(o.calls) != keys || o.s.Len() != 0 {
		t.Errorf("%d of %d timers fired, %d entries are left", len(o.calls), keys, o.s.Len())
	}
	for _, f := range o.calls {
		if f.At != 1099 || f.Timer != "idle" {
			t.Fatalf("%+v", f)
		}
	}
}

func TestManyTimersFireInOrder(t *testing.T) {
	for what, st := range map[string]*overflow.Store{"in memory": nil, "spilled": inMemory(t)} {
		o := newOperator(st)
		const keys = 30_000
		for k := range keys {
			key := fmt.Sprint(k)
			o.d.Seek(key, o.d.Hash(key))
			o.idle.Set(element.Time(uint64(k) * 0x9e3779b97f4a7c15 >> 48))
			if k%10_000 == 0 {
				o.s.Spill()
			}
		}
		o.s.Spill()
		stop := errors.New("stop")
		if err := o.s.AdvanceEvents(element.MaxTime, func() error { return stop }); !errors.Is(err, stop) || len(o.calls) != 1 {
			t.Errorf("%s: %d calls after the first one asked to stop: %v", what, len(o.calls), err)
		}
		if err := o.s.AdvanceEvents(element.MaxTime, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		if len(o.calls) != keys || !slices.IsSortedFunc(o.calls, func(a, b fired) int { return cmp.Compare(a.At, b.At) }) {
			t.Errorf("%s: %d calls, or not in order", what, len(o.calls))
		}
		if err := o.close(); err != nil {
			t.Error(err)
		}
	}
}

// Many keys that go from one time to the next together, as sessions of a stored input do in the sweep at its end, make no round.
func TestTimersOfManyKeysMayShareEachOfManyTimes(t *testing.T) {
	const keys, times = 20, 1000
	o := newOperator(nil)
	o.again = func(_ string, at element.Time) {
		if at < times {
			o.idle.Set(at + 1)
		}
	}
	for k := range keys {
		key := fmt.Sprint(k)
		o.d.Seek(key, o.d.Hash(key))
		o.idle.Set(1)
	}
	if err := o.s.AdvanceEvents(element.MaxTime, func() error { return nil }); err != nil || len(o.calls) != keys*times {
		t.Errorf("%d calls: %v", len(o.calls), err)
	}
	if err := o.close(); err != nil {
		t.Error(err)
	}
}

// Zero, the far past and the end of all times are times like any other.
func TestTimersOfAllTimes(t *testing.T) {
	o := newOperator(nil)
	times := []element.Time{element.MinTime, -1, 0, 1, element.MaxTime}
	for i, at := range times {
		key := fmt.Sprint(i)
		o.d.Seek(key, o.d.Hash(key))
		o.idle.Set(at)
		o.ticks.Add(at)
	}
	for i, at := range times {
		o.calls = nil
		if err := o.s.AdvanceEvents(at, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		if len(o.calls) != 2 || o.calls[0].At != at || o.calls[0].Key != fmt.Sprint(i) {
			t.Errorf("at %v: %+v", at, o.calls)
		}
	}
	if at, ok := o.s.NextEvent(); ok {
		t.Errorf("something is left at %v", at)
	}
}

func TestDeclarationsOfTimersAreChecked(t *testing.T) {
	d := must(state.NewDirectory[int](state.Options{MaxParallelism: groups}))
	s := timer.New(d)
	nop := func(element.Time) error { return nil }
	must(s.Event("a", nop))
	var e *state.Error
	if _, err := s.Procs("a", nop); !errors.As(err, &e) || e.Code != state.CodeDeclare {
		t.Errorf("a name twice: %v", err)
	}
	for i := range 255 {
		must(s.Event(fmt.Sprint(i), nop))
	}
	if _, err := s.Event("one too many", nop); err == nil {
		t.Error("257 timers")
	}
}

func TestFailingCallbacksEndTheSweep(t *testing.T) {
	d := must(state.NewDirectory[int](state.Options{MaxParallelism: groups}))
	s := timer.New(d)
	broken := errors.New("broken")
	tm := must(s.Event("a", func(element.Time) error { return broken }))
	d.Seek(1, d.Hash(1))
	tm.Set(1)
	if err := s.AdvanceEvents(1, func() error { return nil }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// Timers that were set before a restore come before those that are set after it.
func TestTheOrderOfSettingOutlivesARestore(t *testing.T) {
	o := newOperator(nil)
	const keys = 40
	set := func(from, to int) {
		for k := from; k < to; k++ {
			key := fmt.Sprint("k", k)
			o.d.Seek(key, o.d.Hash(key))
			o.idle.Set(7)
			o.ticks.Add(7)
		}
	}
	set(0, keys/2)
	chain := parts(t, must(o.d.Freeze(1, state.Delta)))
	o = newOperator(nil)
	if err := o.d.Import(t.Context(), chain, 0, groups); err != nil {
		t.Fatal(err)
	}
	o.d.Restored(1)
	set(keys/2, keys)
	if err := o.s.AdvanceEvents(7, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if len(o.calls) != 2*keys {
		t.Fatalf("%d calls", len(o.calls))
	}
	group := func(f fired) int { return codec.KeyGroup(o.d.Hash(f.Key), groups) }
	late := func(f fired) bool { var k int; must(fmt.Sscanf(f.Key, "k%d", &k)); return k >= keys/2 }
	for i := 1; i < len(o.calls); i++ {
		if a, b := o.calls[i-1], o.calls[i]; group(a) == group(b) && late(a) && !late(b) {
			t.Fatalf("%v fired before %v", a, b)
		}
	}
}

// FuzzBlob: any bytes are refused or read.
func FuzzBlob(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 2, 0, 0, 0, 0, 9})
	f.Fuzz(func(t *testing.T, b []byte) { timer.Decode(b) })
}

func BenchmarkTimers(b *testing.B) {
	for _, keys := range []int{100_000, 1_000_000} {
		open := func() (*state.Directory[int64], *timer.Service[int64], *timer.Timer) {
			d := must(state.NewDirectory[int64](state.Options{MaxParallelism: 256, Checkpoints: true}))
			s := timer.New(d)
			return d, s, must(s.Event("t", func(element.Time) error { return nil }))
		}
		x := uint64(1)
		next := func() uint64 { x = x*6364136223846793005 + 1442695040888963407; return x >> 20 }
		b.Run(fmt.Sprintf("set and fire/keys=%d", keys), func(b *testing.B) {
			d, s, t := open()
			b.ReportAllocs()
			now := element.Time(0)
			for i := 0; b.Loop(); i++ {
				k := int64(next() % uint64(keys))
				d.Seek(k, d.Hash(k))
				t.Set(now + element.Time(next()%1_000_000))
				if i%1000 == 999 {
					now += 1000
					if err := s.AdvanceEvents(now, func() error { return nil }); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(d.Bytes())/float64(max(1, d.Len())), "B/key")
		})
		b.Run(fmt.Sprintf("postpone/keys=%d", keys), func(b *testing.B) {
			d, _, t := open()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				k := int64(next() % uint64(keys))
				d.Seek(k, d.Hash(k))
				t.Set(element.Time(1_000_000 + i))
			}
		})
	}
}

// At the end of the input each deadline that was set before has its turn once, also one that a call moves, and none that is set then.
func TestADeadlineThatIsMovedAtTheEndIsCalledOnce(t *testing.T) {
	for name, to := range map[string]element.Time{"earlier": 15, "to the past": 3, "later": 1000} {
		o := newOperator(nil)
		o.d.Seek("key", o.d.Hash("key"))
		o.idle.Set(10)
		o.late.Set(20)
		o.again = func(timer string, at element.Time) {
			switch timer {
			case "idle":
				o.late.Set(to)
				o.idle.Set(at + 1) // is not called
			case "late":
				o.late.Set(at + 1) // neither
			}
		}
		if err := o.s.FinishEvents(func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		want := []fired{{"idle", "key", 10}, {"late", "key", to}}
		if !slices.Equal(o.calls, want) {
			t.Errorf("moved %s: called %v, want %v", name, o.calls, want)
		}
		if err := o.close(); err != nil {
			t.Error(err)
		}
	}
}
