package either_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sluiceio/sluice/worker/operator/either"
	"github.com/sluiceio/sluice/worker/task"
)

func TestBothInputsMeetInOneOperatorInOrderOfArrival(t *testing.T) {
	rt := task.NewRuntime(t.Context(), "both")
	made := 0
	left, right := either.Stages(task.StageOf[either.Of[int, string], string](
		func(_ *task.Runtime, out task.Push[string]) (task.Push[either.Of[int, string]], task.Operator, error) {
			made++
			return func(v either.Of[int, string]) { out(fmt.Sprint(v.Left, v.Right, v.IsRight)) }, task.Base{}, nil
		}))
	var got []string
	out := func(s string) { got = append(got, s) }
	ints, op, err := left(rt, out)
	if err != nil || op == nil {
		t.Fatal(op, err)
	}
	texts, _, err := right(rt, out)
	if err != nil {
		t.Fatal(err)
	}
	ints(1)
	texts("a")
	ints(2)
	if want := []string{"1false", "0atrue", "2false"}; made != 1 || !slices.Equal(got, want) {
		t.Errorf("made %d times, got %q, want %q", made, got, want)
	}
}

func TestKeysAreThoseOfTheSide(t *testing.T) {
	key := either.Key(func(i int) string { return fmt.Sprint(i) }, func(s string) string { return s })
	if l, r := key(either.Of[int, string]{Left: 7}), key(either.Of[int, string]{Right: "x", IsRight: true}); l != "7" || r != "x" {
		t.Errorf("keys %q, %q", l, r)
	}
}
