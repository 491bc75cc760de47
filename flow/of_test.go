package flow_test

import (
	"context"
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/flow/flowtest"
)

// tens gives ten numbers per call, up to a hundred.
func tens(_ context.Context, page int) (vs []int, next int, err error) {
	for i := range 10 {
		vs = append(vs, 10*page+i)
	}
	if page == 9 {
		err = io.EOF
	}
	return vs, page + 1, err
}

func TestFunctionsAreSourcesAndSinks(t *testing.T) {
	for name, src := range map[string]flow.Source[int]{"bounded": flow.PollAll(0, tens), "unbounded": flow.PollFunc(0, tens)} {
		var mu struct {
			sync.Mutex
			vs []int
		}
		flowtest.Run(t, &flow.NoConfig{}, func(p *flow.Pipeline, _ *flow.NoConfig) error {
			p.From("numbers", src).To("out", flow.SinkFunc(func(_ context.Context, vs []int) error {
				mu.Lock()
				defer mu.Unlock()
				mu.vs = append(mu.vs, vs...)
				return nil
			}))
			return nil
		})
		slices.Sort(mu.vs)
		if len(mu.vs) != 100 || mu.vs[99] != 99 {
			t.Errorf("%s: %v", name, mu.vs)
		}
	}
}

func TestPairsHaveTheKeyOrTheTimeOfTheirRecord(t *testing.T) {
	keys, times := flowtest.Sink[flow.KV[bool, int]]("keys"), flowtest.Sink[flow.Stamped[int]]("times")
	flowtest.Run(t, &flow.NoConfig{}, func(p *flow.Pipeline, _ *flow.NoConfig) error {
		s := p.From("numbers", flow.SliceSource[int]{4, 7}, flow.EventTime(func(v int) flow.Time { return flow.Time(10 * v) }))
		flow.Entries(s.KeyBy(func(v int) bool { return v%2 == 0 })).To("keys", keys)
		flow.Timestamped(s).To("times", times)
		return nil
	}, flowtest.Cores(1))
	if got := keys.Values(); !slices.Equal(got, []flow.KV[bool, int]{{Key: true, Value: 4}, {Key: false, Value: 7}}) {
		t.Error(got)
	}
	if got := times.Values(); !slices.Equal(got, []flow.Stamped[int]{{Value: 4, Time: 40}, {Value: 7, Time: 70}}) {
		t.Error(got)
	}
}
