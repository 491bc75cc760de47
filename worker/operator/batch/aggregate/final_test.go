package aggregate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/worker/operator/batch"
	"github.com/sluiceio/sluice/worker/operator/keyed"
	"github.com/sluiceio/sluice/worker/operator/operatortest"
	"github.com/sluiceio/sluice/worker/spill"
	"github.com/sluiceio/sluice/worker/task"
)

func drawItems(t *rapid.T) []operatortest.Item[plain] {
	var items []operatortest.Item[plain]
	wm := int64(0)
	for range rapid.IntRange(0, 60).Draw(t, "items") {
		if rapid.IntRange(0, 9).Draw(t, "watermark") == 0 {
			wm++
			items = append(items, operatortest.Item[plain]{At: element.Time(wm), Watermark: true})
			continue
		}
		items = append(items, operatortest.Item[plain]{
			Value: plain{Key: rapid.Int64Range(-3, 3).Draw(t, "key"), N: rapid.Int64Range(-9, 9).Draw(t, "n")},
			At:    element.Time(rapid.Int64().Draw(t, "at")),
		})
	}
	return items
}

func TestFinalValuesComeAtTheEndAndLateForNoWindow(t *testing.T) {
	order := cmpopts.SortSlices(func(a, b operatortest.Stamped[int64]) bool { return cmp.Less(a.Value, b.Value) })
	for name, a := range map[string]keyed.Aggregation[int64, plain, int64, int64]{
		"sum": keyed.Sum(number, n, total), "min": keyed.Min(number, n, total), "max": keyed.Max(number, n, total),
	} {
		rapid.Check(t, func(rt *rapid.T) {
			operatortest.Conform(t, Final(a), drawItems(rt), func(items []operatortest.Item[plain], end bool) []operatortest.Stamped[int64] {
				if !end {
					return nil
				}
				var out []operatortest.Stamped[int64]
				for _, v := range arithmetic(name, items) {
					out = append(out, operatortest.Stamped[int64]{Value: v, At: element.MaxTime})
				}
				return out
			}, order)
		})
	}
}

func number(p plain) int64     { return p.Key }
func n(p plain) int64          { return p.N }
func total(_, acc int64) int64 { return acc }

// arithmetic is the result of each key.
func arithmetic(name string, items []operatortest.Item[plain]) map[int64]int64 {
	out := map[int64]int64{}
	for _, it := range items {
		if it.Watermark {
			continue
		}
		k, v := it.Value.Key, it.Value.N
		old, known := out[k]
		switch {
		case !known:
			out[k] = v
		case name == "sum":
			out[k] = old + v
		case name == "min":
			out[k] = min(old, v)
		default:
			out[k] = max(old, v)
		}
	}
	return out
}

func TestFinalValuesStopWhenTheAttemptDoes(t *testing.T) {
	operatortest.StopsEmitting(t, Final(sums()), func(push func(plain, element.Time)) {
		for k := range int64(100) {
			push(plain{Key: k}, 0)
		}
	})
}

func TestAggregationAllocatesNothingPerRecord(t *testing.T) {
	record := func(i int) (plain, element.Time) { return plain{Key: int64(i % 1000)}, element.Time(i) }
	operatortest.NoAllocation(t, operatortest.New(t, Final(sums())), 5000, record)
	operatortest.NoAllocation(t, operatortest.New(t, Distinct(number, nil)), 5000, record)
}

func TestStateIsMeasured(t *testing.T) {
	h := operatortest.New(t, Final(sums()))
	for k := range int64(1000) {
		h.Push(t, plain{Key: k}, 0)
	}
	h.Watermark(t, 1)
	if h.Runtime.Counters.StateBytes < 1000*24 {
		t.Errorf("%d bytes for 1000 keys", h.Runtime.Counters.StateBytes)
	}
	h.End(t)
	if err := h.Operator.Close(); err != nil || h.Runtime.Counters.StateBytes != 0 {
		t.Errorf("%d bytes after Close", h.Runtime.Counters.StateBytes)
	}
}

func TestAKeyThatCannotBeHashedIsNotBuilt(t *testing.T) {
	if _, err := operatortest.Build(t, Distinct(func(v float64) float64 { return v }, nil)); err == nil {
		t.Error("a float became a key")
	}
}

func TestTooLittleMemoryIsSaidAtOnce(t *testing.T) {
	rt := task.NewRuntime(t.Context(), operatortest.Name)
	area, err := spill.NewArea(spill.Config{FS: vfs.NewMem(), Dir: "spill"})
	if err != nil {
		t.Fatal(err)
	}
	rt.Batch = task.Batch{Memory: batch.MinMemory - 1, Spill: area}
	_, err = operatortest.BuildIn(t, rt, count())
	if e, ok := errors.AsType[*spill.Error](err); !ok || e.Code != spill.CodeBudget {
		t.Errorf("error is %v", err)
	}
}

