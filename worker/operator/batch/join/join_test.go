package join

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/worker/operator/batch"
	"github.com/sluiceio/sluice/worker/operator/operatortest"
	"github.com/sluiceio/sluice/worker/spill"
	"github.com/sluiceio/sluice/worker/task"
)

type left struct {
	Key  int64
	Seq  int64
	Text string
	F    float64
}

type right struct {
	Seq  int64
	Name string
	Key  int64
}

// result names the partners; -1 is nobody.
type result struct {
	L, R int64
	At   element.Time
}

// step is one record of either side, or the end of one.
type step struct {
	l   *left
	r   *right
	at  element.Time
	end int // 1: of the left side, 2: of the right side
}

func spec4(kind string, build Side) Spec[int64, left, right, result] {
	s := Spec[int64, left, right, result]{
		LeftKey: func(l left) int64 { return l.Key }, RightKey: func(r right) int64 { return r.Key },
		Match: func(l left, r right, emit func(result)) { emit(result{l.Seq, r.Seq, 0}) },
		Build: build,
	}
	if kind != "inner" {
		s.LeftOnly = func(l left, emit func(result)) { emit(result{l.Seq, -1, 0}) }
	}
	if kind == "full" {
		s.RightOnly = func(r right, emit func(result)) { emit(result{-1, r.Seq, 0}) }
	}
	return s
}

type peaker interface{ peak() (peak, used int64) }

func (o *operator[K, B, P, Out]) peak() (int64, int64) { return o.mem.Peak(), o.mem.Used() }

// machine is a join without a loop.
type machine struct {
	rt    *task.Runtime
	area  *spill.Area
	op    task.Operator
	left  task.Push[left]
	right task.Push[right]
	out   []result
}

func newMachine(t testing.TB, fsys vfs.FS, memory int64, s Spec[int64, left, right, result]) *machine {
	m := &machine{rt: task.NewRuntime(t.Context(), operatortest.Name)}
	var err error
	if m.area, err = spill.NewArea(spill.Config{FS: fsys, Dir: "spill", Compression: spill.S2}); err != nil {
		t.Fatal(err)
	}
	m.rt.Batch = task.Batch{Memory: memory, Spill: m.area}
	emit := func(r result) {
		r.At = m.rt.At
		m.out = append(m.out, r)
	}
	ls, rs := Stages(s)
	if m.left, m.op, err = ls(m.rt, emit); err != nil {
		t.Fatal(err)
	}
	if m.right, _, err = rs(m.rt, emit); err != nil {
		t.Fatal(err)
	}
	return m
}

// step plays one step.
func (m *machine) step(t testing.TB, st step) {
	switch m.rt.At = st.at; {
	case st.l != nil:
		m.left(*st.l)
	case st.r != nil:
		m.right(*st.r)
	default:
		if err := m.op.(task.InputEnder).OnInputEnd(st.end - 1); err != nil {
			t.Fatal(err)
		}
	}
	if st.end == 0 && m.rt.At != st.at {
		t.Fatalf("the operator left the event time at %v", m.rt.At)
	}
}

// collide makes few hashes of all keys.
func (m *machine) collide(hashes int64) {
	hash := func(k int64) uint64 { return uint64(k % hashes) }
	switch o := m.op.(type) {
	case *operator[int64, right, left, result]:
		o.hash = hash
	case *operator[int64, left, right, result]:
		o.hash = hash
	}
}

// end ends both inputs, and checks what must never be exceeded or left behind. A record in memory takes its row and its
// strings, allocated in whole units.
func (m *machine) end(t testing.TB, largest int64) {
	t.Helper()
	if err := m.op.OnWatermark(element.MaxTime); err != nil {
		t.Fatal(err)
	}
	if err := m.rt.Err(); err != nil {
		t.Fatal(err)
	}
	peak, _ := m.op.(peaker).peak()
	if memory := m.rt.Batch.Memory; memory > 0 && peak > memory+largest+200 {
		t.Fatalf("%d bytes were taken of %d, the largest record has %d", peak, memory, largest)
	}
	if files := m.area.Totals().Files; files != 0 {
		t.Errorf("%d files are still open at the end", files)
	}
	if err := m.op.Close(); err != nil {
		t.Fatal(err)
	}
}

