package flow_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceio/sluice/connector/generate"
	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/flow/launch"
)

// census loads how many records each key has, and answers every record of the live side with that number.
type census struct{ of flow.ValueState[int64] }

func (c *census) Open(set *flow.Setup[int64, int64]) error {
	c.of = set.Value[int64]("of")
	return nil
}

func (c *census) Load(_ *flow.LoadCtx[int64], _ int64) error {
	*c.of.Ref()++
	return nil
}

func (c *census) Process(ctx *flow.Ctx[int64, int64], _ int64) error {
	ctx.Emit(c.of.Get())
	return nil
}

const (
	censusKeys    = 8
	censusRecords = 16_384 // more than all channels of the job hold
)

func censusKey(v int64) int64                       { return v % censusKeys }
func everything(int64) bool                         { return true }
func numbered(i int64) (int64, flow.Time)           { return i, flow.Time(i) }
func byCensusKey(s flow.Stream[int64]) censusOf     { return s.KeyBy(censusKey) }
func loaded(live, init censusOf) flow.Stream[int64] { return live.Bootstrap(init, newCensus) }
func newCensus() *census                            { return &census{} }

type censusOf = flow.KeyedStream[int64, int64]

// A Bootstrap whose two sides come of one source waits for its own input, unless something between is stored: the source cannot
// send to the side that is loaded without sending to the one behind the gate, which takes nothing yet.
func TestABootstrapWhoseSidesComeOfOneSourceDoesNotWaitForItself(t *testing.T) {
	// What is made of the source s, and how many times as many records as s has come out.
	pipelines := map[string]struct {
		build func(s flow.Stream[int64]) flow.Stream[int64]
		times int
	}{
		"directly": {func(s flow.Stream[int64]) flow.Stream[int64] {
			return loaded(byCensusKey(s).Exchange(flow.Pipelined), byCensusKey(s))
		}, 1},
		"by way of operators": {func(s flow.Stream[int64]) flow.Stream[int64] {
			return loaded(byCensusKey(s.Map(func(v int64) int64 { return v })).Exchange(flow.Pipelined), byCensusKey(s.Rebalance().Filter(everything)))
		}, 1},
		"by a union": {func(s flow.Stream[int64]) flow.Stream[int64] {
			return loaded(byCensusKey(s.Union(s.Filter(everything))).Exchange(flow.Pipelined), byCensusKey(s))
		}, 2},
		"beside the result": {func(s flow.Stream[int64]) flow.Stream[int64] {
			all := loaded(byCensusKey(s).Exchange(flow.Pipelined), byCensusKey(s))
			return all.Union(loaded(byCensusKey(s.Filter(everything)), byCensusKey(s)))
		}, 2},
	}
	for name, p := range pipelines {
		for _, mode := range []string{"auto", "streaming", "batch"} {
			for _, schedule := range []string{"region", "eager", "lazy"} {
				t.Run(strings.Join([]string{name, mode, schedule}, "/"), func(t *testing.T) {
					var sink bytes.Buffer
					job := flow.JobOf("census", func(pl *flow.Pipeline, _ *flow.NoConfig) error {
						p.build(pl.From("in", generate.Records(censusRecords, numbered))).To("out", lines[int64]{&sink}).Parallelism(1)
						return nil
					})
					code, _, stderr := call(job, "--sluice.parallelism=2", "--sluice.mode="+mode, "--sluice.schedule="+schedule)
					want := slices.Repeat([]string{fmt.Sprint(censusRecords / censusKeys)}, p.times*censusRecords)
					if got := strings.Fields(sink.String()); code != launch.ExitOK || !slices.Equal(got, want) {
						t.Errorf("exit %d, %d records, want %d of %s each: %s", code, len(got), len(want), want[0], stderr)
					}
				})
			}
		}
	}
}
