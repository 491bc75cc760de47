package state

import "testing"

// BenchmarkUniformMisses: updates of random keys of a state that is many times its budget, with a checkpoint now and
// then: nearly every one brings a row back and moves another one out.
func BenchmarkUniformMisses(b *testing.B) {
	x := newLarger(b, 1_000_000, 8<<20)
	for k := range int64(len(x.want)) {
		x.touch(k)
	}
	x.checkpoint(b)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		x.update(b, 1)
		if n++; n%200_000 == 0 {
			x.checkpoint(b)
		}
	}
}
