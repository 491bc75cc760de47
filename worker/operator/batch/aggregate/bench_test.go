package aggregate

import (
	"fmt"
	"testing"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/operator/keyed"
	"github.com/sluiceio/sluice/worker/operator/operatortest"
	"github.com/sluiceio/sluice/worker/task"
)

type plain struct {
	Key  int64
	N    int64
	Text string
}

func sums() keyed.Aggregation[int64, plain, int64, int64] {
	a := keyed.Sum(func(p plain) int64 { return p.Key }, func(p plain) int64 { return p.N }, func(_, n int64) int64 { return n })
	a.State = "acc"
	return a
}

func BenchmarkFinal(b *testing.B) {
	for _, keys := range []int{1000, 100_000, 1_000_000} {
		in := make([]plain, 1<<20)
		seed := uint64(1)
		for i := range in {
			seed = seed*6364136223846793005 + 1442695040888963407
			in[i] = plain{Key: int64(seed>>33) % int64(keys), N: 1}
		}
		run := func(b *testing.B, stage task.StageOf[plain, int64]) {
			b.ReportAllocs()
			n := 0
			for n < b.N {
				h := operatortest.New(b, stage)
				h.Discard()
				for i := range in {
					h.Push(b, in[i], 0)
				}
				h.Watermark(b, element.MaxTime)
				n += len(in)
			}
		}
		b.Run(fmt.Sprintf("keys=%d/state", keys), func(b *testing.B) { run(b, keyed.Final(sums())) })
		b.Run(fmt.Sprintf("keys=%d/batch", keys), func(b *testing.B) { run(b, Final(sums())) })
		b.Run(fmt.Sprintf("keys=%d/map", keys), func(b *testing.B) {
			n := 0
			for n < b.N {
				m := map[int64]int64{}
				for i := range in {
					m[in[i].Key] += in[i].N
				}
				n += len(in)
			}
		})
	}
}
