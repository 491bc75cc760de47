package process_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/operator/operatortest"
	"github.com/sluiceio/sluice/worker/operator/process"
	"github.com/sluiceio/sluice/worker/task"
)

// ruling sets rule ID to Add, or takes it away.
type ruling struct {
	ID, Add int
	Gone    bool
}

type ruledItem = operatortest.PairItem[event, ruling]

var errRule = errors.New("no such rule")

// adder emits each record with what the rules add to it.
func adder() (task.StageOf[event, string], task.StageOf[ruling, string]) {
	return process.Broadcast(process.BroadcastSpec[string, event, ruling, string]{
		Key: byKey,
		Open: func(s *keySetup) (f process.BroadcastFuncs[string, event, ruling, string], err error) {
			rules := s.Broadcast[int, int]("rules")
			f.Process = func(c *keyCtx, e event) error {
				if e.N < 0 {
					return errRule
				}
				n := e.N
				for _, add := range rules.All() {
					n += add
				}
				c.Emit(fmt.Sprint(c.Key(), n))
				return nil
			}
			f.Broadcast = func(c *process.BroadcastCtx, r ruling) error {
				if _, known := rules.Get(r.ID); r.Gone && !known {
					return errRule
				}
				if r.Gone {
					rules.Delete(c, r.ID)
				} else {
					rules.Put(c, r.ID, r.Add)
				}
				return c.Context().Err()
			}
			return f, nil
		},
		Options: process.Options{OnError: task.ErrorPolicy{Action: task.SkipOnError}},
	})
}

func TestBroadcastStateIsSeenByEveryKeyAndOutlivesRestarts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var items []ruledItem
		known := map[int]bool{}
		for i := range rapid.IntRange(0, 30).Draw(rt, "items") {
			it := ruledItem{At: element.Time(i), IsRight: rapid.Bool().Draw(rt, "rule")}
			if !it.IsRight {
				it.Left = event{rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "key"), rapid.IntRange(0, 9).Draw(rt, "n")}
			} else if it.Right.ID = rapid.IntRange(0, 3).Draw(rt, "rule id"); known[it.Right.ID] && rapid.Bool().Draw(rt, "gone") {
				it.Right.Gone = true
				delete(known, it.Right.ID)
			} else {
				it.Right.Add = rapid.IntRange(0, 1000).Draw(rt, "adds")
				known[it.Right.ID] = true
			}
			items = append(items, it)
		}
		operatortest.ConformPair(t, adder, items, func(done []ruledItem, end bool) []operatortest.Stamped[string] {
			last := len(done) - 1
			if end || done[last].IsRight {
				return nil
			}
			rules := map[int]int{}
			for _, it := range done {
				switch {
				case it.IsRight && it.Right.Gone:
					delete(rules, it.Right.ID)
				case it.IsRight:
					rules[it.Right.ID] = it.Right.Add
				}
			}
			n := done[last].Left.N
			for add := range maps.Values(rules) {
				n += add
			}
			return []operatortest.Stamped[string]{{Value: fmt.Sprint(done[last].Left.Key, n), At: done[last].At}}
		})
	})
}

// A subtask that skipped a broadcast record would go on with other rules than the others.
func TestAnErrorOfABroadcastRecordIsNeverSkipped(t *testing.T) {
	l, r := adder()
	p := operatortest.NewPair(t, task.NewRuntime(t.Context(), operatortest.Name), l, r)
	p.PushLeft(t, event{"a", -1}, 1)
	if err := p.Runtime.Err(); err != nil {
		t.Errorf("a record was not skipped: %v", err)
	}
	p.PushRight(t, ruling{ID: 7, Gone: true}, 2)
	if err := p.Runtime.Err(); !errors.Is(err, errRule) {
		t.Errorf("error %v", err)
	}
}

func TestBroadcastStateIsDeclaredWhereThereIsABroadcast(t *testing.T) {
	open := func(names ...string) func(*keySetup) error {
		return func(s *keySetup) error {
			for _, n := range names {
				s.Broadcast[int, int](n)
			}
			return nil
		}
	}
	states, err := process.DescribeBroadcast(nil, open("rules", "limits"))
	if err != nil || !slices.Equal([]string{states[0].Name, states[1].Name}, []string{"rules", "limits"}) || states[0].Kind != "broadcast" {
		t.Errorf("described %v, %v", states, err)
	}
	if _, err := process.DescribeBroadcast(nil, open("rules", "rules")); err == nil {
		t.Error("a name was used twice")
	}
	if _, err := process.Describe(nil, open("rules")); err == nil {
		t.Error("broadcast state without a broadcast input")
	}
}
