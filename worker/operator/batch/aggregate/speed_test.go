package aggregate

import (
	"testing"

	"github.com/sluiceio/sluice/bench/ratio"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/operator/operatortest"
)

// TestSpeedFinal protects what every record of an aggregation pays that fits into memory, against a map of the language.
func TestSpeedFinal(t *testing.T) {
	const keys = 100_000
	in := make([]plain, 1<<20)
	seed := uint64(1)
	for i := range in {
		seed = seed*6364136223846793005 + 1442695040888963407
		in[i] = plain{Key: int64(seed>>33) % keys, N: 1}
	}
	ratio.AtMost(t, 2.5, ratio.CPU, func(n int) {
		for range n {
			m := map[int64]int64{}
			for i := range in {
				m[in[i].Key] += in[i].N
			}
		}
	}, func(n int) {
		for range n {
			h := operatortest.New(t, Final(sums()))
			h.Discard()
			for i := range in {
				h.Push(t, in[i], 0)
			}
			h.Watermark(t, element.MaxTime)
		}
	})
}
