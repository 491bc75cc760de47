package sort

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/internal/invariant"
	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/worker/operator/batch"
	"github.com/sluiceio/sluice/worker/operator/operatortest"
	"github.com/sluiceio/sluice/worker/spill"
	"github.com/sluiceio/sluice/worker/task"
)

// TestTwoMillionRecordsInEightMebibytes sorts what is a score of times larger than the memory, on real files.
func TestTwoMillionRecordsInEightMebibytes(t *testing.T) {
	records, memory := 2_000_000, int64(8<<20)
	if invariant.Enabled { // a tenth under the race detector
		records, memory = records/10, memory/10
	}
	in := orders(records)
	n, last := 0, int64(-1)
	want, got := int64(0), int64(0)
	for i := range in {
		want += in[i].ID ^ in[i].Cents
	}
	peak := byOperator(t, byID(), in, memory, t.TempDir()+"/spill", func(o order) {
		if o.ID < last {
			t.Fatalf("record %d: %d comes after %d", n, o.ID, last)
		}
		last = o.ID
		got += o.ID ^ o.Cents
		n++
	})
	if n != len(in) || got != want {
		t.Errorf("%d records with digest %d, want %d with %d", n, got, len(in), want)
	}
	if peak > memory {
		t.Errorf("%d bytes were taken", peak)
	}
}

// TestRecordsLargerThanTheMemory sorts records of which not one fits, by short keys and by keys that are as long.
func TestRecordsLargerThanTheMemory(t *testing.T) {
	var in []timed
	for i := range 40 {
		in = append(in, timed{rec{Key: strings.Repeat("k", i%3*50_000) + string(rune('a'+i*7%26)), F: float64(i * 11 % 40), Seq: int64(i), Text: strings.Repeat("t", 100_000+i)}, element.Time(i)})
	}
	in = append(in, timed{rec{Key: "m", F: 5, Seq: 40}, 7})
	byF := run(t, 64<<10, Spec[float64, rec]{Key: func(r rec) float64 { return r.F }, Order: Ascending[float64]()}, in)
	for i := 1; i < len(byF); i++ {
		if a, b := byF[i-1].v, byF[i].v; a.F > b.F || a.F == b.F && a.Seq > b.Seq {
			t.Fatalf("record %d comes before %d", a.Seq, b.Seq)
		}
	}
	if len(byF) != len(in) {
		t.Errorf("%d records, want %d", len(byF), len(in))
	}
}

func TestSortingStopsWhenTheAttemptDoes(t *testing.T) {
	operatortest.StopsEmitting(t, Sorted(byID()), func(push func(order, element.Time)) {
		for i := range int64(100) {
			push(order{ID: i}, 0)
		}
	})
}

func TestSortingAllocatesNothingPerRecord(t *testing.T) {
	h := operatortest.New(t, Sorted(byID()))
	// Chunks of rows are made now and then: the average is rounded down.
	operatortest.NoAllocation(t, h, 5000, func(i int) (order, element.Time) { return order{ID: int64(i)}, element.Time(i) })
}

func TestTooLittleMemoryIsSaidAtOnce(t *testing.T) {
	rt, _ := surroundings(t, batch.MinMemory-1)
	_, err := operatortest.BuildIn(t, rt, Sorted(byID()))
	if e, ok := errors.AsType[*spill.Error](err); !ok || e.Code != spill.CodeBudget {
		t.Errorf("error is %v", err)
	}
}

// TestADiskThatFillsUpFailsTheAttempt fails the n-th write, for every n until there is none.
func TestADiskThatFillsUpFailsTheAttempt(t *testing.T) {
	in := orders(10_000)
	for n := 0; ; n += 20 {
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
		push, op, err := Sorted(byID())(rt, func(order) {})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range in {
			push(o)
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
		if e, ok := errors.AsType[*spill.Error](err); !ok || e.Code != spill.CodeSpace {
			t.Fatalf("write %d fails with %v", n, err)
		}
	}
}

func TestMergingRunsStopsWhenTheAttemptDoes(t *testing.T) {
	text := strings.Repeat("t", 200)
	operatortest.StopsReading(t, watched(t), 2000, func(rt *task.Runtime) error {
		push, op, err := Sorted(Spec[int64, rec]{Key: func(r rec) int64 { return r.Seq * 7919 % 1000 }, Order: Ascending[int64]()})(rt, func(rec) {})
		if err != nil {
			return err
		}
		for i := range int64(20_000) {
			push(rec{Seq: i, Text: text})
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
