package sort

import (
	"cmp"
	"fmt"
	"math"
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

type rec struct {
	Key  string
	F    float64
	Seq  int64
	Text string
}

// surroundings have a budget; zero: no limit.
func surroundings(t testing.TB, memory int64) (*task.Runtime, *spill.Area) {
	rt := task.NewRuntime(t.Context(), operatortest.Name)
	area, err := spill.NewArea(spill.Config{FS: vfs.NewMem(), Dir: "spill", Compression: spill.S2})
	if err != nil {
		t.Fatal(err)
	}
	rt.Batch = task.Batch{Memory: memory, Spill: area}
	return rt, area
}

type timed struct {
	v  rec
	at element.Time
}

// run sorts in within a budget and checks what it must never exceed.
func run[K any](t testing.TB, memory int64, spec Spec[K, rec], in []timed) []timed {
	rt, area := surroundings(t, memory)
	var out []timed
	push, op, err := Sorted(spec)(rt, func(v rec) { out = append(out, timed{v, rt.At}) })
	if err != nil {
		t.Fatal(err)
	}
	o := op.(*sorted[K, rec])
	largest := int64(0)
	for _, r := range in {
		largest = max(largest, int64(len(r.v.Key)+len(r.v.Text))+256)
		rt.At = r.at
		push(r.v)
	}
	if err := op.OnWatermark(element.MaxTime); err != nil {
		t.Fatal(err)
	}
	if err := rt.Err(); err != nil {
		t.Fatal(err)
	}
	if peak := o.mem.Peak(); memory > 0 && peak > memory+largest {
		t.Fatalf("%d bytes were taken of %d, the largest record has %d", peak, memory, largest)
	}
	if err := op.Close(); err != nil {
		t.Fatal(err)
	}
	if used := o.mem.Used(); used != 0 {
		t.Fatalf("%d bytes are still taken after Close", used)
	}
	if open := area.Totals().Files; open != 0 {
		t.Fatalf("%d files are still open after Close", open)
	}
	return out
}

func draw(t *rapid.T) []timed {
	keys := rapid.SampledFrom([]int{1, 2, 20, 100_000}).Draw(t, "keys")
	n := rapid.SampledFrom([]int{0, 1, 2, 63, 65, 1000, 3000}).Draw(t, "records")
	text := rapid.SampledFrom([]int{0, 30, 700, 3000}).Draw(t, "length of the text")
	seed := rapid.Uint64().Draw(t, "seed")
	var in []timed
	for i := range n {
		seed = seed*6364136223846793005 + 1442695040888963407
		k := int(seed>>33) % keys
		in = append(in, timed{rec{
			Key: fmt.Sprintf("shared prefix %d", k), F: []float64{math.NaN(), 0, math.Copysign(0, -1), float64(k), -float64(k), math.Inf(1)}[seed>>20%6],
			Seq: int64(i), Text: strings.Repeat("x", int(seed>>40)%(text+1)),
		}, element.Time(seed >> 50)})
	}
	return in
}

func same(t testing.TB, got, want []timed) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if g, w := got[i], want[i]; g.v.Seq != w.v.Seq || g.at != w.at || g.v.Key != w.v.Key || g.v.Text != w.v.Text {
			t.Fatalf("record %d is %v, want %v", i, g, w)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
}

func TestSortIsStableInAnyMemory(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		in := draw(rt)
		memory := rapid.SampledFrom([]int64{0, 64 << 10, 96 << 10, 200 << 10, 1 << 20}).Draw(rt, "memory")
		most := rapid.SampledFrom([]int64{0, 0, 1, 50, 2000}).Draw(rt, "most")
		check := func(want []timed, got []timed) {
			if most > 0 {
				want = want[:min(len(want), int(most))]
			}
			same(t, got, want)
		}
		want := slices.Clone(in)
		slices.SortStableFunc(want, func(a, b timed) int { return strings.Compare(a.v.Key, b.v.Key) })
		check(want, run(t, memory, Spec[string, rec]{Key: func(r rec) string { return r.Key }, Order: Ascending[string](), Most: most}, in))

		want = slices.Clone(in)
		slices.SortStableFunc(want, func(a, b timed) int { return cmp.Compare(b.v.F, a.v.F) })
		check(want, run(t, memory, Spec[float64, rec]{Key: func(r rec) float64 { return r.F }, Order: Descending[float64](), Most: most}, in))
	})
}
