package state

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Whoever follows a vector by its changes misses none, and hears of nothing else.
func TestChangesAreThoseElementsThatDiffer(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(1, 200).Draw(r, "length")
		was := makeVec[int](n)
		e := was.edit()
		var want []int
		for range rapid.IntRange(0, 5).Draw(r, "edits") {
			i := rapid.IntRange(0, n-1).Draw(r, "index")
			e.set(i, rapid.IntRange(0, 1).Draw(r, "value"))
		}
		for i := range n {
			if was.at(i) != e.v.at(i) {
				want = append(want, i)
			}
		}
		if got := slices.Collect(changes(e.v, was)); !slices.Equal(got, want) {
			r.Fatalf("changes %v, want %v", got, want)
		}
		if got := slices.Collect(changes(e.v, vec[int]{})); len(got) != n {
			r.Fatalf("%d changes since nothing, want %d", len(got), n)
		}
	})
}