// play joins what the steps bring.
func play(t testing.TB, memory int64, s Spec[int64, left, right, result], steps []step, change ...func(*machine)) ([]result, task.Counters) {
	m := newMachine(t, vfs.NewMem(), memory, s)
	for _, f := range change {
		f(m)
	}
	largest := 0
	for _, st := range steps {
		if st.l != nil {
			largest = max(largest, len(st.l.Text))
		}
		if st.r != nil {
			largest = max(largest, len(st.r.Name))
		}
		m.step(t, st)
	}
	m.end(t, int64(largest))
	return m.out, m.rt.Counters
}

// nested is the join as a child would do it.
func nested(kind string, steps []step) []result {
	var out []result
	byKey := map[int64][]step{}
	met := map[int64]bool{}
	for _, st := range steps {
		if st.r != nil {
			byKey[st.r.Key] = append(byKey[st.r.Key], st)
		}
	}
	for _, st := range steps {
		if st.l == nil {
			continue
		}
		for _, b := range byKey[st.l.Key] {
			out = append(out, result{st.l.Seq, b.r.Seq, max(st.at, b.at)})
		}
		met[st.l.Key] = true
		if len(byKey[st.l.Key]) == 0 && kind != "inner" {
			out = append(out, result{st.l.Seq, -1, st.at})
		}
	}
	for _, st := range steps {
		if st.r != nil && !met[st.r.Key] && kind == "full" {
			out = append(out, result{-1, st.r.Seq, st.at})
		}
	}
	return out
}

func order(a, b result) int {
	return cmp.Or(cmp.Compare(a.L, b.L), cmp.Compare(a.R, b.R), cmp.Compare(a.At, b.At))
}

func same(t testing.TB, got, want []result) {
	t.Helper()
	slices.SortFunc(got, order)
	slices.SortFunc(want, order)
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("result %d of %d is %v, want %v of %d", i, len(got), got[i], want[i], len(want))
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d results, want %d", len(got), len(want))
	}
}

type shape struct {
	lefts, rights int
	keys, text    int
	hotL, hotR    int // of 100 records have key 0
	order         string
	seed          uint64
}

func drawShape(t *rapid.T) shape {
	return shape{
		lefts: rapid.SampledFrom([]int{0, 1, 20, 1500}).Draw(t, "left records"), rights: rapid.SampledFrom([]int{0, 1, 20, 1500}).Draw(t, "right records"),
		keys: rapid.SampledFrom([]int{30, 500, 100_000}).Draw(t, "keys"), text: rapid.SampledFrom([]int{0, 40, 500, 2000}).Draw(t, "text"),
		hotL: rapid.SampledFrom([]int{0, 0, 5, 30}).Draw(t, "hot left"), hotR: rapid.SampledFrom([]int{0, 0, 5, 30}).Draw(t, "hot right"),
		order: rapid.SampledFrom([]string{"build first", "probe first", "mixed"}).Draw(t, "order"),
		seed:  rapid.Uint64().Draw(t, "seed"),
	}
}

func (s *shape) next() int {
	s.seed = s.seed*6364136223846793005 + 1442695040888963407
	return int(s.seed >> 33)
}

func (s *shape) key(hot int) int64 {
	if s.next()%100 < hot {
		return 0
	}
	return int64(s.next() % s.keys)
}

