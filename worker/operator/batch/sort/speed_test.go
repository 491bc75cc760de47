package sort

import (
	"slices"
	"testing"

	"github.com/sluiceio/sluice/bench/ratio"
)

// TestSpeedSort protects the sort of what fits into memory: the library's sort, which is not even stable, with the copies that
// keeping and handing on need, is the measure.
func TestSpeedSort(t *testing.T) {
	in := orders(200_000)
	emitted := 0
	emit := func(order) { emitted++ }
	ratio.AtMost(t, 1.2, ratio.CPU, func(n int) {
		for range n {
			kept := slices.Clone(in)
			slices.SortFunc(kept, compareID)
			for i := range kept {
				emit(kept[i])
			}
		}
	}, func(n int) {
		for range n {
			byOperator(t, byID(), in, 0, "", emit)
		}
	})
	if emitted == 0 {
		t.Error("nothing was sorted")
	}
}

// TestSpeedSortInAThirdOfTheMemory protects against a cliff: everything goes to disk and comes back.
func TestSpeedSortInAThirdOfTheMemory(t *testing.T) {
	in := orders(300_000)
	emit := func(order) {}
	third, dir := byOperator(t, byID(), in, 0, "", emit)/3, t.TempDir()+"/spill"
	ratio.AtMost(t, 4, ratio.CPU, func(n int) {
		for range n {
			byOperator(t, byID(), in, 0, "", emit)
		}
	}, func(n int) {
		for range n {
			byOperator(t, byID(), in, third, dir, emit)
		}
	})
}
