package process_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/operator/operatortest"
	"github.com/sluiceio/sluice/worker/operator/process"
	"github.com/sluiceio/sluice/worker/state"
	"github.com/sluiceio/sluice/worker/state/budget"
	"github.com/sluiceio/sluice/worker/state/overflow"
	"github.com/sluiceio/sluice/worker/task"
)

var long = flag.Bool("long", false, "run what takes minutes: ten thousand programs")

type instant = time.Time

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// subtask is one subtask of the operator with its snapshot in the making.
type subtask struct {
	rt    *task.Runtime
	op    task.Operator
	push  task.Push[act]
	snaps []*state.Snapshot // of each table; nil: it is written
	parts [][]byte
}

// checkpoint is what is known of one that is neither completed nor aborted.
type checkpoint struct {
	base  element.CheckpointID
	model *model
	parts [][]byte // when all of it is written
}

// world is an operator with its subtasks and checkpoints, and its model.
type world struct {
	t    testing.TB
	mem  task.StateMemory
	hash func(string) uint64
	subs []*subtask
	out  []string
	now  time.Time
	wm   element.Time
	m    *model

	id, base element.CheckpointID
	writing  element.CheckpointID // 0: none
	frozen   map[element.CheckpointID]*checkpoint
	chains   map[element.CheckpointID][][]byte // of completed checkpoints
	done     *model                            // as of base
}

func newWorld(t testing.TB, mem task.StateMemory) *world {
	hash, err := codec.Hasher[string]()
	if err != nil {
		t.Fatal(err)
	}
	x := &world{t: t, mem: mem, hash: hash, now: time.UnixMicro(1_000_000).UTC(), wm: 100,
		frozen: map[element.CheckpointID]*checkpoint{}, chains: map[element.CheckpointID][][]byte{}}
	x.m = &model{keys: map[string]*memory{}, seq: new(uint64), now: func() int64 { return x.now.UnixMicro() }}
	x.done = x.m.clone()
	return x
}

// deploy replaces all subtasks by others that have the state of the last completed checkpoint.
func (x *world) deploy(t *rapid.T, parallelism int) {
	x.close(t)
	for i := range parallelism {
		x.subs = append(x.subs, x.start(t, i, parallelism))
	}
}

// start makes a subtask with the state of the last completed checkpoint.
func (x *world) start(t *rapid.T, i, parallelism int) *subtask {
	rt := operatortest.Subtask(x.t, i, parallelism, x.mem)
	rt.Now = func() time.Time { return x.now }
	s := &subtask{rt: rt}
	var err error
	stage := process.Keyed(func(a act) string { return a.Key }, openEverything, process.Options{})
	if s.push, s.op, err = stage(rt, func(line string) { x.out = append(x.out, line) }); err != nil {
		t.Fatal(err)
	}
	if x.base > 0 {
		if err := operatortest.Load(x.t, rt, operatortest.Stored{Checkpoint: x.base, Chunks: x.chains[x.base]}); err != nil {
			t.Fatal(err)
		}
		x.restored(t, s)
	}
	return s
}

func (x *world) restored(t *rapid.T, s *subtask) {
	s.rt.Watermark = element.MinTime
	if err := s.op.(task.Restorer).OnRestored(); err != nil {
		t.Fatal(err)
	}
	if err := s.rt.Maintain(); err != nil {
		t.Fatal(err)
	}
}

func (x *world) close(t *rapid.T) {
	for _, s := range x.subs {
		x.stop(t, s)
	}
	x.subs, x.writing = nil, 0
	clear(x.frozen)
}

func (x *world) stop(t *rapid.T, s *subtask) {
	x.giveUp(t, s)
	if err := errors.Join(s.op.Close(), s.rt.CloseTables()); err != nil {
		t.Fatalf("close: %v", err)
	}
}

