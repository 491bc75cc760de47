package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sluiceio/sluice/connector/discard"
	"github.com/sluiceio/sluice/connector/file"
	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/flow/launch"
	"github.com/sluiceio/sluice/flow/setting"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// flight is a record of the input.
type flight struct {
	Date        flow.Time `csv:"date,time"`
	Delay       int64     `csv:"delay"`
	Origin      string    `csv:"origin"`
	Destination string    `csv:"destination"`
	Row         int64     `csv:"row"`
}

// slot is a departure of the timetable.
type slot struct {
	Origin, Destination string
	Minute              int64 // of the day
}

type leg struct {
	At    slot
	Delay int64
}

func (l leg) slot() slot { return l.At }

// sums of the pairs of an origin: their number, and the products of their delays.
type sums struct{ Pairs, Products int64 }

type pair struct {
	Origin  string
	Product int64
}

// measured is what one run took.
type measured struct {
	took    time.Duration
	pairs   int64
	spilled int64 // bytes, as on disk
	records int64 // spilled ones
	depth   int32 // of recursive partitions
}

// join builds the job. pairs is where its result is added up.
func (c config) join(p *flow.Pipeline, pairs *atomic.Int64) {
	read := func(id string, keep func(flight) bool) flow.Stream[leg] {
		return p.From(id, file.CSV[flight](c.input, file.NoQuotes())).Filter(keep).ID(id + "-half").
			Map(func(f flight) leg {
				return leg{slot{f.Origin, f.Destination, int64(f.Date) / 60e6 % 1440}, f.Delay}
			}).ID(id + "-legs")
	}
	first := read("first", func(f flight) bool { return f.Row < c.half })
	second := read("second", func(f flight) bool { return f.Row >= c.half })
	first.KeyBy(leg.slot).
		Join(second.KeyBy(leg.slot), func(a, b leg, emit func(pair)) { emit(pair{a.At.Origin, a.Delay * b.Delay}) }).ID("pairs").
		KeyBy(func(p pair) string { return p.Origin }).
		Fold(func() sums { return sums{} }, func(s sums, p pair) sums { return sums{s.Pairs + 1, s.Products + p.Product} }).ID("per-origin").
		Peek(func(s flow.KV[string, sums]) { pairs.Add(s.Value.Pairs) }).ID("seen").
		To("out", discard.Sink[flow.KV[string, sums]](new(atomic.Int64)))
}

// run runs the join once with so many bytes of batch.memory.
func (c config) run(ctx context.Context, memory int64) (m measured, err error) {
	var pairs atomic.Int64
	p, err := flow.Build("curve", &flow.NoConfig{}, func(p *flow.Pipeline, _ *flow.NoConfig) error {
		c.join(p, &pairs)
		return nil
	})
	if err != nil {
		return m, err
	}
	prog, err := p.Program()
	if err != nil {
		return m, err
	}
	start := time.Now()
	job, err := launch.Embed(ctx, prog, launch.Embedding{Name: "curve", Slots: c.parallelism, Settings: map[string]string{
		setting.Parallelism: fmt.Sprint(c.parallelism),
		setting.BatchMemory: fmt.Sprint(memory),
		setting.StateMemory: "1%", // the job keeps no state: room for an unlimited join
	}})
	if err != nil {
		return m, err
	}
	m.took, m.pairs = time.Since(start), pairs.Load()
	if job.Status != jobpb.JobStatus_JOB_FINISHED {
		return m, fmt.Errorf("with %s: %v %s: %s", setting.Size(memory), job.Status, job.Failure.GetCode(), job.Failure.GetMessage())
	}
	for _, t := range job.Subtasks {
		m.spilled += t.Counters.GetSpilledBytes()
		m.records += t.Counters.GetSpilledRecords()
		m.depth = max(m.depth, t.Counters.GetSpillDepth())
	}
	return m, nil
}
