package join

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/internal/vfs"
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

// play joins what the steps bring, and checks what must never be exceeded or left behind.
func play(t testing.TB, memory int64, s Spec[int64, left, right, result], steps []step) (out []result, counters task.Counters) {
	rt := task.NewRuntime(t.Context(), operatortest.Name)
	area, err := spill.NewArea(spill.Config{FS: vfs.NewMem(), Dir: "spill", Compression: spill.S2})
	if err != nil {
		t.Fatal(err)
	}
	rt.Batch = task.Batch{Memory: memory, Spill: area}
	ls, rs := Stages(s)
	emit := func(r result) {
		r.At = rt.At
		out = append(out, r)
	}
	pushL, op, err := ls(rt, emit)
	if err != nil {
		t.Fatal(err)
	}
	pushR, _, err := rs(rt, emit)
	if err != nil {
		t.Fatal(err)
	}
	largest := int64(0)
	for _, st := range steps {
		switch rt.At = st.at; {
		case st.l != nil:
			largest = max(largest, int64(len(st.l.Text)))
			pushL(*st.l)
		case st.r != nil:
			largest = max(largest, int64(len(st.r.Name)))
			pushR(*st.r)
		default:
			if err := op.(task.InputEnder).OnInputEnd(st.end - 1); err != nil {
				t.Fatal(err)
			}
		}
		if st.end == 0 && rt.At != st.at {
			t.Fatalf("the operator left the event time at %v", rt.At)
		}
	}
	if err := op.OnWatermark(element.MaxTime); err != nil {
		t.Fatal(err)
	}
	if err := rt.Err(); err != nil {
		t.Fatal(err)
	}
	peak, used := op.(peaker).peak()
	if memory > 0 && peak > memory+largest+300 {
		t.Fatalf("%d bytes were taken of %d, the largest record has %d", peak, memory, largest)
	}
	if files := area.Totals().Files; files != 0 {
		t.Errorf("%d files are still open at the end", files)
	}
	_ = used
	if err := op.Close(); err != nil {
		t.Fatal(err)
	}
	return out, rt.Counters
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
		lefts: rapid.IntRange(0, 1500).Draw(t, "left records"), rights: rapid.IntRange(0, 1500).Draw(t, "right records"),
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

func TestKeysWithMoreRecordsThanMemoryOnBothSides(t *testing.T) {
	for _, hot := range []struct{ l, r int }{{0, 90}, {90, 0}, {90, 90}, {100, 100}} {
		for _, kind := range []string{"inner", "full"} {
			t.Run(fmt.Sprintf("%s, %d%% and %d%%", kind, hot.l, hot.r), func(t *testing.T) {
				steps := shape{lefts: 2500, rights: 2500, keys: 3000, text: 400, hotL: hot.l, hotR: hot.r, order: "mixed", seed: 7}.steps()
				got, counters := play(t, 64<<10, spec4(kind, Right), steps)
				same(t, got, nested(kind, steps))
				if counters.Spilled == 0 || counters.SpilledRecords == 0 || counters.SpillDepth == 0 {
					t.Errorf("counters are %+v", counters)
				}
			})
		}
	}
}
