package task

import (
	"slices"
	"testing"
)

func TestChainDeliversEveryRecordInOrder(t *testing.T) {
	j := newJob(t)
	sink := &collected[int]{}
	src := j.source("ints", 1, NewSource(ints(10_000), SourceOptions[int]{}))
	m := j.then(src, "double", mapped(func(v int) int { return 2 * v }))
	f := j.then(m, "quarter", filtered(func(v int) bool { return v%4 == 0 }))
	j.then(f, "out", NewSink(sink))
	finished(t, j)
	var want []int
	for i := range 10_000 {
		if 2*i%4 == 0 {
			want = append(want, 2*i)
		}
	}
	if got := sink.written(); !slices.Equal(got, want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	if got := sink.writers[0].calls; !slices.Equal(got, []string{"flush", "end", "prepare", "close"}) {
		t.Errorf("sink saw %v", got)
	}
}