// giveUp closes the snapshots that are being written.
func (x *world) giveUp(t *rapid.T, s *subtask) {
	for _, snap := range s.snaps {
		if err := snap.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s.snaps, s.parts = nil, nil
}

// compare checks what was emitted; the order of keys does not count.
func (x *world) compare(t *rapid.T, what string, want []string) {
	got := x.out
	x.out = nil
	for _, s := range x.subs {
		if err := errors.Join(s.rt.Err(), s.rt.TableErr()); err != nil {
			t.Fatalf("after %s: %v", what, err)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("after %s it emits\n%q\nand not\n%q", what, got, want)
	}
}

func (x *world) perform(t *rapid.T, a act, at element.Time) {
	group := codec.KeyGroup(x.hash(a.Key), x.subs[0].rt.MaxParallelism)
	i := slices.IndexFunc(x.subs, func(s *subtask) bool { return s.rt.KeyGroups.Contains(group) })
	x.subs[i].rt.At = at
	x.subs[i].push(a)
	x.compare(t, fmt.Sprintf("%+v at %d", a, at), x.m.do(a, at))
}

func drawKey(t *rapid.T) string { return fmt.Sprint("k", rapid.IntRange(0, 7).Draw(t, "key")) }

// records performs some operations, and looks at their keys.
func (x *world) records(t *rapid.T) {
	for range rapid.IntRange(1, 6).Draw(t, "records") {
		a := act{Key: drawKey(t), Op: operation(rapid.IntRange(0, int(operations)-1).Draw(t, "op")), N: rapid.Int64Range(0, 1000).Draw(t, "n")}
		x.perform(t, a, x.wm+element.Time(rapid.Int64Range(-3, 20).Draw(t, "ahead")))
		if rapid.Bool().Draw(t, "look") {
			x.perform(t, act{Key: a.Key, Op: look}, x.wm)
		}
	}
}

// lookAtAll looks at every key.
func (x *world) lookAtAll(t *rapid.T) {
	for k := range 8 {
		x.perform(t, act{Key: fmt.Sprint("k", k), Op: look}, x.wm)
	}
}

func (x *world) mark(t *rapid.T) {
	x.wm += element.Time(rapid.Int64Range(1, 15).Draw(t, "watermark"))
	x.advance(t, x.wm)
}

func (x *world) advance(t *rapid.T, w element.Time) {
	for _, s := range x.subs {
		s.rt.Watermark = w
		if err := s.op.OnWatermark(w); err != nil {
			t.Fatal(err)
		}
	}
	x.compare(t, fmt.Sprint("watermark ", w), x.m.watermark(w))
}

func (x *world) pass(t *rapid.T) {
	step := rapid.Int64Range(0, 15).Draw(t, "time")
	if rapid.IntRange(0, 7).Draw(t, "long") == 0 {
		step += 1000 // what a timer by the clock sets is a millisecond ahead
	}
	x.now = x.now.Add(micros(step))
	for _, s := range x.subs {
		if err := s.rt.Maintain(); err != nil {
			t.Fatal(err)
		}
		if s.rt.Due(x.now) {
			if err := s.op.(task.Waker).OnTime(x.now); err != nil {
				t.Fatal(err)
			}
		}
	}
	x.compare(t, fmt.Sprint("time ", x.now.UnixMicro()), x.m.clock())
}

// freeze is a barrier, unless a snapshot is being written.
func (x *world) freeze(t *rapid.T) {
	if x.writing > 0 {
		return
	}
	x.id++
	c, extent := &checkpoint{base: x.base, model: x.m.clone()}, state.Delta
	if x.mem.Overflow == nil && rapid.IntRange(0, 2).Draw(t, "full") == 0 { // what has evicted something may answer with a delta
		extent, c.base = state.Full, 0
	}
	for _, s := range x.subs {
		if err := s.op.OnBarrier(x.id); err != nil {
			t.Fatal(err)
		}
		for _, table := range s.rt.Tables() {
			snap, err := table.Freeze(x.id, extent)
			if err != nil {
				t.Fatal(err)
			}
			if snap.Base() != x.base || snap.Extent() != extent {
				t.Fatalf("the snapshot starts from %d with extent %v; completed is %d, asked for was %v", snap.Base(), snap.Extent(), x.base, extent)
			}
			s.snaps = append(s.snaps, snap)
		}
	}
	x.frozen[x.id], x.writing = c, x.id
}

// step writes a little of every snapshot.
func (x *world) step(t *rapid.T) {
	if x.writing == 0 {
		return
	}
	left := 0
	for _, s := range x.subs {
		rest := s.snaps[:0]
		for _, snap := range s.snaps {
			done, err := snap.Step(rapid.IntRange(1, 20).Draw(t, "units"))
			if err != nil {
				t.Fatal(err)
			}
			x.take(t, s, snap)
			if !done {
				rest = append(rest, snap)
				continue
			}
			if err := snap.Close(); err != nil {
				t.Fatal(err)
			}
		}
		s.snaps = rest
		left += len(rest)
	}
	if left > 0 {
		return
	}
	c := x.frozen[x.writing]
	c.parts = [][]byte{}
	for _, s := range x.subs {
		c.parts = append(c.parts, s.parts...)
		s.snaps, s.parts = nil, nil
	}
	x.writing = 0
}

func (x *world) take(t *rapid.T, s *subtask, snap *state.Snapshot) {
	for p, ok := snap.Take(); ok; p, ok = snap.Take() {
		var b bytes.Buffer
		_, err := p.WriteTo(&b)
		if err := errors.Join(err, p.Release()); err != nil {
			t.Fatal(err)
		}
		s.parts = append(s.parts, b.Bytes())
	}
}

// complete completes one that is written, not always the newest.
func (x *world) complete(t *rapid.T) {
	var ids []element.CheckpointID
	for id, c := range x.frozen {
		if c.parts != nil {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return
	}
	slices.Sort(ids)
	id := rapid.SampledFrom(ids).Draw(t, "completed")
	c := x.frozen[id]
	x.chains[id] = append(slices.Clone(x.chains[c.base]), c.parts...)
	for _, s := range x.subs {
		for _, table := range s.rt.Tables() {
			table.Completed(id)
		}
	}
	x.base, x.done = id, c.model
	if x.writing > 0 && x.writing <= id {
		t.Fatalf("%d is written before %d", id, x.writing)
	}
	maps.DeleteFunc(x.frozen, func(other element.CheckpointID, _ *checkpoint) bool { return other <= id })
}

// checkpoint takes a whole one, with records while it is written.
func (x *world) checkpoint(t *rapid.T) {
	x.freeze(t)
	for x.writing > 0 {
		x.records(t)
		x.step(t)
	}
	x.complete(t)
}

func (x *world) abort(t *rapid.T) {
	ids := slices.Sorted(maps.Keys(x.frozen))
	if len(ids) == 0 {
		return
	}
	id := rapid.SampledFrom(ids).Draw(t, "aborted")
	for _, s := range x.subs {
		if id == x.writing {
			x.giveUp(t, s)
		}
		for _, table := range s.rt.Tables() {
			table.Aborted(id)
		}
	}
	if id == x.writing {
		x.writing = 0
	}
	delete(x.frozen, id)
}

// fail is a failure: survivors go back in place to the last completed checkpoint, the others are replaced.
func (x *world) fail(t *rapid.T) {
	for i, s := range x.subs {
		if rapid.Bool().Draw(t, "survives") {
			x.giveUp(t, s)
			for _, table := range s.rt.Tables() {
				if err := table.Rewind(x.base); err != nil {
					t.Fatal(err)
				}
			}
			x.restored(t, s)
			continue
		}
		x.stop(t, s)
		x.subs[i] = x.start(t, i, len(x.subs))
	}
	x.back(t)
}

// rescale restores the last completed checkpoint at another parallelism.
func (x *world) rescale(t *rapid.T) {
	x.deploy(t, rapid.IntRange(1, 4).Draw(t, "parallelism"))
	x.back(t)
}

// back sets the model back to the last completed checkpoint.
func (x *world) back(t *rapid.T) {
	x.m, x.writing = x.done.clone(), 0
	clear(x.frozen)
	if rapid.Bool().Draw(t, "look") {
		x.lookAtAll(t)
	}
}

// evict moves units out of memory, whichever.
func (x *world) evict(t *rapid.T) {
	if x.mem.Overflow == nil {
		return
	}
	for range rapid.IntRange(1, 30).Draw(t, "units") {
		s := rapid.SampledFrom(x.subs).Draw(t, "subtask")
		state.EvictSome(s.rt.Tables()[0], rapid.IntRange(0, 12).Draw(t, "state"), rapid.Uint32Range(0, 10).Draw(t, "id"))
	}
	x.compare(t, "eviction", nil)
}

func (x *world) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"records": x.records, "records2": x.records, "records3": x.records, "mark": x.mark, "mark2": x.mark, "pass": x.pass,
		"freeze": x.freeze, "step": x.step, "step2": x.step, "complete": x.complete, "checkpoint": x.checkpoint, "abort": x.abort,
		"fail": x.fail, "rescale": x.rescale, "evict": x.evict, "evict2": x.evict, "look": x.lookAtAll,
	}
}

// programsPerStore bounds what closed tables leave in an overflow that nobody cleans.
const programsPerStore = 100

func TestRandomProgramsOfStateAndTimersEqualTheirModel(t *testing.T) {
	programs := 300
	if *long {
		programs = 10_000
	}
	checks := func(n string) {
		if err := flag.Set("rapid.checks", n); err != nil {
			t.Fatal(err)
		}
	}
	defer checks(flag.Lookup("rapid.checks").Value.String())
	checks(fmt.Sprint(programsPerStore))
	actions := 0
	for range programs / programsPerStore {
		store, err := overflow.New(overflow.Config{})
		if err != nil {
			t.Fatal(err)
		}
		rapid.Check(t, func(rt *rapid.T) { actions += program(t, rt, store) })
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d programs: %d actions", programs, actions)
	if actions < programs*5 {
		t.Errorf("only %d actions in %d programs", actions, programs)
	}
}

// program plays one, and returns the number of its actions.
func program(t *testing.T, rt *rapid.T, store *overflow.Store) (n int) {
	mem := task.StateMemory{Checkpoints: true}
	if bytes := rapid.SampledFrom([]int64{0, 1, 16 << 10, 1 << 40}).Draw(rt, "memory"); bytes > 0 {
		mem.Budget, mem.Overflow = budget.New(bytes), store
	}
	x := newWorld(t, mem)
	defer x.close(rt)
	x.deploy(rt, rapid.IntRange(1, 3).Draw(rt, "parallelism"))
	all := x.actions()
	all[""] = func(*rapid.T) { n++ }
	rt.Repeat(all)
	x.lookAtAll(rt)
	x.advance(rt, element.MaxTime)
	x.lookAtAll(rt)
	return n
}
