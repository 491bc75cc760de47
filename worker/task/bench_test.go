package task

import (
	"context"
	"fmt"
	"testing"

	"github.com/sluiceio/sluice/bench/ratio"
	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/worker/task/layout"
)

// row is the record of the benchmarks: 32 bytes and a string.
type row struct {
	ID, Group, Price, Stamp int64
	Name                    string
}

func rowOf(i int) row {
	return row{ID: int64(i), Group: int64(i) & 1023, Price: int64(i) * 7, Stamp: int64(i), Name: "flight"}
}

// discard counts what it gets.
type discard[T any] struct{ n *int64 }

func (discard[T]) Guarantee() connector.Guarantee { return connector.AtLeastOnce }
func (d discard[T]) OpenWriter(context.Context, *connector.Task, [][]byte) (connector.Writer[T], error) {
	return &discardWriter[T]{n: d.n}, nil
}

type discardWriter[T any] struct {
	connector.NoCommit
	n *int64
}

func (w *discardWriter[T]) Write(context.Context, T, element.Time) error { *w.n++; return nil }
func (w *discardWriter[T]) Flush(context.Context) error                  { return nil }
func (w *discardWriter[T]) End(context.Context) error                    { return nil }
func (w *discardWriter[T]) Close() error                                 { return nil }

// rows is a source as a connector would write it: a tight loop over its own state.
type rows struct {
	n int
	counted[row]
}

func (s *rows) OpenReader(context.Context, *connector.Task) (connector.Reader[row], error) {
	return &rowReader{countedReader: countedReader[row]{s: &s.counted}, n: s.n}, nil
}

type rowReader struct {
	countedReader[row]
	i, n int
}

func (r *rowReader) Poll(_ context.Context, out *connector.Records[row]) error {
	for !out.Full() {
		if r.i == r.n {
			return nil2EOF(r)
		}
		out.Add(0, rowOf(r.i), element.Time(r.i), int64(r.i))
		r.i++
	}
	return nil
}

func nil2EOF(r *rowReader) error {
	for i := range r.splits {
		r.splits[i].next = r.splits[i].end
	}
	return r.countedReader.Poll(context.Background(), &connector.Records[row]{})
}

func rowSource(n int) *rows { return &rows{n: n, counted: *newRows(n)} }
func newRows(n int) *counted[row] {
	return &counted[row]{n: n, f: func(i int) (row, element.Time) { return rowOf(i), element.Time(i) }}
}

// chainJob is source → map → filter → sink over n rows.
func chainJob(t testing.TB, n int, o SourceOptions[row]) (*job, *int64) {
	count := new(int64)
	j := newJob(t)
	src := j.source("rows", 1, NewSource(rowSource(n), o))
	m := j.then(src, "map", mapped(func(r row) row { r.Price++; return r }))
	f := j.then(m, "filter", filtered(func(r row) bool { return r.ID&3 != 0 }))
	j.then(f, "out", NewSink(discard[row]{count}))
	return j, count
}

func plainMap[In, Out any](f func(In) Out, out func(Out)) func(In) { return func(v In) { out(f(v)) } }
func plainFilter[T any](f func(T) bool, out func(T)) func(T) {
	return func(v T) {
		if f(v) {
			out(v)
		}
	}
}

// plainChain is what chainJob does, without an engine: generic closures, pushed by value.
func plainChain(n int) int64 {
	var count int64
	push := plainMap(func(r row) row { r.Price++; return r },
		plainFilter(func(r row) bool { return r.ID&3 != 0 }, func(row) { count++ }))
	for i := range n {
		push(rowOf(i))
	}
	return count
}

func BenchmarkPlainChain(b *testing.B) {
	b.ReportAllocs()
	plainChain(b.N)
}

func BenchmarkChain(b *testing.B) {
	for _, c := range []struct {
		name string
		o    SourceOptions[row]
	}{
		{"NoTime", SourceOptions[row]{}},
		{"EventTime", SourceOptions[row]{EventTime: func(r row) element.Time { return element.Time(r.Stamp) }}},
		{"PerRecord", SourceOptions[row]{Watermarks: WatermarksPerRecord}},
	} {
		b.Run(c.name, func(b *testing.B) {
			j, _ := chainJob(b, b.N, c.o)
			b.ReportAllocs()
			b.ResetTimer()
			finished(b, j)
		})
	}
}