// steps plays the shape. The build side is right.
func (s shape) steps() []step {
	var ls, rs []step
	for i := range s.lefts {
		ls = append(ls, step{l: &left{Key: s.key(s.hotL), Seq: int64(i), Text: strings.Repeat("t", s.next()%(s.text+1))}, at: element.Time(s.next() % 1000)})
	}
	for i := range s.rights {
		rs = append(rs, step{r: &right{Key: s.key(s.hotR), Seq: int64(i), Name: strings.Repeat("n", s.next()%(s.text+1))}, at: element.Time(s.next() % 1000)})
	}
	ls, rs = append(ls, step{end: 1}), append(rs, step{end: 2})
	switch s.order {
	case "build first":
		return append(rs, ls...)
	case "probe first":
		return append(ls, rs...)
	}
	var out []step
	for len(ls) > 0 && len(rs) > 0 {
		if s.next()%2 == 0 {
			out, ls = append(out, ls[0]), ls[1:]
		} else {
			out, rs = append(out, rs[0]), rs[1:]
		}
	}
	return append(append(out, ls...), rs...)
}

func TestJoinIsTheNestedLoopInAnyMemory(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := drawShape(rt)
		kind := rapid.SampledFrom([]string{"inner", "left", "full"}).Draw(rt, "kind")
		build := rapid.SampledFrom([]Side{Left, Right}).Draw(rt, "build")
		memory := rapid.SampledFrom([]int64{0, 64 << 10, 100 << 10, 300 << 10}).Draw(rt, "memory")
		steps := s.steps()
		got, _ := play(t, memory, spec4(kind, build), steps)
		same(t, got, nested(kind, steps))
	})
}

// TestKeysThatShareAHashAreToldApart joins where the hash does not help: partitions never shrink, and groups have many keys.
func TestKeysThatShareAHashAreToldApart(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := drawShape(rt)
		s.keys, s.lefts, s.rights = rapid.SampledFrom([]int{5, 40}).Draw(rt, "few keys"), s.lefts/3, s.rights/3
		kind := rapid.SampledFrom([]string{"inner", "left", "full"}).Draw(rt, "kind")
		hashes := rapid.SampledFrom([]int64{1, 3}).Draw(rt, "hashes")
		memory := rapid.SampledFrom([]int64{0, 64 << 10}).Draw(rt, "memory")
		steps := s.steps()
		if s.order == "probe first" && s.text == 2000 { // keys that one side lacks
			steps = slices.DeleteFunc(steps, func(st step) bool { return st.r != nil && st.r.Key%2 == 0 || st.l != nil && st.l.Key%3 == 0 })
		}
		got, _ := play(t, memory, spec4(kind, Right), steps, func(m *machine) { m.collide(hashes) })
		same(t, got, nested(kind, steps))
	})
}

// TestRecordsLargerThanTheMemory joins records of which not one fits.
func TestRecordsLargerThanTheMemory(t *testing.T) {
	for _, kind := range []string{"inner", "full"} {
		for _, build := range []Side{Left, Right} {
			for _, order := range []string{"build first", "probe first", "mixed"} {
				steps := shape{lefts: 30, rights: 30, keys: 8, text: 90_000, hotL: 20, hotR: 20, order: order, seed: 3}.steps()
				got, _ := play(t, 64<<10, spec4(kind, build), steps)
				same(t, got, nested(kind, steps))
				got, _ = play(t, 64<<10, spec4(kind, build), steps, func(m *machine) { m.collide(2) })
				same(t, got, nested(kind, steps))
			}
		}
	}
}

// TestResultsComeInTheSameOrderAgain protects what a re-run promises: the same bytes.
func TestResultsComeInTheSameOrderAgain(t *testing.T) {
	for _, memory := range []int64{0, 64 << 10} {
		steps := shape{lefts: 2000, rights: 2000, keys: 800, text: 100, hotL: 10, hotR: 10, order: "mixed", seed: 5}.steps()
		a, counters := play(t, memory, spec4("full", Right), steps)
		b, again := play(t, memory, spec4("full", Right), steps)
		if !slices.Equal(a, b) || counters.SpilledRecords != again.SpilledRecords {
			t.Errorf("memory %d: two runs differ", memory)
		}
	}
}

