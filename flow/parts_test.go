package flow_test

import (
	"cmp"
	"slices"
	"testing"

	"github.com/sluiceio/sluice/flow"
)

// A call that makes several operators gives them names of which one tells that of the others.
func TestPartsAreCalledAfterTheirOperator(t *testing.T) {
	for name, c := range map[string]struct {
		build func(p *flow.Pipeline)
		want  []string
	}{
		"sort": {func(p *flow.Pipeline) { flow.SortBy(p.Of("in", 2, 1), self).ID("it").To("out", drop[int]()) },
			[]string{"in", "it", "it.quantiles", "it.ranges", "it.sample"}},
		"top": {func(p *flow.Pipeline) {
			flow.TopN(p.Of("in", 2, 1), 1, cmp.Compare[int]).To("out-1", drop[flow.Ranked[int]]())
			flow.TopN(p.Of("more", 2, 1), 1, cmp.Compare[int]).ID("best").To("out-2", drop[flow.Ranked[int]]())
		}, []string{"best", "best.local", "in", "more", "topn-1", "topn-1.local"}},
		"taken": {func(p *flow.Pipeline) {
			ranked(flow.TopN(p.Of("it.local", 2, 1), 1, cmp.Compare[int]).ID("it"))
		}, []string{"it", "it.local", "topn.local-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := flow.Build("parts", &flow.NoConfig{}, func(p *flow.Pipeline, _ *flow.NoConfig) error { c.build(p); return nil })
			if err != nil {
				t.Fatal(err)
			}
			prog, err := p.Program()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, o := range prog.Graph.Operators {
				if len(o.OutputSchema) > 0 { // sinks emit nothing
					got = append(got, o.Id)
				}
			}
			slices.Sort(got)
			if slices.Sort(c.want); !slices.Equal(got, c.want) {
				t.Errorf("operators %q, want %q", got, c.want)
			}
		})
	}
}
