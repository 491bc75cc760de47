package task

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/proto/jobpb"
)

var partitioners = []jobpb.Partitioner{
	jobpb.Partitioner_PARTITIONER_FORWARD, jobpb.Partitioner_PARTITIONER_HASH, jobpb.Partitioner_PARTITIONER_REBALANCE,
	jobpb.Partitioner_PARTITIONER_RESCALE, jobpb.Partitioner_PARTITIONER_BROADCAST, jobpb.Partitioner_PARTITIONER_GLOBAL,
	jobpb.Partitioner_PARTITIONER_CUSTOM,
}

// A random job over integers: sources, and operators that read any stream made before, chained or over an edge. The
// plain computation of the same functions says what each sink has to get.
func TestAnyTreeGivesThePlainResult(t *testing.T) {
	c := mustCodec[int](t)
	hash := mustHash[int](t)
	rapid.Check(t, func(rt *rapid.T) {
		j := newJob(t)
		type stream struct {
			op          int32
			parallelism int
			vals        []int
			used        bool
		}
		var streams []*stream
		for i := range rapid.IntRange(1, 2).Draw(rt, "sources") {
			n, p := rapid.IntRange(0, 3000).Draw(rt, "records"), rapid.IntRange(1, 3).Draw(rt, "parallelism")
			src := ints(n)
			src.splits = rapid.IntRange(1, 5).Draw(rt, "splits")
			s := &stream{op: j.source(fmt.Sprint("src", i), p, NewSource(src, SourceOptions[int]{Watermarks: WatermarksBounded})), parallelism: p}
			for v := range n {
				s.vals = append(s.vals, v)
			}
			streams = append(streams, s)
		}
		// edge draws how the operator reads s, with how many subtasks, and what of it arrives.
		edge := func(s *stream, parallelism int, st Stage) (end, []int) {
			by := rapid.SampledFrom(partitioners).Draw(rt, "partitioner")
			if by == jobpb.Partitioner_PARTITIONER_FORWARD && s.parallelism != parallelism {
				by = jobpb.Partitioner_PARTITIONER_REBALANCE
			}
			e, vals := end{from: s.op, by: by, x: NewExchange(c), st: st, stored: rapid.Bool().Draw(rt, "stored")}, s.vals
			e.phase = rapid.Int32Range(0, 1).Draw(rt, "phase")
			switch by {
			case jobpb.Partitioner_PARTITIONER_HASH:
				e.x = NewKeyedExchange(c, func(v int) int { return v % 17 }, hash)
			case jobpb.Partitioner_PARTITIONER_CUSTOM:
				e.x = NewCustomExchange(c, func(v, consumers int) int { return v % consumers })
			case jobpb.Partitioner_PARTITIONER_BROADCAST:
				vals = slices.Concat(slices.Repeat([][]int{vals}, parallelism)...)
			}
			return e, vals
		}
		for i := range rapid.IntRange(1, 6).Draw(rt, "operators") {
			s := rapid.SampledFrom(streams).Draw(rt, "input")
			s.used = true
			id := fmt.Sprint("op", i)
			st, f := drawStage(rt)
			out := &stream{parallelism: s.parallelism}
			vals := s.vals
			switch rapid.IntRange(0, 2).Draw(rt, "link") {
			case 0:
				out.op = j.then(s.op, id, st)
			case 1:
				out.parallelism = rapid.IntRange(1, 3).Draw(rt, "parallelism")
				var e end
				e, vals = edge(s, out.parallelism, st)
				out.op = j.join(id, out.parallelism, e)
			case 2: // a union
				o := rapid.SampledFrom(streams).Draw(rt, "other input")
				o.used = true
				out.parallelism = rapid.IntRange(1, 3).Draw(rt, "parallelism")
				e1, v1 := edge(s, out.parallelism, st)
				e2, v2 := edge(o, out.parallelism, st)
				out.op, vals = j.join(id, out.parallelism, e1, e2), slices.Concat(v1, v2)
			}
			for _, v := range vals {
				f(v, func(u int) { out.vals = append(out.vals, u) })
			}
			streams = append(streams, out)
		}
		var check []func()
		for i, s := range streams {
			if s.used && i%2 == 0 {
				continue
			}
			sink := &collected[int]{}
			j.then(s.op, fmt.Sprint("sink", i), NewSink(sink))
			check = append(check, func() {
				if got, want := sorted(sink.written()), sorted(s.vals); !slices.Equal(got, want) {
					rt.Fatalf("sink %d got %d records, the plain computation has %d\n%v\n%v", i, len(got), len(want), got[:min(20, len(got))], want[:min(20, len(want))])
				}
			})
		}
		finished(t, j)
		for _, f := range check {
			f()
		}
	})
}

// drawStage is a stage and the function that it computes.
func drawStage(rt *rapid.T) (Stage, func(int, func(int))) {
	k := rapid.IntRange(1, 5).Draw(rt, "k")
	switch rapid.IntRange(0, 2).Draw(rt, "kind") {
	case 0:
		return mapped(func(v int) int { return v + k }), func(v int, emit func(int)) { emit(v + k) }
	case 1:
		keep := func(v int) bool { return v%(k+1) != 0 }
		return filtered(keep), func(v int, emit func(int)) {
			if keep(v) {
				emit(v)
			}
		}
	}
	f := func(v int, emit func(int)) {
		for i := range v % (k + 1) {
			emit(v + i)
		}
	}
	return flatMapped(f), f
}
