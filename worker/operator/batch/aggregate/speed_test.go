package aggregate

import (
	"testing"

	"github.com/sluiceio/sluice/bench/ratio"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/operator/operatortest"
	"github.com/sluiceio/sluice/worker/state"
	"github.com/sluiceio/sluice/worker/task"
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

// TestSpeedFinalIsThatOfKeyedState protects bounded input from being slower, in memory, than unbounded input is: the same
// sums in keyed state.
func TestSpeedFinalIsThatOfKeyedState(t *testing.T) {
	in := make([]plain, 1<<19)
	for i := range in {
		in[i] = plain{Key: int64(i) * 7919 % 10_000, N: 1}
	}
	a := sums()
	inState := operatortest.New(t, task.StageOf[plain, int64](func(*task.Runtime, task.Push[int64]) (task.Push[plain], task.Operator, error) {
		dir, err := state.NewDirectory[int64](state.Options{MaxParallelism: 256})
		if err != nil {
			return nil, nil, err
		}
		acc, err := state.ValueOf[int64](dir, a.State)
		return func(v plain) {
			k := a.Key(v)
			dir.Seek(k, dir.Hash(k))
			if !acc.Exists() {
				*acc.Ref() = a.First(v)
				return
			}
			p := acc.Ref()
			*p = a.Add(*p, v)
		}, task.Base{}, err
	}))
	inBatch := operatortest.New(t, Final(a))
	inBatch.Discard()
	push := func(h *operatortest.Harness[plain, int64]) func(int) {
		return func(n int) {
			for range n {
				for i := range in {
					h.Push(t, in[i], 0)
				}
			}
		}
	}
	ratio.AtMost(t, 1.25, ratio.CPU, push(inState), push(inBatch))
}
