package join

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/worker/operator/operatortest"
	"github.com/sluiceio/sluice/worker/spill"
	"github.com/sluiceio/sluice/worker/task"
)

type customer struct {
	ID      int64
	Name    string
	Country string
	Since   int64
}

type purchase struct {
	Customer int64
	Item     string
	Cents    int64
	Seq      int64
}

type sale struct {
	Country string
	Item    string
	Cents   int64
}

// data is a build side of unique keys and a probe side of which each record has a partner.
func data(builds, probes int) (cs []customer, ps []purchase) {
	seed := uint64(1)
	next := func(n int) int {
		seed = seed*6364136223846793005 + 1442695040888963407
		return int(seed>>33) % n
	}
	for i := range builds {
		id := int64(i) * 7919 % int64(builds)
		cs = append(cs, customer{ID: id, Name: "customer number " + strconv.Itoa(int(id)), Country: "country " + strconv.Itoa(next(200)), Since: int64(i)})
	}
	for i := range probes {
		ps = append(ps, purchase{Customer: int64(next(builds)), Item: "item " + strconv.Itoa(next(5000)), Cents: int64(next(100_000)), Seq: int64(i)})
	}
	return cs, ps
}

func sales() Spec[int64, purchase, customer, sale] {
	return Spec[int64, purchase, customer, sale]{
		LeftKey: func(p purchase) int64 { return p.Customer }, RightKey: func(c customer) int64 { return c.ID },
		Match: func(p purchase, c customer, emit func(sale)) { emit(sale{c.Country, p.Item, p.Cents}) },
	}
}

// byMap is the join that one writes by hand if everything fits into memory.
func byMap(cs []customer, ps []purchase, emit func(sale)) {
	m := map[int64][]customer{}
	for i := range cs {
		m[cs[i].ID] = append(m[cs[i].ID], cs[i])
	}
	for i := range ps {
		for _, c := range m[ps[i].Customer] {
			emit(sale{c.Country, ps[i].Item, ps[i].Cents})
		}
	}
}

// byOperator is the join with a budget; zero: no limit.
func byOperator(t testing.TB, cs []customer, ps []purchase, memory int64, dir string, emit func(sale)) task.Counters {
	rt := task.NewRuntime(t.Context(), operatortest.Name)
	if memory > 0 {
		area, err := spill.NewArea(spill.Config{FS: vfs.OS{}, Dir: dir, Compression: spill.S2})
		if err != nil {
			t.Fatal(err)
		}
		rt.Batch = task.Batch{Memory: memory, Spill: area}
	}
	left, right := Stages(sales())
	pushL, op, err := left(rt, emit)
	if err != nil {
		t.Fatal(err)
	}
	pushR, _, err := right(rt, emit)
	if err != nil {
		t.Fatal(err)
	}
	for i := range cs {
		pushR(cs[i])
	}
	if err := op.(task.InputEnder).OnInputEnd(1); err != nil {
		t.Fatal(err)
	}
	for i := range ps {
		pushL(ps[i])
	}
	if err := op.OnWatermark(element.MaxTime); err != nil {
		t.Fatal(err)
	}
	if err := rt.Err(); err != nil {
		t.Fatal(err)
	}
	if peak := op.(*operator[int64, customer, purchase, sale]).mem.Peak(); memory > 0 && peak > memory+500 {
		t.Fatalf("%d bytes were taken of %d", peak, memory)
	}
	if err := op.Close(); err != nil {
		t.Fatal(err)
	}
	return rt.Counters
}

// held is the memory of a build side in the join.
func held(t testing.TB, cs []customer) int64 {
	rt := task.NewRuntime(t.Context(), operatortest.Name)
	left, right := Stages(sales())
	if _, _, err := left(rt, func(sale) {}); err != nil {
		t.Fatal(err)
	}
	push, op, err := right(rt, func(sale) {})
	if err != nil {
		t.Fatal(err)
	}
	for i := range cs {
		push(cs[i])
	}
	return op.(*operator[int64, customer, purchase, sale]).mem.Used()
}

// BenchmarkJoin is the time per record of both sides, by the share of the build side that fits into memory.
func BenchmarkJoin(b *testing.B) {
	for _, size := range []struct{ builds, probes int }{{50_000, 200_000}, {1_000_000, 2_000_000}} {
		cs, ps := data(size.builds, size.probes)
		all := held(b, cs)
		n := len(cs) + len(ps)
		measure := func(name string, f func(emit func(sale))) {
			b.Run(fmt.Sprintf("build=%d/%s", size.builds, name), func(b *testing.B) {
				b.ReportAllocs()
				for range b.N {
					results := 0
					f(func(sale) { results++ })
					if results != len(ps) {
						b.Fatalf("%d results, want %d", results, len(ps))
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/record")
			})
		}
		measure("map", func(emit func(sale)) { byMap(cs, ps, emit) })
		measure("unlimited", func(emit func(sale)) { byOperator(b, cs, ps, 0, "", emit) })
		for _, part := range []int64{1, 2, 3, 5, 20, 100} {
			dir := b.TempDir() + "/spill"
			memory := max(all*9/8/part, 64<<10)
			measure(fmt.Sprintf("memory=1:%d", part), func(emit func(sale)) { byOperator(b, cs, ps, memory, dir, emit) })
		}
	}
}
