package placement

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func workers(free ...int) (ws []Worker) {
	for i, f := range free {
		ws = append(ws, Worker{ID: fmt.Sprint("w", i), Free: f})
	}
	return ws
}

func TestSlotsGoWhereTheyRanBeforeThenToTheirInputsThenToTheFreest(t *testing.T) {
	for name, c := range map[string]struct {
		slots   []Slot
		workers []Worker
		want    map[int]string
	}{
		"the freest, in turn":             {[]Slot{{Number: 0}, {Number: 1}, {Number: 2}}, workers(1, 2), map[int]string{0: "w1", 1: "w0", 2: "w1"}},
		"previous":                        {[]Slot{{Number: 0, Previous: "w0"}}, workers(1, 9), map[int]string{0: "w0"}},
		"previous before inputs":          {[]Slot{{Number: 0, Previous: "w0", Inputs: []Bytes{{"w1", 100}}}}, workers(1, 9), map[int]string{0: "w0"}},
		"previous is full":                {[]Slot{{Number: 0, Previous: "w0"}}, workers(0, 1), map[int]string{0: "w1"}},
		"previous is gone":                {[]Slot{{Number: 0, Previous: "w7"}}, workers(1), map[int]string{0: "w0"}},
		"previous is kept from others":    {[]Slot{{Number: 0, Inputs: []Bytes{{"w0", 9}}}, {Number: 1, Previous: "w0"}}, workers(1, 1), map[int]string{0: "w1", 1: "w0"}},
		"inputs on one worker":            {[]Slot{{Number: 0, Inputs: []Bytes{{"w0", 9}}}, {Number: 1, Inputs: []Bytes{{"w0", 9}}}}, workers(2, 9), map[int]string{0: "w0", 1: "w0"}},
		"inputs on a full worker":         {[]Slot{{Number: 0, Inputs: []Bytes{{"w0", 9}, {"w1", 1}}}}, workers(0, 1, 5), map[int]string{0: "w1"}},
		"inputs nowhere":                  {[]Slot{{Number: 0, Inputs: []Bytes{{"w0", 0}, {"w9", 5}}}}, workers(1, 3), map[int]string{0: "w1"}},
		"equal bytes: the freer":          {[]Slot{{Number: 0, Inputs: []Bytes{{"w0", 5}, {"w1", 5}}}}, workers(1, 2), map[int]string{0: "w1"}},
		"what it has there counts":        {[]Slot{{Number: 0, Inputs: []Bytes{{"w0", 60}, {"w1", 40}}}}, []Worker{{"w0", 2, 1}, {"w1", 2, 0}}, map[int]string{0: "w1"}},
		"inputs before those without any": {[]Slot{{Number: 0}, {Number: 1, Inputs: []Bytes{{"w1", 1}}}}, workers(1, 1), map[int]string{0: "w0", 1: "w1"}},
	} {
		if got := Choose(c.slots, c.workers); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestSlotsThatReadFromEverywhereAreSpreadLikeTheBytes(t *testing.T) {
	for name, c := range map[string]struct {
		bytes []int64
		want  []int
	}{
		"nearly even": {[]int64{51, 49}, []int{5, 5}},
		"skewed":      {[]int64{90, 10}, []int{9, 1}},
		"one holds":   {[]int64{90, 0}, []int{10, 0}},
	} {
		var in []Bytes
		for i, b := range c.bytes {
			in = append(in, Bytes{fmt.Sprint("w", i), b})
		}
		var slots []Slot
		for i := range 10 {
			slots = append(slots, Slot{Number: i, Inputs: in})
		}
		count := map[string]int{}
		for _, w := range Choose(slots, workers(10, 10)) {
			count[w]++
		}
		for i, n := range c.want {
			if got := count[fmt.Sprint("w", i)]; got != n {
				t.Errorf("%s: worker %d got %d slots, want %d", name, i, got, n)
			}
		}
	}
}

func TestMergedInputsAreSums(t *testing.T) {
	a, b := []Bytes{{"w0", 1}, {"w1", 2}}, []Bytes{{"w1", 3}, {"w2", 4}}
	want := []Bytes{{"w0", 1}, {"w1", 5}, {"w2", 4}}
	if got := Merge(a, b); !slices.Equal(got, want) || a[1].Count != 2 || b[0].Count != 3 {
		t.Errorf("%v of %v and %v", got, a, b)
	}
	if got := Merge(nil, b); !slices.Equal(got, b) {
		t.Errorf("%v", got)
	}
	if got := Merge(a, nil); !slices.Equal(got, a) {
		t.Errorf("%v", got)
	}
}

func TestEverySlotGetsAWorkerAndNoWorkerMoreThanItHas(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var ws []Worker
		room := 0
		for i := range rapid.IntRange(1, 5).Draw(r, "workers") {
			w := Worker{ID: fmt.Sprint("w", i), Free: rapid.IntRange(0, 4).Draw(r, "free"), Held: rapid.IntRange(0, 3).Draw(r, "held")}
			room += w.Free
			ws = append(ws, w)
		}
		name := func() string { return fmt.Sprint("w", rapid.IntRange(0, 6).Draw(r, "name")) }
		var slots []Slot
		for i := range rapid.IntRange(0, room).Draw(r, "slots") {
			s := Slot{Number: i * 3}
			if rapid.Bool().Draw(r, "previous") {
				s.Previous = name()
			}
			for range rapid.IntRange(0, 3).Draw(r, "inputs") {
				s.Inputs = append(s.Inputs, Bytes{name(), int64(rapid.IntRange(0, 9).Draw(r, "bytes"))})
			}
			slots = append(slots, s)
		}
		got := Choose(slots, ws)
		if len(got) != len(slots) {
			r.Fatalf("%d of %d slots have a worker", len(got), len(slots))
		}
		used := map[string]int{}
		for _, w := range got {
			used[w]++
		}
		for _, w := range ws {
			if used[w.ID] > w.Free {
				r.Fatalf("worker %s got %d slots of %d", w.ID, used[w.ID], w.Free)
			}
			delete(used, w.ID)
		}
		if len(used) > 0 {
			r.Fatalf("workers that do not exist: %v", used)
		}
		if !maps.Equal(got, Choose(slots, ws)) {
			r.Fatal("the same question has two answers")
		}
	})
}
