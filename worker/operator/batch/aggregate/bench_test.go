package aggregate

import (
	"fmt"
	"testing"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/operator/keyed"
	"github.com/sluiceio/sluice/worker/operator/operatortest"
	"github.com/sluiceio/sluice/worker/state"
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

// byState sums in the keyed state that unbounded input has.
func byState(b *testing.B, in []plain) {
	dir, err := state.NewDirectory[int64](state.Options{MaxParallelism: 256})
	if err != nil {
		b.Fatal(err)
	}
	acc, err := state.ValueOf[int64](dir, "acc")
	if err != nil {
		b.Fatal(err)
	}
	for i := range in {
		dir.Seek(in[i].Key, dir.Hash(in[i].Key))
		*acc.Ref() += in[i].N
	}
}

// BenchmarkFinal compares an aggregation with keyed state and with a map.
func BenchmarkFinal(b *testing.B) {
	for _, keys := range []int{1000, 100_000, 1_000_000} {
		in := make([]plain, 1<<20)
		seed := uint64(1)
		for i := range in {
			seed = seed*6364136223846793005 + 1442695040888963407
			in[i] = plain{Key: int64(seed>>33) % int64(keys), N: 1}
		}
		b.Run(fmt.Sprintf("keys=%d/state", keys), func(b *testing.B) {
			for n := 0; n < b.N; n += len(in) {
				byState(b, in)
			}
		})
		b.Run(fmt.Sprintf("keys=%d/batch", keys), func(b *testing.B) {
			b.ReportAllocs()
			for n := 0; n < b.N; n += len(in) {
				h := operatortest.New(b, Final(sums()))
				h.Discard()
				for i := range in {
					h.Push(b, in[i], 0)
				}
				h.Watermark(b, element.MaxTime)
			}
		})
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
