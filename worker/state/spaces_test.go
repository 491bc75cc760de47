package state

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/snapshot/chunk"
	"github.com/sluiceio/sluice/worker/state/budget"
	"github.com/sluiceio/sluice/worker/state/overflow"
)

// pane is what an operator declares in each namespace.
type pane struct {
	count *Value[int64]
	list  *List[int64]
}

func declarePane(d *Directory[string]) (p pane, err error) {
	if p.count, err = ValueOf[int64](d, "count"); err != nil {
		return p, err
	}
	p.list, err = ListOf[int64](d, "list")
	return p, err
}

func newPanes(checkpoints bool, s *overflow.Store) *Spaces[string, pane] {
	o := Options{MaxParallelism: groups, Checkpoints: checkpoints, Table: "panes"}
	if s != nil {
		o.Overflow, o.Budget = s, budget.New(1<<40)
	}
	return must(NewSpaces(o, 0, groups, declarePane))
}

// panes is a state of namespaces as plain Go.
type panes map[int64]map[string]paneImage

type paneImage struct {
	Count int64
	List  []int64
}

func (p panes) clone() panes {
	c := panes{}
	for id, m := range p {
		c[id] = map[string]paneImage{}
		for k, v := range m {
			c[id][k] = paneImage{v.Count, slices.Clone(v.List)}
		}
	}
	return c
}

type spaceMachine struct {
	store  *overflow.Store
	s      *Spaces[string, pane]
	m      panes
	base   panes
	snap   *Snapshot
	parts  []*chunk.Reader
	frozen map[element.CheckpointID]panes
	chunks map[element.CheckpointID][]*chunk.Reader
	bases  map[element.CheckpointID]element.CheckpointID
	chains map[element.CheckpointID][]*chunk.Reader
	id     element.CheckpointID
	done   element.CheckpointID
}

func newSpaceMachine(st *overflow.Store) *spaceMachine {
	return &spaceMachine{store: st, s: newPanes(true, st), m: panes{}, base: panes{}, frozen: map[element.CheckpointID]panes{},
		chunks: map[element.CheckpointID][]*chunk.Reader{}, bases: map[element.CheckpointID]element.CheckpointID{}, chains: map[element.CheckpointID][]*chunk.Reader{}}
}

func (x *spaceMachine) update(t *rapid.T) {
	id := rapid.Int64Range(-2, 3).Draw(t, "space")
	sp := must(x.s.Open(id))
	if x.m[id] == nil {
		x.m[id] = map[string]paneImage{}
	}
	for range rapid.IntRange(1, 4).Draw(t, "keys") {
		k := fmt.Sprint("k", rapid.IntRange(0, 9).Draw(t, "key"))
		sp.Dir.Seek(k, sp.Dir.Hash(k))
		v := x.m[id][k]
		switch rapid.IntRange(0, 3).Draw(t, "op") {
		case 0, 1:
			*sp.Handles.count.Ref()++
			v.Count++
		case 2:
			sp.Handles.list.Append(int64(len(v.List)))
			v.List = append(v.List, int64(len(v.List)))
		case 3:
			sp.Handles.count.Clear()
			sp.Handles.list.Clear()
			v = paneImage{}
		}
		x.m[id][k] = v
		if v.Count == 0 && v.List == nil {
			delete(x.m[id], k)
		}
	}
}

func (x *spaceMachine) drop(t *rapid.T) {
	if ids := slices.Sorted(maps.Keys(x.m)); len(ids) > 0 {
		id := rapid.SampledFrom(ids).Draw(t, "dropped")
		if sp := x.s.Find(id); sp != nil {
			x.s.Drop(sp)
		}
		delete(x.m, id)
	}
}

