package bench

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluiceio/sluice/bench/ratio"
	"github.com/sluiceio/sluice/connector/discard"
	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/flow/flowtest"
	"github.com/sluiceio/sluice/internal/invariant"
	"github.com/sluiceio/sluice/internal/run"
)

// windowSize of the tumbling count, in records and in microseconds of event time: one record per microsecond.
const windowSize = 1 << 18

func departure(f flight) flow.Time { return flow.Time(f.Departure) }

// tumbling is source → keyBy → tumbling count → sink, between two subtasks.
func tumbling(tb testing.TB, n int) {
	var count atomic.Int64
	flowtest.Run(tb, &flow.NoConfig{}, func(p *flow.Pipeline, _ *flow.NoConfig) error {
		p.From("flights", source(n), flow.EventTime(departure)).
			KeyBy(carrier).
			Window(flow.Tumbling(windowSize*time.Microsecond)).Count().ID("count").
			To("out", discard.Sink[flow.Windowed[int64, int64]](&count))
		return nil
	}, flowtest.Cores(1), pipelined)
	if got := count.Load(); got == 0 || got > int64(n) {
		tb.Fatalf("%d results of %d records", got, n)
	}
}

// plainTumbling does the same by two goroutines and a map per window, which is used again.
func plainTumbling(n int) (results int) {
	full, free := make(chan *element.Batch[flight], 4), make(chan *element.Batch[flight], 8)
	g := run.NewGroup(context.Background(), "plain")
	g.Go("count", func(context.Context) error {
		counts, end := map[int64]int64{}, flow.Time(windowSize)
		for b := range full {
			for i := range b.Vals {
				for b.Times[i] >= end {
					results += len(counts)
					clear(counts)
					end += windowSize
				}
				counts[b.Vals[i].Carrier]++
			}
			b.Reset()
			select {
			case free <- b:
			default:
			}
		}
		results += len(counts)
		return nil
	})
	batch := &element.Batch[flight]{}
	for i := range int64(n) {
		f := flightOf(i)
		if codec.KeyGroup(codec.Mix(uint64(f.Carrier)), 256) >= 0 { // routing, to the one consumer
			batch.Append(f, departure(f))
		}
		if batch.Len() == 512 {
			full <- batch
			select {
			case batch = <-free:
			default:
				batch = &element.Batch[flight]{}
			}
		}
	}
	full <- batch
	close(full)
	if err := g.Wait(); err != nil {
		panic(err)
	}
	return results
}

func BenchmarkTumblingCount(b *testing.B) {
	b.ReportAllocs()
	tumbling(b, b.N)
}

func BenchmarkPlainTumblingCount(b *testing.B) {
	b.ReportAllocs()
	plainTumbling(b.N)
}

func TestSpeedTumblingCount(t *testing.T) {
	ratio.AtMost(t, 2.5, ratio.Wall, func(n int) { plainTumbling(n) }, func(n int) { tumbling(t, n) })
}

// TestSpeedKeyedJobsAllocateNothingPerRecord: what a job allocates does not grow with its records, once its keys are known. A
// watermark may cost a few allocations; there is one per batch at most.
func TestSpeedKeyedJobsAllocateNothingPerRecord(t *testing.T) {
	if invariant.Enabled {
		t.Skip("the race detector and the checks that come with it allocate per record; `make speed` runs this test")
	}
	const few, many = 600_000, 2_600_000 // more than two windows, and every key
	for name, job := range map[string]func(n int){
		"count":    func(n int) { keyed(t, n, 1) },
		"tumbling": func(n int) { tumbling(t, n) },
	} {
		t.Run(name, func(t *testing.T) {
			base := testing.AllocsPerRun(1, func() { job(few) })
			all := testing.AllocsPerRun(1, func() { job(many) })
			if perRecord := (all - base) / (many - few); perRecord > 0.01 {
				t.Errorf("%.4f allocations per record (%.0f for %d, %.0f for %d)", perRecord, base, few, all, many)
			}
		})
	}
}

// TestSpeedStart: a small embedded job is done before a person notices.
func TestSpeedStart(t *testing.T) {
	const limit = 50 * time.Millisecond
	least := time.Hour
	for range 10 {
		start := time.Now()
		small(t)
		least = min(least, time.Since(start))
	}
	if least > limit {
		t.Errorf("a job of 100 records takes %v, want %v", least, limit)
	}
}

// BenchmarkStart is the whole life of a small embedded job, from build to the end.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		small(b)
	}
}

func small(tb testing.TB) {
	flowtest.Run(tb, &flow.NoConfig{}, func(p *flow.Pipeline, _ *flow.NoConfig) error {
		p.From("in", source(100)).KeyBy(carrier).Count().To("out", discard.Sink[flow.KV[int64, int64]](new(atomic.Int64)))
		return nil
	})
}
