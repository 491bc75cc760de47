package unkeyed_test

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/snapshot/chunk"
	"github.com/sluiceio/sluice/worker/state"
	"github.com/sluiceio/sluice/worker/state/unkeyed"
)

const groups = 16

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// subtask has a table of each kind.
type subtask struct {
	list  unkeyed.List[string]
	union *unkeyed.Union[int]
	rules *unkeyed.Broadcast[string, []int]

	wantList  []string
	wantUnion []int // its own
}

func own(i, p int) unkeyed.Groups {
	return unkeyed.Groups{First: (i*groups + p - 1) / p, End: ((i+1)*groups + p - 1) / p}
}

func open(i, p int) *subtask {
	o := state.Options{MaxParallelism: groups, Checkpoints: true}
	table := func(name string) state.Options { c := o; c.Table = name; return c }
	return &subtask{list: must(unkeyed.NewList[string](table("list"), own(i, p))), union: must(unkeyed.NewUnion[int](table("union"), own(i, p))),
		rules: must(unkeyed.NewBroadcast[string, []int](table("rules"), i))}
}

func (s *subtask) tables() []state.Table { return []state.Table{s.list, s.union, s.rules} }

// job is all subtasks, and what they should hold together.
type job struct {
	subtasks []*subtask
	rules    map[string][]int

	id    element.CheckpointID
	chain []*chunk.Reader
	lists []string
	union []int
	base  map[string][]int
	own   [][2]any // of each subtask, as of the checkpoint
}

func newJob(p int) *job {
	j := &job{rules: map[string][]int{}, base: map[string][]int{}}
	for i := range p {
		j.subtasks = append(j.subtasks, open(i, p))
		j.own = append(j.own, [2]any{[]string(nil), []int(nil)})
	}
	return j
}

func (j *job) update(t *rapid.T) {
	s := j.subtasks[rapid.IntRange(0, len(j.subtasks)-1).Draw(t, "subtask")]
	switch rapid.IntRange(0, 6).Draw(t, "op") {
	case 0, 1:
		vs := rapid.SliceOfN(rapid.StringN(0, 3, 3), 0, 5).Draw(t, "elements")
		s.list.Add(vs...)
		s.wantList = append(s.wantList, vs...)
	case 2:
		s.list.Clear()
		s.wantList = nil
	case 3:
		vs := rapid.SliceOfN(rapid.Int(), 0, 5).Draw(t, "elements")
		s.union.Add(vs...)
		s.wantUnion = append(s.wantUnion, vs...)
	case 4:
		s.union.Clear()
		s.wantUnion = nil
	case 5:
		k, v := rapid.StringMatching(`[a-d]`).Draw(t, "key"), []int{rapid.Int().Draw(t, "value")}
		for _, s := range j.subtasks {
			s.rules.Put(k, slices.Clone(v))
		}
		j.rules[k] = v
	case 6:
		k := rapid.StringMatching(`[a-d]`).Draw(t, "key")
		for _, s := range j.subtasks {
			s.rules.Delete(k)
		}
		delete(j.rules, k)
	}
}