func (x *spaceMachine) check(t fataler, s *Spaces[string, pane], m panes, when string) {
	t.Helper()
	got, last := panes{}, int64(-100)
	for sp := range s.All() {
		if sp.ID <= last {
			t.Fatalf("%s: namespace %d after %d", when, sp.ID, last)
		}
		last = sp.ID
		if err := sp.Dir.EachByGroup(func(k string) error {
			if got[sp.ID] == nil {
				got[sp.ID] = map[string]paneImage{}
			}
			got[sp.ID][k] = paneImage{sp.Handles.count.Get(), slices.Collect(sp.Handles.list.All())}
			return nil
		}); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
	}
	want := m.clone()
	maps.DeleteFunc(want, func(_ int64, m map[string]paneImage) bool { return len(m) == 0 })
	if d := cmp.Diff(want, got); d != "" || s.Err() != nil {
		t.Fatalf("%s: %v\n%s", when, s.Err(), d)
	}
}

func (x *spaceMachine) freeze(t *rapid.T) {
	x.id++
	x.snap = must(x.s.all.Freeze(x.id, rapid.SampledFrom([]Extent{Delta, Delta, Full}).Draw(t, "extent")))
	x.parts, x.frozen[x.id], x.bases[x.id] = nil, x.m.clone(), x.snap.Base()
	if x.snap.Extent() == Full {
		x.bases[x.id] = 0
	}
}

func (x *spaceMachine) step(t *rapid.T) {
	if x.snap == nil {
		return
	}
	done, err := x.snap.Step(rapid.IntRange(1, 10).Draw(t, "limit"))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range allTaken(t, x.snap) {
		x.parts = append(x.parts, must(chunk.NewReader(bytes.NewReader(b), int64(len(b)))))
	}
	if done {
		x.chunks[x.snap.Checkpoint()], x.snap = x.parts, nil
	}
}

func (x *spaceMachine) forget(which func(element.CheckpointID) bool) {
	maps.DeleteFunc(x.frozen, func(id element.CheckpointID, _ panes) bool { return which(id) })
	maps.DeleteFunc(x.chunks, func(id element.CheckpointID, _ []*chunk.Reader) bool { return which(id) })
	if x.snap != nil && which(x.snap.Checkpoint()) {
		x.snap = nil
	}
}

func (x *spaceMachine) complete(t *rapid.T) {
	ids := slices.Sorted(maps.Keys(x.chunks))
	if len(ids) == 0 {
		return
	}
	id := rapid.SampledFrom(ids).Draw(t, "completed")
	x.chains[id] = append(slices.Clone(x.chains[x.bases[id]]), x.chunks[id]...)
	x.done, x.base = id, x.frozen[id]
	x.s.all.Completed(id)
	x.forget(func(other element.CheckpointID) bool { return other <= id })
	r := x.restored(t)
	x.check(t, r, x.base, "restored")
	if err := r.all.Close(); err != nil {
		t.Fatal(err)
	}
}

func (x *spaceMachine) abort(t *rapid.T) {
	if ids := slices.Sorted(maps.Keys(x.frozen)); len(ids) > 0 {
		id := rapid.SampledFrom(ids).Draw(t, "aborted")
		x.s.all.Aborted(id)
		x.forget(func(other element.CheckpointID) bool { return other == id })
	}
}

func (x *spaceMachine) rewind(t *rapid.T) {
	if err := x.s.all.Rewind(x.done); err != nil {
		t.Fatal(err)
	}
	x.m = x.base.clone()
	x.forget(func(element.CheckpointID) bool { return true })
}

// restored reads the chain, or a merge of it, in two halves.
func (x *spaceMachine) restored(t *rapid.T) *Spaces[string, pane] {
	s := newPanes(true, x.store)
	chain := x.chains[x.done]
	if len(chain) > 1 && rapid.Bool().Draw(t, "merge") {
		var b bytes.Buffer
		must(chunk.Merge(&b, chain, chunk.MergeOptions{End: groups, Base: true}))
		chain = []*chunk.Reader{must(chunk.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len())))}
	}
	cut := rapid.IntRange(0, groups).Draw(t, "cut")
	for _, part := range [][2]int{{cut, groups}, {0, cut}} {
		if err := s.all.Import(t.Context(), chain, part[0], part[1]); err != nil {
			t.Fatal(err)
		}
	}
	s.all.Restored(x.done)
	return s
}

