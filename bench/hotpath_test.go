package bench

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/sluiceio/sluice/bench/ratio"
	"github.com/sluiceio/sluice/connector/discard"
	"github.com/sluiceio/sluice/connector/generate"
	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/flow/flowtest"
	"github.com/sluiceio/sluice/internal/run"
)

// flight is the record: four words and a string.
type flight struct {
	ID, Carrier, Distance, Departure int64
	Origin                           string
}

// keys is the number of keys of keyed jobs.
const keys = 100_000

func flightOf(i int64) flight {
	return flight{ID: i, Carrier: int64(codec.Mix(uint64(i)) % keys), Distance: i & 4095, Departure: i, Origin: "SFO"}
}

func source(n int) flow.Source[flight] {
	return generate.Records(int64(n), func(i int64) (flight, element.Time) { return flightOf(i), element.Time(i) })
}

func farther(f flight) flight { f.Distance++; return f }
func even(f flight) bool      { return f.ID&1 == 0 }
func carrier(f flight) int64  { return f.Carrier }

// pipelined keeps the exchanges in memory, as those of endless input are: that is what the baselines do. What storing costs is
// measured beside shuffle/stored.
var pipelined = flowtest.Setting("mode", "streaming")

// job runs build over n records on so many cores and returns the number of records in the sink "out".
func job(tb testing.TB, n, cores int, build func(flow.Stream[flight], flow.Sink[flight], flow.Sink[flow.KV[int64, int64]])) int64 {
	var count atomic.Int64
	flowtest.Run(tb, &flow.NoConfig{}, func(p *flow.Pipeline, _ *flow.NoConfig) error {
		build(p.From("flights", source(n)), discard.Sink[flight](&count), discard.Sink[flow.KV[int64, int64]](&count))
		return nil
	}, flowtest.Cores(cores), pipelined)
	return count.Load()
}

// chain is source → map → filter → sink.
func chain(tb testing.TB, n int) {
	got := job(tb, n, 1, func(s flow.Stream[flight], out flow.Sink[flight], _ flow.Sink[flow.KV[int64, int64]]) {
		s.Map(farther).Filter(even).To("out", out)
	})
	if want := int64((n + 1) / 2); got != want {
		tb.Fatalf("%d records, want %d", got, want)
	}
}

// keyed is source → keyBy → count → sink.
func keyed(tb testing.TB, n, cores int) {
	got := job(tb, n, cores, func(s flow.Stream[flight], _ flow.Sink[flight], out flow.Sink[flow.KV[int64, int64]]) {
		s.KeyBy(carrier).Count().ID("count").To("out", out)
	})
	if got > keys || n >= keys && got < keys/2 {
		tb.Fatalf("%d keys of %d records", got, n)
	}
}

// ---------------------------------------------------------------- the plain versions

func plainMap[In, Out any](f func(In) Out, out func(Out)) func(In) { return func(v In) { out(f(v)) } }

func plainFilter[T any](f func(T) bool, out func(T)) func(T) {
	return func(v T) {
		if f(v) {
			out(v)
		}
	}
}

// plainChain does what chain does by generic closures, pushed by value.
func plainChain(n int) int64 {
	var count int64
	push := plainMap(farther, plainFilter(even, func(flight) { count++ }))
	for i := range int64(n) {
		push(flightOf(i))
	}
	return count
}

// plainKeyed does what keyed does by two goroutines that hand over recycled batches, and Go's map.
func plainKeyed(n int) int {
	full, free := make(chan []flight, 4), make(chan []flight, 8)
	counts := map[int64]int64{}
	g := run.NewGroup(context.Background(), "plain")
	g.Go("count", func(context.Context) error {
		for b := range full {
			for i := range b {
				counts[b[i].Carrier]++
			}
			select {
			case free <- b[:0]:
			default:
			}
		}
		return nil
	})
	batch := make([]flight, 0, 512)
	for i := range int64(n) {
		f := flightOf(i)
		if codec.KeyGroup(codec.Mix(uint64(f.Carrier)), 256) >= 0 { // routing, to the one consumer
			batch = append(batch, f)
		}
		if len(batch) == cap(batch) {
			full <- batch
			select {
			case batch = <-free:
			default:
				batch = make([]flight, 0, 512)
			}
		}
	}
	full <- batch
	close(full)
	if err := g.Wait(); err != nil {
		panic(err)
	}
	return len(counts)
}

// ---------------------------------------------------------------- measured

func BenchmarkChain(b *testing.B) {
	b.ReportAllocs()
	chain(b, b.N)
}

func BenchmarkPlainChain(b *testing.B) {
	b.ReportAllocs()
	plainChain(b.N)
}

func BenchmarkKeyedCount(b *testing.B) {
	b.ReportAllocs()
	keyed(b, b.N, 1)
}

func BenchmarkPlainKeyedCount(b *testing.B) {
	b.ReportAllocs()
	plainKeyed(b.N)
}

// BenchmarkKeyedCountOnTwo has two producers and two consumers: the whole machine.
func BenchmarkKeyedCountOnTwo(b *testing.B) {
	b.ReportAllocs()
	keyed(b, b.N, 2)
}

func TestSpeedChain(t *testing.T) {
	ratio.AtMost(t, 3, ratio.CPU, func(n int) { plainChain(n) }, func(n int) { chain(t, n) })
}

func TestSpeedKeyedCount(t *testing.T) {
	ratio.AtMost(t, 2.5, ratio.Wall, func(n int) { plainKeyed(n) }, func(n int) { keyed(t, n, 1) })
}

// TestChainAllocatesNothingPerRecord: what a job allocates does not grow with its input.
func TestChainAllocatesNothingPerRecord(t *testing.T) {
	const records = 1_000_000
	few := testing.AllocsPerRun(3, func() { chain(t, 1000) })
	many := testing.AllocsPerRun(3, func() { chain(t, records) })
	if perRecord := (many - few) / records; perRecord > 0.001 {
		t.Errorf("%.4f allocations per record (%.0f for 1,000 records, %.0f for %d)", perRecord, few, many, records)
	}
}
