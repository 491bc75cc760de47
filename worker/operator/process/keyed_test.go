package process_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/operator/operatortest"
	"github.com/sluiceio/sluice/worker/operator/process"
	"github.com/sluiceio/sluice/worker/task"
)

type event struct {
	Key string
	N   int
}

type (
	keySetup = process.KeySetup[string, string]
	keyCtx   = process.KeyCtx[string, string]
	keyFn    = func(*keyCtx, event) error
)

func byKey(e event) string { return e.Key }

func keyedStage(open func(*keySetup) (keyFn, error)) task.StageOf[event, string] {
	return process.Keyed[string, event, string](byKey, open, process.Options{})
}

func TestStatesBelongToTheKeyOfTheRecord(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		type model struct {
			sum  int
			list []int
			seen map[int]int
		}
		want := map[string]*model{}
		var lines []string
		h := operatortest.New(t, keyedStage(func(s *keySetup) (keyFn, error) {
			sum, list, seen := s.Value[int]("sum", process.Life{}), s.List[int]("list", process.Life{}), s.Map[int, int]("seen", process.Life{})
			return func(c *keyCtx, e event) error {
				if e.N == 0 {
					sum.Clear()
					list.Clear()
					seen.Clear()
				} else {
					*sum.Ref() += e.N
					list.Append(e.N)
					*seen.Ref(e.N)++
				}
				m := want[c.Key()]
				if m == nil {
					m = &model{seen: map[int]int{}}
					want[c.Key()] = m
				}
				if e.N == 0 {
					*m = model{seen: map[int]int{}}
				} else {
					m.sum += e.N
					m.list = append(m.list, e.N)
					m.seen[e.N]++
				}
				got := &model{sum: sum.Get(), seen: map[int]int{}}
				for v := range list.All() {
					got.list = append(got.list, v)
				}
				for k, v := range seen.All() {
					got.seen[k] = v
				}
				if d := cmp.Diff(m, got, cmp.AllowUnexported(model{})); d != "" {
					lines = append(lines, d)
				}
				return nil
			}, nil
		}))
		for range rapid.IntRange(0, 50).Draw(rt, "records") {
			h.Push(t, event{rapid.StringMatching("[abc]").Draw(rt, "key"), rapid.IntRange(0, 3).Draw(rt, "n")}, 0)
		}
		if len(lines) > 0 || h.Runtime.Err() != nil {
			rt.Fatal(lines, h.Runtime.Err())
		}
	})
}

func TestOnEndRunsOncePerKeyWithState(t *testing.T) {
	h := operatortest.New(t, keyedStage(func(s *keySetup) (keyFn, error) {
		last := s.Value[int]("last", process.Life{})
		s.OnEnd(func(c *keyCtx) error {
			c.Emit(c.Key())
			return nil
		})
		return func(c *keyCtx, e event) error {
			last.Set(e.N)
			if e.N == 0 {
				last.Clear()
			}
			return nil
		}, nil
	}))
	for _, e := range []event{{"a", 1}, {"b", 1}, {"a", 2}, {"b", 0}, {"c", 3}} {
		h.Push(t, e, 5)
	}
	h.Watermark(t, 9)
	if got := h.Out(); len(got) != 0 {
		t.Fatalf("before the end: %v", got)
	}
	h.End(t)
	want := []operatortest.Stamped[string]{{Value: "a", At: element.MaxTime}, {Value: "c", At: element.MaxTime}}
	if d := cmp.Diff(want, h.Out()); d != "" {
		t.Error(d)
	}
	if h.StateBytes() == 0 {
		t.Error("the size of the state is not measured")
	}
}

func TestOnEndStopsWhenTheAttemptDoes(t *testing.T) {
	operatortest.StopsEmitting(t, keyedStage(func(s *keySetup) (keyFn, error) {
		last := s.Value[int]("last", process.Life{})
		s.OnEnd(func(c *keyCtx) error {
			c.Emit(c.Key())
			return nil
		})
		return func(_ *keyCtx, e event) error { last.Set(e.N); return nil }, nil
	}), func(push func(event, element.Time)) {
		for i := range 100 {
			push(event{strconv.Itoa(i), 1}, 0)
		}
	})
}

func TestDescribeFindsDeclarationsAndTheirFaults(t *testing.T) {
	describe := func(open func(*keySetup)) ([]process.State, error) {
		return process.Describe(nil, func(s *keySetup) error {
			open(s)
			return nil
		})
	}
	got, err := describe(func(s *keySetup) {
		s.Value[int]("v", process.Life{})
		s.List[string]("l", process.Life{})
		s.Map[int, []byte]("m", process.Life{})
	})
	want := []process.State{{"value", "v", "i64", true}, {"list", "l", "str", true}, {"map", "m", "bytes", false}}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(d, err)
	}
	for name, open := range map[string]func(*keySetup){
		"twice":    func(s *keySetup) { s.Value[int]("x", process.Life{}); s.List[int]("x", process.Life{}) },
		"no name":  func(s *keySetup) { s.Value[int]("", process.Life{}) },
		"no codec": func(s *keySetup) { s.Value[func()]("f", process.Life{}) },
	} {
		if _, err := describe(open); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	broken := errors.New("broken")
	if _, err := process.Describe(nil, func(*keySetup) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("error of open: %v", err)
	}
}

func TestWithStateGivesTheCellOfTheKey(t *testing.T) {
	h := operatortest.New(t, process.WithState[string, int, event, string](byKey, process.Declared{Name: "n"}, func(c *process.Cell[string, int], e event, emit func(string)) error {
		if e.N < 0 {
			return errors.New("negative")
		}
		if !c.Exists() {
			emit("new " + c.Key())
		}
		*c.Ref() += e.N
		if *c.Ref() > 2 {
			emit("full " + c.Key())
			c.Clear()
		}
		return nil
	}, process.Options{}))
	for _, e := range []event{{"a", 1}, {"b", 1}, {"a", 2}, {"a", 1}} {
		h.Push(t, e, 1)
	}
	var got []string
	for _, o := range h.Out() {
		got = append(got, o.Value)
	}
	if d := cmp.Diff([]string{"new a", "new b", "full a", "new a"}, got); d != "" {
		t.Error(d)
	}
	h.Push(t, event{"a", -1}, 1)
	if err := h.Runtime.Err(); err == nil || !strings.Contains(err.Error(), operatortest.Name) {
		t.Errorf("error is %v", err)
	}
}

func TestKeyedProcessAllocatesNothingPerRecord(t *testing.T) {
	keys := []string{"a", "b", "c", "d"}
	h := operatortest.New(t, keyedStage(func(s *keySetup) (keyFn, error) {
		n := s.Value[int]("n", process.Life{})
		return func(c *keyCtx, e event) error { *n.Ref()++; c.Emit(c.Key()); return nil }, nil
	}))
	operatortest.NoAllocation(t, h, 100, func(i int) (event, element.Time) { return event{keys[i%4], i}, 0 })
}