func (j *job) check(t *rapid.T) {
	for i, s := range j.subtasks {
		if got := slices.Collect(s.list.All()); !slices.Equal(got, s.wantList) {
			t.Fatalf("list of %d is %v, want %v", i, got, s.wantList)
		}
		if got := slices.Collect(s.union.Own()); !slices.Equal(got, s.wantUnion) {
			t.Fatalf("part of %d is %v, want %v", i, got, s.wantUnion)
		}
		if d := cmp.Diff(j.rules, maps.Collect(s.rules.All())); d != "" {
			t.Fatalf("rules of %d: %s", i, d)
		}
		for _, tb := range s.tables() {
			if err := tb.Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func (j *job) checkpoint(t *rapid.T) {
	j.id++
	j.lists, j.union, j.base, j.own = nil, nil, maps.Clone(j.rules), nil
	for i, s := range j.subtasks {
		for _, tb := range s.tables() {
			snap := must(tb.Freeze(j.id, state.Delta))
			for done := false; !done; {
				done = must(snap.Step(3))
				for p, ok := snap.Take(); ok; p, ok = snap.Take() {
					if tb == state.Table(s.rules) && i > 0 {
						t.Fatalf("subtask %d writes the broadcast", i)
					}
					var b bytes.Buffer
					must(p.WriteTo(&b))
					j.chain = append(j.chain, must(chunk.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))))
				}
			}
			tb.Completed(j.id)
		}
		j.lists, j.union = append(j.lists, s.wantList...), append(j.union, s.wantUnion...)
		j.own = append(j.own, [2]any{slices.Clone(s.wantList), slices.Clone(s.wantUnion)})
	}
}

func (j *job) rewind(t *rapid.T) {
	for i, s := range j.subtasks {
		for _, tb := range s.tables() {
			if err := tb.Rewind(j.id); err != nil {
				t.Fatal(err)
			}
		}
		s.wantList, s.wantUnion = slices.Clone(j.own[i][0].([]string)), slices.Clone(j.own[i][1].([]int))
	}
	j.rules = maps.Clone(j.base)
}

// rescale restores at any parallelism.
func (j *job) rescale(t *rapid.T) {
	p := rapid.IntRange(1, 5).Draw(t, "parallelism")
	j.subtasks = nil
	var lists []string
	for i := range p {
		s := open(i, p)
		for _, tb := range s.tables() {
			if err := tb.Import(t.Context(), j.chain, own(i, p).First, own(i, p).End); err != nil {
				t.Fatal(err)
			}
			tb.Restored(j.id)
		}
		s.wantList, s.wantUnion = slices.Collect(s.list.All()), slices.Collect(s.union.Own())
		lists = append(lists, s.wantList...)
		all := slices.Collect(s.union.All())
		if slices.Sort(all); !slices.Equal(all, sorted(j.union)) {
			t.Fatalf("union of subtask %d is %v, want %v", i, all, sorted(j.union))
		}
		j.subtasks = append(j.subtasks, s)
	}
	if !slices.Equal(sorted(lists), sorted(j.lists)) {
		t.Fatalf("redistributed %v, want %v", lists, j.lists)
	}
	j.rules, j.own = maps.Clone(j.base), nil
	for _, s := range j.subtasks {
		j.own = append(j.own, [2]any{slices.Clone(s.wantList), slices.Clone(s.wantUnion)})
	}
}

func sorted[T int | string](s []T) []T { return slices.Sorted(slices.Values(s)) }

func TestUnkeyedStateEqualsItsModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		j := newJob(rapid.IntRange(1, 4).Draw(rt, "parallelism"))
		rt.Repeat(map[string]func(*rapid.T){"update": j.update, "update2": j.update, "checkpoint": j.checkpoint, "rewind": j.rewind, "rescale": j.rescale, "": j.check})
	})
}

// A list is spread: after a restore at a higher parallelism nobody holds all of it.
func TestAListIsSpread(t *testing.T) {
	j := newJob(1)
	for i := range 160 {
		j.subtasks[0].list.Add(string(rune('a' + i%26)))
	}
	var chain []*chunk.Reader
	snap := must(j.subtasks[0].list.Freeze(1, state.Delta))
	must(snap.Step(1000))
	p, _ := snap.Take()
	var b bytes.Buffer
	must(p.WriteTo(&b))
	chain = append(chain, must(chunk.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))))
	for i := range 4 {
		s := open(i, 4)
		if err := s.list.Import(t.Context(), chain, 0, groups); err != nil {
			t.Fatal(err)
		}
		if n := len(slices.Collect(s.list.All())); n != 40 {
			t.Errorf("subtask %d has %d of 160 elements", i, n)
		}
	}
}

func TestSubtasksWithoutKeyGroupsAreRefused(t *testing.T) {
	o := state.Options{MaxParallelism: groups}
	for _, g := range []unkeyed.Groups{{}, {3, 3}, {-1, 2}, {0, groups + 1}} {
		if _, err := unkeyed.NewList[int](o, g); err == nil {
			t.Errorf("a list of %v", g)
		}
		if _, err := unkeyed.NewUnion[int](o, g); err == nil {
			t.Errorf("a union of %v", g)
		}
	}
	if _, err := unkeyed.NewBroadcast[float64, int](o, 0); err == nil {
		t.Error("a float is a key")
	}
}
