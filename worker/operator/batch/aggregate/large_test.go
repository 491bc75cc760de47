package aggregate

import (
	"testing"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/internal/invariant"
	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/worker/operator/operatortest"
	"github.com/sluiceio/sluice/worker/spill"
	"github.com/sluiceio/sluice/worker/task"
)

// TestTwoMillionRecordsInEightMebibytes aggregates more keys than fit into memory, on real files.
func TestTwoMillionRecordsInEightMebibytes(t *testing.T) {
	keys, memory := int64(1_000_000), int64(8<<20)
	if invariant.Enabled { // a tenth under the race detector
		keys, memory = keys/10, memory/10
	}
	rt := task.NewRuntime(t.Context(), operatortest.Name)
	area, err := spill.NewArea(spill.Config{FS: vfs.OS{}, Dir: t.TempDir() + "/spill", Compression: spill.Zstd})
	if err != nil {
		t.Fatal(err)
	}
	rt.Batch = task.Batch{Memory: memory, Spill: area}
	results, sum := int64(0), int64(0)
	push, op, err := Final(sums())(rt, func(n int64) {
		results++
		sum += n
	})
	if err != nil {
		t.Fatal(err)
	}
	want := int64(0)
	for i := range 2 * keys {
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
