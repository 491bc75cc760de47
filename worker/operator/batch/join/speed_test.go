package join

import (
	"testing"

	"github.com/sluiceio/sluice/bench/ratio"
)

// TestSpeedJoin protects the join of what fits into memory: not slower than one and a half times a map of slices, written
// by hand.
func TestSpeedJoin(t *testing.T) {
	cs, ps := data(100_000, 200_000)
	emitted := 0
	emit := func(sale) { emitted++ }
	ratio.AtMost(t, 1.5, ratio.CPU, func(n int) {
		for range n {
			byMap(cs, ps, emit)
		}
	}, func(n int) {
		for range n {
			byOperator(t, cs, ps, 0, "", emit)
		}
	})
	if emitted == 0 {
		t.Error("nothing was joined")
	}
}

// TestSpeedJoinInAThirdOfTheMemory protects against a cliff: two thirds of both sides go to disk and come back, and the
// operator alone, without anything that a job does beside, takes at most two and a half times as long.
func TestSpeedJoinInAThirdOfTheMemory(t *testing.T) {
	cs, ps := data(300_000, 600_000)
	third, dir := held(t, cs)/3, t.TempDir()+"/spill"
	emitted := 0
	emit := func(sale) { emitted++ }
	ratio.AtMost(t, 2.5, ratio.CPU, func(n int) {
		for range n {
			byOperator(t, cs, ps, 0, "", emit)
		}
	}, func(n int) {
		for range n {
			byOperator(t, cs, ps, third, dir, emit)
		}
	})
	if emitted == 0 {
		t.Error("nothing was joined")
	}
}
