package vector

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Whoever follows a vector by its changes misses none, and hears of nothing else.
func TestChangesAreThoseElementsThatDiffer(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(1, 200).Draw(r, "length")
		was := Make[int](n)
		e := was.Edit()
		var want []int
		for range rapid.IntRange(0, 5).Draw(r, "edits") {
			i := rapid.IntRange(0, n-1).Draw(r, "index")
			e.Set(i, rapid.IntRange(0, 1).Draw(r, "value"))
		}
		for i := range n {
			if was.At(i) != e.Vec().At(i) {
				want = append(want, i)
			}
		}
		if got := slices.Collect(Changes(e.Vec(), was)); !slices.Equal(got, want) {
			r.Fatalf("changes %v, want %v", got, want)
		}
		if got := slices.Collect(Changes(e.Vec(), Vec[int]{})); len(got) != n {
			r.Fatalf("%d changes since nothing, want %d", len(got), n)
		}
	})
}
