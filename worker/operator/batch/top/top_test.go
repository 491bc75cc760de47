package top

import (
	"cmp"
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

type score struct {
	Player int64
	Points int64
	Seq    int64
	Note   string
}

func better(a, b score) int { return cmp.Compare(b.Points, a.Points) }

func player(s score) int64 { return s.Player }

func run(t testing.TB, memory int64, stage task.StageOf[score, score], in []score) (out []score, counters task.Counters) {
	rt := task.NewRuntime(t.Context(), operatortest.Name)
	area, err := spill.NewArea(spill.Config{FS: vfs.NewMem(), Dir: "spill", Compression: spill.S2})
	if err != nil {
		t.Fatal(err)
	}
	rt.Batch = task.Batch{Memory: memory, Spill: area}
	h, err := operatortest.BuildIn(t, rt, stage)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range in {
		h.Push(t, s, element.Time(s.Seq*2))
	}
	h.End(t)
	if err := rt.Err(); err != nil {
		t.Fatal(err)
	}
	for _, o := range h.Out() {
		if o.At != element.Time(o.Value.Seq*2) {
			t.Fatalf("%v was emitted with another time", o)
		}
		out = append(out, o.Value)
	}
	if files := area.Totals().Files; files != 0 {
		t.Errorf("%d files are still open at the end", files)
	}
	return out, rt.Counters
}

func draw(t *rapid.T) []score {
	players, points := rapid.SampledFrom([]int{1, 10, 3000}).Draw(t, "players"), rapid.SampledFrom([]int{1, 10, 100_000}).Draw(t, "points")
	note := rapid.SampledFrom([]int{0, 200}).Draw(t, "note")
	seed := rapid.Uint64().Draw(t, "seed")
	next := func() int {
		seed = seed*6364136223846793005 + 1442695040888963407
		return int(seed >> 33)
	}
	in := make([]score, rapid.SampledFrom([]int{0, 1, 3, 100, 1000, 4000}).Draw(t, "records"))
	for i := range in {
		in[i] = score{int64(next() % players), int64(next() % points), int64(i), strings.Repeat("n", next()%(note+1))}
	}
	return in
}

func TestTopNIsThatOfASortInAnyMemory(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		in, n := draw(rt), rapid.SampledFrom([]int{1, 3, 40}).Draw(rt, "n")
		memory := rapid.SampledFrom([]int64{0, 64 << 10, 120 << 10}).Draw(rt, "memory")
		s := Spec[score]{N: n, Compare: better}

		want := slices.Clone(in)
		slices.SortStableFunc(want, better)
		overall, _ := run(t, memory, Overall(s), in)
		compare(t, overall, want[:min(n, len(want))])

		perKey, _ := run(t, memory, PerKey(player, s), in)
		slices.SortStableFunc(perKey, func(a, b score) int { return cmp.Compare(a.Player, b.Player) })
		slices.SortStableFunc(want, func(a, b score) int { return cmp.Compare(a.Player, b.Player) })
		kept, of := want[:0], map[int64]int{}
		for _, x := range want {
			if of[x.Player]++; of[x.Player] <= n {
				kept = append(kept, x)
			}
		}
		compare(t, perKey, kept)
	})
}

func compare(t *testing.T, got, want []score) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("got %d records, want %d\n%.300v\n%.300v", len(got), len(want), got, want)
	}
}

func TestHeapsThatGrowAreSpilled(t *testing.T) {
	var in []score
	for i := range 6000 { // every player is known before memory is short
		in = append(in, score{int64(i % 300), int64(i * 7919 % 6000), int64(i), strings.Repeat("n", 60)})
	}
	_, counters := run(t, 128<<10, PerKey(player, Spec[score]{N: 15, Compare: better}), in)
	if counters.Spilled == 0 {
		t.Error("nothing was spilled")
	}
}

func TestNoRecordsAreNoTop(t *testing.T) {
	if _, err := operatortest.Build(t, PerKey(player, Spec[score]{Compare: better})); err == nil {
		t.Error("the first 0 records were built per key")
	}
	if _, err := operatortest.Build(t, Overall(Spec[score]{Compare: better})); err == nil {
		t.Error("the first 0 records were built")
	}
}

func TestTopAllocatesNothingPerRecord(t *testing.T) {
	h := operatortest.New(t, PerKey(player, Spec[score]{N: 3, Compare: better}))
	operatortest.NoAllocation(t, h, 5000, func(i int) (score, element.Time) {
		return score{Player: int64(i % 100), Points: int64(i)}, element.Time(i)
	})
}