func TestSpeedChain(t *testing.T) {
	ratio.AtMost(t, 3, ratio.Wall,
		func(n int) { plainChain(n) },
		func(n int) {
			j, _ := chainJob(t, n, SourceOptions[row]{})
			finished(t, j)
		})
}

// counting counts records by key in a plain map.
func counting() Stage {
	return StageOf[row, int64](func(*Runtime, Push[int64]) (Push[row], Operator, error) {
		m := map[int64]int64{}
		return func(r row) { m[r.Group]++ }, Base{}, nil
	})
}

// keyedJob is source → keyBy → count over n rows.
func keyedJob(t testing.TB, n, consumers int) *job { return keyedJobOver(t, n, consumers, false) }

// keyedJobOver is keyedJob over an edge that is stored, or not.
func keyedJobOver(t testing.TB, n, consumers int, kept bool) *job {
	j := newJob(t)
	src := j.source("rows", 1, NewSource(rowSource(n), SourceOptions[row]{}))
	x := NewKeyedExchange(mustCodec[row](t), func(r row) int64 { return r.Group }, mustHash[int64](t))
	j.join("count", consumers, end{from: src, by: jobpb.Partitioner_PARTITIONER_HASH, x: x, st: counting(), stored: kept})
	return j
}

// plainKeyed is the same by goroutines and channels of recycled batches.
func plainKeyed(n, consumers int) {
	hash := func(k int64) uint64 { return codec.Mix(uint64(k)) }
	owner := layout.Owners(consumers, 128)
	g := run.NewGroup(context.Background(), "plain")
	full, free := make([]chan *element.Batch[row], consumers), make(chan *element.Batch[row], 8)
	outs := make([]*element.Batch[row], consumers)
	for c := range consumers {
		full[c], outs[c] = make(chan *element.Batch[row], 4), &element.Batch[row]{}
		g.Go("count", func(context.Context) error {
			counts := map[int64]int64{}
			for b := range full[c] {
				for _, r := range b.Vals {
					counts[r.Group]++
				}
				b.Reset()
				select {
				case free <- b:
				default:
				}
			}
			return nil
		})
	}
	for i := range n {
		r := rowOf(i)
		to := owner[codec.KeyGroup(hash(r.Group), 128)]
		outs[to].Append(r, element.Time(i))
		if outs[to].Len() == 512 {
			full[to] <- outs[to]
			select {
			case outs[to] = <-free:
			default:
				outs[to] = &element.Batch[row]{}
			}
		}
	}
	for c := range consumers {
		full[c] <- outs[c]
		close(full[c])
	}
	if err := g.Wait(); err != nil {
		panic(err)
	}
}

func BenchmarkKeyed(b *testing.B) {
	for _, consumers := range []int{1, 2} {
		b.Run(fmt.Sprint("Plain/", consumers), func(b *testing.B) {
			b.ReportAllocs()
			plainKeyed(b.N, consumers)
		})
		b.Run(fmt.Sprint("Job/", consumers), func(b *testing.B) {
			j := keyedJob(b, b.N, consumers)
			b.ReportAllocs()
			b.ResetTimer()
			finished(b, j)
		})
		b.Run(fmt.Sprint("Stored/", consumers), func(b *testing.B) { // files in memory: encode, write, read, decode
			j := keyedJobOver(b, b.N, consumers, true)
			b.ReportAllocs()
			b.ResetTimer()
			finished(b, j)
		})
	}
}

func TestSpeedKeyed(t *testing.T) {
	ratio.AtMost(t, 2.5, ratio.Wall,
		func(n int) { plainKeyed(n, 1) },
		func(n int) { finished(t, keyedJob(t, n, 1)) })
}

// TestSpeedKeyedRouting has to route: with one consumer there is nothing to decide.
func TestSpeedKeyedRouting(t *testing.T) {
	ratio.AtMost(t, 2.5, ratio.Wall,
		func(n int) { plainKeyed(n, 2) },
		func(n int) { finished(t, keyedJob(t, n, 2)) })
}