func (x *spaceMachine) crash(t *rapid.T) {
	if err := x.s.all.Close(); err != nil {
		t.Fatal(err)
	}
	x.s, x.m = x.restored(t), x.base.clone()
	x.forget(func(element.CheckpointID) bool { return true })
}

func (x *spaceMachine) evict(t *rapid.T) {
	for sp := range x.s.All() {
		for range rapid.IntRange(0, 5).Draw(t, "units") {
			EvictSome(sp.Dir, rapid.IntRange(0, 1).Draw(t, "column"), rapid.Uint32Range(0, 9).Draw(t, "id"))
		}
	}
	if err := x.s.all.Maintain(5); err != nil {
		t.Fatal(err)
	}
}

func TestSpacesEqualTheirModel(t *testing.T) {
	eachMachinery(t, func(t *testing.T, m machinery) {
		check(t, func(rt *rapid.T) {
			x := newSpaceMachine(m.store)
			all := map[string]func(*rapid.T){"update": x.update, "update2": x.update, "drop": x.drop, "freeze": x.freeze, "step": x.step, "step2": x.step,
				"complete": x.complete, "abort": x.abort, "rewind": x.rewind, "crash": x.crash, "": func(t *rapid.T) { x.check(t, x.s, x.m, "now") }}
			if m.store != nil {
				all["evict"] = x.evict
			}
			rt.Repeat(all)
			if err := x.s.all.Close(); err != nil {
				rt.Fatal(err)
			}
		})
	})
}

func TestSpacesWithoutCheckpointsAreForgottenAtOnce(t *testing.T) {
	s := newPanes(false, nil)
	for i := range int64(100) {
		sp := must(s.Open(i))
		sp.Dir.Seek("k", sp.Dir.Hash("k"))
		sp.Handles.count.Set(i)
		if i >= 10 {
			s.Drop(s.Find(i - 10))
		}
	}
	if s.Len() != 10 || s.all.Bytes() > 10*16<<10 {
		t.Errorf("%d namespaces, %d bytes", s.Len(), s.all.Bytes())
	}
	if _, err := s.all.Freeze(1, Delta); err == nil {
		t.Error("state without checkpoints was frozen")
	}
	if err := s.all.Close(); err != nil {
		t.Error(err)
	}
}

func TestDeclarationsOfSpacesAreChecked(t *testing.T) {
	if _, err := NewSpaces(Options{MaxParallelism: groups}, 0, groups, func(d *Directory[int]) (int, error) {
		_, err := ValueOf[chan int](d, "c")
		return 0, err
	}); err == nil {
		t.Error("a state that cannot be encoded was declared")
	}
}

// A window that comes and goes between two barriers leaves no trace in snapshots.
func TestAShortLivedSpaceIsNotWritten(t *testing.T) {
	s := newPanes(true, nil)
	sp := must(s.Open(1))
	sp.Dir.Seek("k", sp.Dir.Hash("k"))
	sp.Handles.count.Set(1)
	s.Drop(sp)
	snap := must(s.all.Freeze(1, Delta))
	if done, err := snap.Step(100); !done || err != nil {
		t.Fatal(done, err)
	}
	if p, ok := snap.Take(); ok {
		t.Errorf("a part with %d entries", p.Len())
	}
}

func BenchmarkSpaces(b *testing.B) {
	s := must(NewSpaces(Options{MaxParallelism: 256, Checkpoints: true}, 0, 256, func(d *Directory[int64]) (*Value[int64], error) { return ValueOf[int64](d, "count") }))
	b.Run("open, 100 keys, drop", func(b *testing.B) {
		b.ReportAllocs()
		id := int64(0)
		for b.Loop() {
			sp := must(s.Open(id))
			for k := range int64(100) {
				sp.Dir.Seek(k, sp.Dir.Hash(k))
				*sp.Handles.Ref()++
			}
			s.Drop(sp)
			id++
		}
	})
	b.Run("freeze of 600", func(b *testing.B) {
		for id := range int64(600) {
			must(s.Open(id))
		}
		b.ReportAllocs()
		id := element.CheckpointID(0)
		for b.Loop() {
			id++
			must(s.all.Freeze(id, Delta))
			s.all.Completed(id)
		}
	})
}