// collide makes few hashes of all keys.
func collide[Acc, Out any](stage task.StageOf[event, Out], hashes uint64) task.StageOf[event, Out] {
	return func(rt *task.Runtime, out task.Push[Out]) (task.Push[event], task.Operator, error) {
		push, op, err := stage(rt, out)
		if err == nil {
			o := op.(*operator[string, event, Acc])
			hash := o.hash
			o.hash = func(k string) uint64 { return hash(k) % hashes }
		}
		return push, op, err
	}
}

// TestKeysThatShareAHashAreToldApart aggregates where the hash does not help: partitions never shrink.
func TestKeysThatShareAHashAreToldApart(t *testing.T) {
	var in []event
	for i := range 6000 {
		in = append(in, event{Key: fmt.Sprintf("a rather long key %d", i*7919%1500), Seq: int64(i), Text: strings.Repeat("t", i%40)})
	}
	for _, hashes := range []uint64{1, 300} {
		got, _ := play(t, 64<<10, 100, collide[int64](count(), hashes), in)
		same(t, got, model(in, countModel))
		got, counters := play(t, 64<<10, 40_000, collide[[]int64](lists(), hashes), in)
		same(t, got, model(in, listModel))
		if counters.Spilled == 0 || hashes == 1 && counters.SpillDepth < 2 {
			t.Errorf("counters are %+v", counters)
		}
		got, _ = play(t, 64<<10, 2000, collide[string](texts(), hashes), in)
		same(t, got, model(in, textModel))
	}
}

// TestAccumulatorsLargerThanTheMemory has a few keys whose accumulators fit neither together nor alone.
func TestAccumulatorsLargerThanTheMemory(t *testing.T) {
	for _, keys := range []int{1, 5, 40} {
		var in []event
		for i := range 30_000 {
			in = append(in, event{Key: fmt.Sprint(i % keys), Seq: int64(i)})
		}
		all := int64(8 * len(in))
		got, counters := play(t, 64<<10, 3*all/int64(keys), lists(), in)
		same(t, got, model(in, listModel))
		if counters.Spilled == 0 {
			t.Error("nothing was spilled")
		}
	}
}

// TestADiskThatFillsUpFailsTheAttempt fails the n-th write, for every n until there is none.
func TestADiskThatFillsUpFailsTheAttempt(t *testing.T) {
	var in []event
	for i := range 3000 {
		in = append(in, event{Key: fmt.Sprint(i % 1000), Seq: int64(i), Text: strings.Repeat("x", 100)})
	}
	for n := 0; ; n += 5 {
		writes := 0
		rt := task.NewRuntime(t.Context(), operatortest.Name)
		area, err := spill.NewArea(spill.Config{FS: vfs.WithFaults(vfs.NewMem(), func(op vfs.Operation, _ string) vfs.Fault {
			if op == vfs.OpWrite {
				if writes++; writes > n {
					return vfs.Fault{Err: syscall.ENOSPC, Outcome: vfs.Half}
				}
			}
			return vfs.Fault{}
		}), Dir: "spill"})
		if err != nil {
			t.Fatal(err)
		}
		rt.Batch = task.Batch{Memory: 64 << 10, Spill: area}
		push, op, err := texts()(rt, func(result) {})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range in {
			push(e)
		}
		err = op.OnWatermark(element.MaxTime)
		if e := rt.Err(); e != nil {
			err = e
		}
		if closed := op.Close(); closed != nil || area.Totals().Files != 0 {
			t.Fatalf("closed with %v, %d files are open", closed, area.Totals().Files)
		}
		if writes <= n {
			if n == 0 || err != nil {
				t.Fatalf("%d writes, error %v", writes, err)
			}
			return
		}
		if e, ok := errors.AsType[*spill.Error](err); !ok || e.Code != spill.CodeSpace || e.Path == "" || e.Bytes == 0 {
			t.Fatalf("write %d fails with %v", n, err)
		}
	}
}

func TestResultsComeInTheSameOrderAgain(t *testing.T) {
	var in []event
	for i := range 5000 {
		in = append(in, event{Key: fmt.Sprint(i * 7919 % 3000), Seq: int64(i), Text: strings.Repeat("x", 50)})
	}
	a, _ := play(t, 64<<10, 2000, texts(), in)
	b, _ := play(t, 64<<10, 2000, texts(), in)
	if !slices.Equal(a, b) {
		t.Error("two runs differ")
	}
}

func TestSortedAggregationStopsReadingWhenTheAttemptDoes(t *testing.T) {
	long := strings.Repeat("k", 400) // so that few keys fit into memory, and no level makes the partition much smaller
	operatortest.StopsReading(t, watched(t), 2000, func(rt *task.Runtime) error {
		push, op, err := collide[int64](count(), 1)(rt, func(result) {})
		if err != nil {
			return err
		}
		for i := range 6000 {
			push(event{Key: fmt.Sprint(i*7919%2000, long), Seq: int64(i)})
		}
		err = op.OnWatermark(element.MaxTime)
		return errors.Join(err, rt.Err(), op.Close())
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
