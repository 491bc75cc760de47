package worker

import (
	"slices"
	"testing"
)

func TestCandidatesBeginWithTheLikeliestLeader(t *testing.T) {
	f := newFinder([]string{"a", "b", "c"})
	expect := func(want ...string) {
		t.Helper()
		if got := f.candidates(); !slices.Equal(got, want) {
			t.Errorf("candidates %v, want %v", got, want)
		}
	}
	expect("a", "b", "c")
	f.hint("d")
	expect("d", "a", "b", "c")
	f.hint("b")
	f.hint("d")
	expect("d", "b", "a", "c")
	f.found("c")
	expect("c", "a", "b")
	f.suspect("c")
	expect("a", "b", "c")
	f.suspect("a")
	expect("b", "c", "a")
	for _, h := range []string{"1", "2", "3", "4", "5", "6"} { // followers that point in circles
		f.hint(h)
	}
	expect("6", "5", "4", "3", "b", "c", "a")
}
