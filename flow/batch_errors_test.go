package flow_test

import (
	"cmp"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluiceio/sluice/flow"
)

type loader struct{ last flow.ValueState[int] }

func (l *loader) Open(set *flow.Setup[int, int]) error {
	l.last = set.Value[int]("last")
	return nil
}

func (l *loader) Load(c *flow.LoadCtx[int], v int) error {
	l.last.Set(v)
	return nil
}

func (l *loader) Process(c *flow.Ctx[int, int], v int) error {
	c.Emit(l.last.Get() + v)
	return nil
}

func newLoader() *loader { return &loader{} }

func pairs(l, r int, emit func(int))                   { emit(l*100 + r) }
func leftPairs(l int, r flow.Opt[int], emit func(int)) { emit(l*100 + r.Or(-1)) }
func fullPairs(l, r flow.Opt[int], emit func(int))     { emit(l.Or(-1)*100 + r.Or(-1)) }
func firstConsumer(int, int) int                       { return 0 }
func ranked(s flow.Stream[flow.Ranked[int]]) flow.SinkRef {
	return s.To("out", drop[flow.Ranked[int]]())
}

// batchFaults are the misuses of what works on bounded input: the code, parts of the message and of the fix.
var batchFaults = map[string]struct {
	build              func(p *flow.Pipeline)
	code, message, fix string
}{
	"join of endless input": {
		func(p *flow.Pipeline) {
			p.Of("a", 1).KeyBy(self).Join(p.From("clicks", endless[int]{}).KeyBy(self), pairs).To("out", drop[int]())
		}, "E021", `source "clicks" (at flow/batch_errors_test.go:`, "bound the source"},
	"left join of endless input": {
		func(p *flow.Pipeline) {
			p.From("clicks", endless[int]{}).KeyBy(self).LeftJoin(p.Of("a", 1).KeyBy(self), leftPairs).To("out", drop[int]())
		}, "E021", "never ends", "Window"},
	"full join of endless input": {
		func(p *flow.Pipeline) {
			p.From("clicks", endless[int]{}).KeyBy(self).FullJoin(p.Of("a", 1).KeyBy(self), fullPairs).To("out", drop[int]())
		}, "E021", "never ends", "bound"},
	"sort of endless input": {
		func(p *flow.Pipeline) { flow.SortBy(p.From("clicks", endless[int]{}), self).To("out", drop[int]()) },
		"E021", "never ends", "bound"},
	"first of endless input": {
		func(p *flow.Pipeline) { ranked(flow.TopN(p.From("clicks", endless[int]{}), 3, cmp.Compare[int])) },
		"E021", "never ends", "bound"},
	"first of each key of endless input": {
		func(p *flow.Pipeline) {
			ranked(flow.TopNByKey(p.From("clicks", endless[int]{}).KeyBy(self), 3, cmp.Compare[int]))
		}, "E021", "never ends", "bound"},
	"state loaded from endless input": {
		func(p *flow.Pipeline) {
			p.Of("a", 1).KeyBy(self).Bootstrap(p.From("clicks", endless[int]{}).KeyBy(self), newLoader).ID("x").To("out", drop[int]())
		}, "E016", `source "clicks" (at flow/batch_errors_test.go:`, "bound the source"},
	"bootstrap without an id": {
		func(p *flow.Pipeline) {
			p.From("clicks", endless[int]{}).KeyBy(self).Bootstrap(p.Of("a", 1).KeyBy(self), newLoader).To("out", drop[int]())
		}, "E014", "bootstrap-1", "ID"},
	"pipelined init": {
		func(p *flow.Pipeline) {
			p.Of("a", 1).KeyBy(self).Bootstrap(p.Of("b", 1).KeyBy(self).Exchange(flow.Pipelined), newLoader).To("out", drop[int]())
		}, "E018", "cannot be pipelined", "drop Exchange"},
	"pipelined input of a sort": {
		func(p *flow.Pipeline) {
			flow.SortBy(p.Of("a", 1).Exchange(flow.Pipelined), self).To("out", drop[int]())
		}, "E018", "SortBy cannot be pipelined", "drop Exchange"},
	"blocking exchange of endless input": {
		func(p *flow.Pipeline) {
			p.From("clicks", endless[int]{}).KeyBy(self).Exchange(flow.Blocking).Count().ID("n").To("out", drop[flow.KV[int, int64]]())
		}, "E020", `source "clicks" (at flow/batch_errors_test.go:`, "leave the exchange"},
	"batch mode over endless input": {
		func(p *flow.Pipeline) {
			p.SetMode(flow.ModeBatch)
			p.From("clicks", endless[int]{}).To("out", drop[int]())
		}, "E013", "batch mode (at flow/batch_errors_test.go:", "another mode"},
	"alignment without a name": {
		func(p *flow.Pipeline) {
			p.From("a", endless[int]{}, flow.EventTime(func(int) flow.Time { return 0 }, flow.Align("", time.Second))).To("out", drop[int]())
		}, "E018", `source "a": alignment group ""`, "flow.Align"},
	"alignment without a drift": {
		func(p *flow.Pipeline) {
			p.From("a", endless[int]{}, flow.EventTime(func(int) flow.Time { return 0 }, flow.Align("g", 0))).To("out", drop[int]())
		}, "E018", "a drift of 0s", "flow.Align"},
	"no such exchange": {
		func(p *flow.Pipeline) { p.Of("a", 1).Exchange(9).To("out", drop[int]()) }, "E018", "exchange 9", "flow.Blocking"},
	"no such mode": {
		func(p *flow.Pipeline) { p.SetMode(9); p.Of("a", 1).To("out", drop[int]()) }, "E018", "mode 9", "flow.ModeBatch"},
	"both sides built": {
		func(p *flow.Pipeline) {
			p.Of("a", 1).KeyBy(self).Join(p.Of("b", 1).KeyBy(self), pairs, flow.BuildLeft(), flow.BuildRight()).To("out", drop[int]())
		}, "E018", "both sides", "smaller side"},
	"full join with a broadcast": {
		func(p *flow.Pipeline) {
			p.Of("a", 1).KeyBy(self).FullJoin(p.Of("b", 1).KeyBy(self), fullPairs, flow.BroadcastRight()).To("out", drop[int]())
		}, "E018", "full join", "LeftJoin"},
	"join across pipelines": {
		func(p *flow.Pipeline) {
			p.Of("a", 1).KeyBy(self).Join(flow.New("other").Of("b", 1).KeyBy(self), pairs).To("out", drop[int]())
		}, "E018", "another pipeline", "same Pipeline"},
	"bootstrap across pipelines": {
		func(p *flow.Pipeline) {
			p.Of("a", 1).KeyBy(self).Bootstrap(flow.New("other").Of("b", 1).KeyBy(self), newLoader).To("out", drop[int]())
		}, "E018", "another pipeline", "same Pipeline"},
	"join of records that cannot be stored": {
		func(p *flow.Pipeline) {
			bad := p.Of("b", 1).Map(func(v int) hidden { return hidden{v} })
			p.Of("a", 1).KeyBy(self).Join(bad.KeyBy(func(h hidden) int { return h.secret }), func(a int, b hidden, emit func(int)) {}).To("out", drop[int]())
		}, "E008", "secret", ""},
	"join by what cannot be a key": {
		func(p *flow.Pipeline) {
			a := p.Of("a", 1.5)
			a.KeyBy(half).Join(p.Of("b", 2.5).KeyBy(half), func(a, b float64, emit func(int)) {}).To("out", drop[int]())
		}, "E007", "float64", ""},
	"distinct values that cannot be keys": {
		func(p *flow.Pipeline) { flow.Distinct(p.Of("a", 1.5)).To("out", drop[float64]()) }, "E007", "float64", ""},
	"distinct endless input without an id": {
		func(p *flow.Pipeline) { flow.Distinct(p.From("a", endless[int]{})).To("out", drop[int]()) }, "E014", "distinct-1", "ID"},
	"the first none": {
		func(p *flow.Pipeline) { ranked(flow.TopN(p.Of("a", 1), 0, cmp.Compare[int])) }, "E018", "first 0", "1 or more"},
	"the first of no order": {
		func(p *flow.Pipeline) { ranked(flow.TopNByKey(p.Of("a", 1).KeyBy(self), 2, nil)) }, "E018", "no order", "SortFunc"},
	"partitioner without a function": {
		func(p *flow.Pipeline) { p.Of("a", 1).PartitionBy(nil).To("out", drop[int]()) }, "E018", "PartitionBy", "function"},
	"two partitioners": {
		func(p *flow.Pipeline) { p.Of("a", 1).Rebalance().PartitionBy(firstConsumer).To("out", drop[int]()) },
		"E018", "partitioned already", "one partitioner"},
	"keys behind a partitioner": {
		func(p *flow.Pipeline) { p.Of("a", 1).Global().KeyBy(self).Reduce(sum).To("out", drop[int]()) },
		"E018", "KeyBy", "one partitioner"},
	"nondeterministic side output": {
		func(p *flow.Pipeline) {
			s := p.Of("a", 1).Process(newSplitter)
			s.To("out", drop[int]())
			s.SideOutput(tag).Nondeterministic().To("late", drop[int]())
		}, "E017", "Nondeterministic", "operator's stream"},
	"history that never ends": {
		func(p *flow.Pipeline) {
			p.From("both", flow.Concat(endless[int]{}, flow.Values(1))).To("out", drop[int]())
		}, "E018", "history source is not bounded", "other arguments"},
	"nothing to follow": {
		func(p *flow.Pipeline) { p.From("both", flow.Concat(flow.Values(1), nil)).To("out", drop[int]()) },
		"E018", "without a live source", "other arguments"},
}

func TestEveryMisuseOnBoundedInputHasCodePlaceAndFix(t *testing.T) {
	for name, f := range batchFaults {
		t.Run(name, func(t *testing.T) {
			_, err := flow.Build("faulty", &flow.NoConfig{}, func(p *flow.Pipeline, _ *flow.NoConfig) error {
				f.build(p)
				return nil
			})
			plan, ok := errors.AsType[*flow.PlanError](err)
			if !ok {
				t.Fatalf("error is %v", err)
			}
			d := plan.Diagnostics[0]
			if len(plan.Diagnostics) != 1 || d.Code != f.code || !strings.Contains(d.Message, f.message) {
				t.Errorf("want one %s that says %q:\n%v", f.code, f.message, err)
			}
			if !strings.Contains(d.Where, "batch_errors_test.go:") {
				t.Errorf("place is %q", d.Where)
			}
			if len(d.Hints) == 0 || !strings.Contains(strings.Join(d.Hints, "\n"), f.fix) {
				t.Errorf("fix %q does not say %q", d.Hints, f.fix)
			}
		})
	}
}
