package stateless_test

import (
	"errors"
	"iter"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/operator/operatortest"
	"github.com/sluiceio/sluice/worker/operator/stateless"
	"github.com/sluiceio/sluice/worker/task"
)

// drawItems is a stream of small numbers.
func drawItems(t *rapid.T) []operatortest.Item[int] {
	var items []operatortest.Item[int]
	for range rapid.IntRange(0, 30).Draw(t, "items") {
		items = append(items, operatortest.Item[int]{
			Value: rapid.IntRange(-5, 5).Draw(t, "value"),
			At:    element.Time(rapid.Int64().Draw(t, "at")),
		})
	}
	return items
}

// each is the model of a stateless operator: what it makes of one value, with the time of its record.
func each[Out any](f func(int) []Out) func([]operatortest.Item[int], bool) []operatortest.Stamped[Out] {
	return func(items []operatortest.Item[int], end bool) []operatortest.Stamped[Out] {
		if end {
			return nil
		}
		last := items[len(items)-1]
		var outs []operatortest.Stamped[Out]
		for _, o := range f(last.Value) {
			outs = append(outs, operatortest.Stamped[Out]{Value: o, At: last.At})
		}
		return outs
	}
}

func repeat(v int) []string {
	var out []string
	for i := range max(v, 0) {
		out = append(out, strconv.Itoa(i))
	}
	return out
}

func TestStatelessOperatorsConform(t *testing.T) {
	square := func(v int) int { return v * v }
	seen := 0
	rapid.Check(t, func(rt *rapid.T) {
		items := drawItems(rt)
		operatortest.Conform(t, stateless.Map(square), items, each(func(v int) []int { return []int{v * v} }))
		operatortest.Conform(t, stateless.Filter(func(v int) bool { return v > 0 }), items, each(func(v int) []int {
			if v > 0 {
				return []int{v}
			}
			return nil
		}))
		operatortest.Conform(t, stateless.FlatMap(func(v int, emit func(string)) {
			for _, s := range repeat(v) {
				emit(s)
			}
		}), items, each(repeat))
		operatortest.Conform(t, stateless.FlatMapSeq(func(v int) iter.Seq[string] {
			return func(yield func(string) bool) {
				for _, s := range repeat(v) {
					if !yield(s) {
						t.Fatal("the operator stopped a sequence")
					}
				}
			}
		}), items, each(repeat))
		operatortest.Conform(t, stateless.Peek(func(int) { seen++ }), items, each(func(v int) []int { return []int{v} }))
		operatortest.Conform(t, stateless.Pass[int](), items, each(func(v int) []int { return []int{v} }))
	})
	if seen == 0 {
		t.Error("peek saw nothing")
	}
}

var errOdd = errors.New("odd")

func half(v int) (int, error) {
	if v%2 != 0 {
		return 0, errOdd
	}
	return v / 2, nil
}

func TestErrorsFollowThePolicy(t *testing.T) {
	open := func(tk *connector.Task) (func(int) (int, error), error) {
		if tk.Operator != operatortest.Name {
			return nil, errors.New("task of another operator")
		}
		return half, nil
	}
	emit := func(v int, emit func(int)) error {
		h, err := half(v)
		emit(h)
		return err
	}
	for name, make := range map[string]func(task.ErrorPolicy) task.StageOf[int, int]{
		"map":     func(p task.ErrorPolicy) task.StageOf[int, int] { return stateless.TryMap(half, p) },
		"mapwith": func(p task.ErrorPolicy) task.StageOf[int, int] { return stateless.MapWith(open, p) },
		"flatmap": func(p task.ErrorPolicy) task.StageOf[int, int] { return stateless.TryFlatMap(emit, p) },
	} {
		t.Run(name, func(t *testing.T) {
			skip := operatortest.New(t, make(task.ErrorPolicy{Action: task.SkipOnError}))
			for _, v := range []int{2, 3, 4} {
				skip.Push(t, v, 7)
			}
			var got []int
			for _, o := range skip.Out() {
				got = append(got, o.Value)
			}
			want := []int{1, 2}
			if name == "flatmap" {
				want = []int{1, 0, 2} // what was emitted before the error stays
			}
			if d := cmp.Diff(want, got); d != "" || skip.Runtime.Err() != nil {
				t.Errorf("skip: %s, error %v", d, skip.Runtime.Err())
			}
			fail := operatortest.New(t, make(task.ErrorPolicy{}))
			fail.Push(t, 3, 7)
			if err := fail.Runtime.Err(); !errors.Is(err, errOdd) || !strings.Contains(err.Error(), operatortest.Name) {
				t.Errorf("fail: error is %v, want the cause and the operator", err)
			}
		})
	}
}

func TestFatalErrorsAreNotSkipped(t *testing.T) {
	h := operatortest.New(t, stateless.TryMap(func(int) (int, error) { return 0, connector.Fatal(errOdd) }, task.ErrorPolicy{Action: task.SkipOnError}))
	h.Push(t, 1, 0)
	if err := h.Runtime.Err(); !errors.Is(err, errOdd) {
		t.Errorf("error is %v", err)
	}
}

func TestMapWithThatCannotOpenIsNotBuilt(t *testing.T) {
	broken := errors.New("broken")
	_, err := operatortest.Build(t, stateless.MapWith(func(*connector.Task) (func(int) (int, error), error) { return nil, broken }, task.ErrorPolicy{}))
	if !errors.Is(err, broken) {
		t.Errorf("error is %v", err)
	}
}

func TestStatelessOperatorsAllocateNothing(t *testing.T) {
	record := func(i int) (int, element.Time) { return i, element.Time(i) }
	stages := map[string]task.StageOf[int, int]{
		"map":     stateless.Map(func(v int) int { return v + 1 }),
		"trymap":  stateless.TryMap(func(v int) (int, error) { return v, nil }, task.ErrorPolicy{}),
		"filter":  stateless.Filter(func(v int) bool { return v&1 == 0 }),
		"flatmap": stateless.FlatMap(func(v int, emit func(int)) { emit(v); emit(v) }),
		"peek":    stateless.Peek(func(int) {}),
	}
	for name, stage := range stages {
		t.Run(name, func(t *testing.T) { operatortest.NoAllocation(t, operatortest.New(t, stage), 10, record) })
	}
}