func TestAJoinThatPanicsLeavesNothing(t *testing.T) {
	for _, at := range []int64{100, 900} { // while probing, and at the end
		s := spec4("inner", Right)
		s.Match = func(l left, _ right, _ func(result)) {
			if l.Seq == at {
				panic("broken")
			}
		}
		m := newMachine(t, vfs.NewMem(), 64<<10, s)
		panicked := func() (v any) {
			defer func() { v = recover() }()
			for _, st := range (shape{lefts: 1000, rights: 1000, keys: 100, text: 200, order: "build first", seed: 1}).steps() {
				m.step(t, st)
			}
			return m.op.OnWatermark(element.MaxTime)
		}()
		if panicked != "broken" {
			t.Fatalf("got %v", panicked)
		}
		if err := m.op.Close(); err != nil || m.area.Totals().Files != 0 {
			t.Errorf("closed with %v, %d files are open", err, m.area.Totals().Files)
		}
		if err := m.op.Close(); err != nil {
			t.Errorf("closed again with %v", err)
		}
	}
}

func TestAJoinStopsWhenTheAttemptDoes(t *testing.T) {
	broken := errors.New("broken behind the operator")
	for name, steps := range map[string][]step{
		"a list of partners": shape{lefts: 2, rights: 5000, keys: 1, order: "build first"}.steps(),
		"early records":      shape{lefts: 5000, rights: 2, keys: 1, order: "probe first"}.steps(),
		"spilled pairs":      shape{lefts: 5000, rights: 5000, keys: 5000, text: 50, order: "build first"}.steps(),
		"a hot key":          shape{lefts: 3000, rights: 3000, keys: 1, text: 100, order: "build first"}.steps(),
		"no partners":        shape{lefts: 1, rights: 5000, keys: 5000, order: "build first"}.steps(),
	} {
		emitted, stopped := 0, 0
		var m *machine
		s := spec4("full", Right)
		s.Match = func(left, right, func(result)) {
			if emitted++; emitted == 1 {
				m.rt.Fail(broken)
			} else {
				stopped++
			}
		}
		s.RightOnly = func(right, func(result)) { s.Match(left{}, right{}, nil) }
		m = newMachine(t, vfs.NewMem(), 64<<10, s)
		var err error
		for _, st := range steps {
			if st.end > 0 {
				if e := m.op.(task.InputEnder).OnInputEnd(st.end - 1); e != nil && err == nil {
					err = e
				}
				continue
			}
			m.step(t, st)
		}
		if e := m.op.OnWatermark(element.MaxTime); e != nil && err == nil {
			err = e
		}
		if emitted == 0 || stopped > 2*lookUpEvery && name != "spilled pairs" {
			t.Errorf("%s: emitted %d times after the failure", name, stopped)
		}
		if err := m.op.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestTooLittleMemoryIsSaidAtOnce(t *testing.T) {
	rt := task.NewRuntime(t.Context(), operatortest.Name)
	area, err := spill.NewArea(spill.Config{FS: vfs.NewMem(), Dir: "spill"})
	if err != nil {
		t.Fatal(err)
	}
	rt.Batch = task.Batch{Memory: batch.MinMemory - 1, Spill: area}
	ls, _ := Stages(spec4("inner", Right))
	_, _, err = ls(rt, func(result) {})
	if e, ok := errors.AsType[*spill.Error](err); !ok || e.Code != spill.CodeBudget || !e.Fatal || !strings.Contains(e.Error(), operatortest.Name) {
		t.Errorf("error is %v", err)
	}
}

// TestADiskThatFillsUpFailsTheAttempt fails the n-th write, for every n until there is none.
func TestADiskThatFillsUpFailsTheAttempt(t *testing.T) {
	steps := shape{lefts: 600, rights: 600, keys: 50, text: 300, hotL: 50, hotR: 50, order: "mixed", seed: 9}.steps()
	for n := 0; ; n += 7 {
		writes := 0
		m := newMachine(t, vfs.WithFaults(vfs.NewMem(), func(op vfs.Operation, _ string) vfs.Fault {
			if op == vfs.OpWrite {
				if writes++; writes > n {
					return vfs.Fault{Err: syscall.ENOSPC, Outcome: vfs.Half}
				}
			}
			return vfs.Fault{}
		}), 64<<10, spec4("full", Right))
		var err error
		for _, st := range steps {
			if st.end == 0 {
				m.step(t, st)
			} else if e := m.op.(task.InputEnder).OnInputEnd(st.end - 1); e != nil && err == nil {
				err = e
			}
		}
		if e := m.op.OnWatermark(element.MaxTime); e != nil && err == nil {
			err = e
		}
		if e := m.rt.Err(); e != nil {
			err = e
		}
		if closed := m.op.Close(); closed != nil || m.area.Totals().Files != 0 {
			t.Fatalf("closed with %v, %d files are open", closed, m.area.Totals().Files)
		}
		if writes <= n {
			if n == 0 || err != nil {
				t.Fatalf("%d writes, error %v", writes, err)
			}
			return
		}
		if e, ok := errors.AsType[*spill.Error](err); !ok || e.Code != spill.CodeSpace || e.Fatal {
			t.Fatalf("write %d fails with %v", n, err)
		}
	}
}

func TestAJoinAllocatesNothingPerRecordInMemory(t *testing.T) {
	m := newMachine(t, vfs.NewMem(), 0, spec4("left", Right))
	for k := range int64(1000) {
		m.right(right{Key: k, Seq: k})
	}
	if err := m.op.(task.InputEnder).OnInputEnd(1); err != nil {
		t.Fatal(err)
	}
	i := int64(0)
	n := testing.AllocsPerRun(1000, func() {
		m.left(left{Key: i % 1200, Seq: i})
		m.out = m.out[:0]
		i++
	})
	if n != 0 {
		t.Errorf("%v allocations per record", n)
	}
	if err := m.op.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestKeysWithMoreRecordsThanMemoryOnBothSides(t *testing.T) {
	for _, hot := range []struct{ l, r int }{{0, 90}, {90, 0}, {90, 90}, {100, 100}} {
		for _, kind := range []string{"inner", "full"} {
			t.Run(fmt.Sprintf("%s, %d%% and %d%%", kind, hot.l, hot.r), func(t *testing.T) {
				steps := shape{lefts: 450, rights: 450, keys: 500, text: 2000, hotL: hot.l, hotR: hot.r, order: "mixed", seed: 7}.steps()
				got, counters := play(t, 64<<10, spec4(kind, Right), steps)
				same(t, got, nested(kind, steps))
				if counters.Spilled == 0 || counters.SpilledRecords == 0 || counters.SpillDepth == 0 {
					t.Errorf("counters are %+v", counters)
				}
			})
		}
	}
}

func TestAJoinStopsReadingWhenTheAttemptDoes(t *testing.T) {
	steps := shape{lefts: 2500, rights: 2500, keys: 1, text: 200, order: "build first"}.steps()
	operatortest.StopsReading(t, watched(t), 2000, func(rt *task.Runtime) error {
		s := spec4("inner", Right)
		s.Match = func(left, right, func(result)) {}
		ls, rs := Stages(s)
		pushLeft, op, err := ls(rt, func(result) {})
		if err != nil {
			return err
		}
		pushRight, _, err := rs(rt, func(result) {})
		for _, st := range steps {
			switch {
			case st.l != nil:
				pushLeft(*st.l)
			case st.r != nil:
				pushRight(*st.r)
			default:
				err = errors.Join(err, op.(task.InputEnder).OnInputEnd(st.end-1))
			}
		}
		return errors.Join(err, op.OnWatermark(element.MaxTime), rt.Err(), op.Close())
	})
}

// watched is a place on the disk that tells of each read.
func watched(t *testing.T) func(onRead func()) *spill.Area {
	return func(onRead func()) *spill.Area {
		area, err := spill.NewArea(spill.Config{FS: vfs.WithFaults(vfs.NewMem(), func(op vfs.Operation, _ string) vfs.Fault {
			if op == vfs.OpRead {
				onRead()
			}
			return vfs.Fault{}
		}), Dir: "spill"})
		if err != nil {
			t.Fatal(err)
		}
		return area
	}
}
