package sort

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/worker/operator/operatortest"
	"github.com/sluiceio/sluice/worker/spill"
	"github.com/sluiceio/sluice/worker/task"
)

type order struct {
	ID     int64
	Client string
	Cents  int64
	Note   string
}

func orders(n int) []order {
	out := make([]order, n)
	seed := uint64(1)
	for i := range out {
		seed = seed*6364136223846793005 + 1442695040888963407
		out[i] = order{ID: int64(seed >> 20), Client: "client " + strconv.Itoa(int(seed>>33)%100_000), Cents: int64(seed>>33) % 1000, Note: "note"}
	}
	return out
}

// byOperator sorts with a budget; zero: no limit.
func byOperator[K any](t testing.TB, spec Spec[K, order], in []order, memory int64, dir string, emit func(order)) int64 {
	rt := task.NewRuntime(t.Context(), operatortest.Name)
	if memory > 0 {
		area, err := spill.NewArea(spill.Config{FS: vfs.OS{}, Dir: dir, Compression: spill.S2})
		if err != nil {
			t.Fatal(err)
		}
		rt.Batch = task.Batch{Memory: memory, Spill: area}
	}
	push, op, err := Sorted(spec)(rt, emit)
	if err != nil {
		t.Fatal(err)
	}
	for i := range in {
		push(in[i])
	}
	peak := op.(*sorted[K, order]).mem.Used()
	if err := op.OnWatermark(element.MaxTime); err != nil {
		t.Fatal(err)
	}
	if err := rt.Err(); err != nil {
		t.Fatal(err)
	}
	if err := op.Close(); err != nil {
		t.Fatal(err)
	}
	return peak
}

// bySlice is the sort that one writes by hand if everything fits into memory: it keeps the records and hands them on.
func bySlice(in []order, compare func(a, b order) int, emit func(order)) {
	var kept []order
	kept = append(kept, in...)
	slices.SortStableFunc(kept, compare)
	for i := range kept {
		emit(kept[i])
	}
}

func byID() Spec[int64, order] {
	return Spec[int64, order]{Key: func(o order) int64 { return o.ID }, Order: Ascending[int64]()}
}

func compareID(a, b order) int { return cmp.Compare(a.ID, b.ID) }

// BenchmarkSort is the time per record by key and by the share of the records that fits into memory.
func BenchmarkSort(b *testing.B) {
	in := orders(1_000_000)
	measure := func(name string, f func(emit func(order))) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				n := 0
				f(func(order) { n++ })
				if n != len(in) {
					b.Fatalf("%d records, want %d", n, len(in))
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(in)), "ns/record")
		})
	}
	client := func(o order) string { return o.Client }
	byClient := Spec[string, order]{Key: client, Order: Ascending[string]()}
	measure("int/stable slice", func(emit func(order)) { bySlice(in, compareID, emit) })
	measure("int/slice", func(emit func(order)) {
		kept := slices.Clone(in)
		slices.SortFunc(kept, compareID)
		for i := range kept {
			emit(kept[i])
		}
	})
	all := byOperator(b, byID(), in, 0, "", func(order) {})
	measure("int/unlimited", func(emit func(order)) { byOperator(b, byID(), in, 0, "", emit) })
	for _, part := range []int64{1, 3, 20, 100} {
		dir := b.TempDir() + "/spill"
		measure(fmt.Sprintf("int/memory=1:%d", part), func(emit func(order)) { byOperator(b, byID(), in, all*9/8/part, dir, emit) })
	}
	measure("string/slice", func(emit func(order)) {
		bySlice(in, func(a, b order) int { return strings.Compare(a.Client, b.Client) }, emit)
	})
	measure("string/unlimited", func(emit func(order)) { byOperator(b, byClient, in, 0, "", emit) })
	few := Spec[int64, order]{Key: func(o order) int64 { return o.Cents }, Order: Ascending[int64]()}
	measure("few/slice", func(emit func(order)) {
		bySlice(in, func(a, b order) int { return cmp.Compare(a.Cents, b.Cents) }, emit)
	})
	measure("few/unlimited", func(emit func(order)) { byOperator(b, few, in, 0, "", emit) })
}
