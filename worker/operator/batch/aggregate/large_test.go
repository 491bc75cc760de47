package aggregate

import (
	"testing"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/worker/operator/operatortest"
	"github.com/sluiceio/sluice/worker/spill"
	"github.com/sluiceio/sluice/worker/task"
)

// TestTwoMillionRecordsInEightMebibytes aggregates more keys than fit into memory, on real files.
func TestTwoMillionRecordsInEightMebibytes(t *testing.T) {
	const keys, memory = 1_000_000, 8 << 20
	rt := task.NewRuntime(t.Context(), operatortest.Name)
	area, err := spill.NewArea(spill.Config{FS: vfs.OS{}, Dir: t.TempDir() + "/spill", Compression: spill.Zstd})
	if err != nil {
		t.Fatal(err)
	}
	rt.Batch = task.Batch{Memory: memory, Spill: area}
	results, sum := 0, int64(0)
	push, op, err := Final(sums())(rt, func(n int64) {
		results++
		sum += n
	})
	if err != nil {
		t.Fatal(err)
	}
	want := int64(0)
	for i := range int64(2 * keys) {
		push(plain{Key: i * 7919 % keys, N: i, Text: "x"})
		want += i
	}
	if err := op.OnWatermark(element.MaxTime); err != nil {
		t.Fatal(err)
	}
	if peak := op.(budgeted).budget().Peak(); peak > memory+100 {
		t.Errorf("%d bytes were taken", peak)
	}
	if err := op.Close(); err != nil {
		t.Fatal(err)
	}
	if results != keys || sum != want || area.Totals().Files != 0 || rt.Counters.SpilledRecords == 0 {
		t.Errorf("%d results with sum %d, want %d with %d; counters %+v, area %+v", results, sum, keys, want, rt.Counters, area.Totals())
	}
}
