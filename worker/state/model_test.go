package state

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/snapshot/chunk"
	"github.com/sluiceio/sluice/worker/state/budget"
	"github.com/sluiceio/sluice/worker/state/overflow"
)

const groups = 16

// operator has a state of every kind, flat and not flat.
type operator struct {
	d     *Directory[string]
	count *Value[int64]
	path  *Value[[]int64]
	word  *Value[string]
	sum   *Value[int64]
	hits  *Map[int32, int64]
	tags  *Map[string, []string]
	log   *List[int64]
	bags  *List[[]int64]
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// machinery is where the operators of a test live.
type machinery struct {
	checkpoints bool
	store       *overflow.Store // nil: everything stays in memory
}

func newOperator(m machinery) *operator {
	o := Options{MaxParallelism: groups, Checkpoints: m.checkpoints, Operator: "op"}
	if m.store != nil {
		o.Overflow, o.Budget = m.store, budget.New(1<<40)
	}
	d := must(NewDirectory[string](o))
	return &operator{d: d, count: must(ValueOf[int64](d, "count")), path: must(ValueOf[[]int64](d, "path")), word: must(ValueOf[string](d, "word")),
		sum:  must(ValueOf[int64](d, "sum")),
		hits: must(MapOf[int32, int64](d, "hits")), tags: must(MapOf[string, []string](d, "tags")),
		log: must(ListOf[int64](d, "log")), bags: must(ListOf[[]int64](d, "bags"))}
}

// image is what an operator holds for one key, as plain Go.
type image struct {
	Count *int64
	Path  *[]int64
	Word  *string
	Sum   *int64
	Hits  map[int32]int64
	Tags  map[string][]string
	Log   []int64
	Bags  [][]int64
}

func (m *image) clone() *image {
	c := *m
	if m.Count != nil {
		v := *m.Count
		c.Count = &v
	}
	if m.Path != nil {
		v := slices.Clone(*m.Path)
		c.Path = &v
	}
	if m.Word != nil {
		v := *m.Word
		c.Word = &v
	}
	if m.Sum != nil {
		v := *m.Sum
		c.Sum = &v
	}
	c.Hits, c.Tags, c.Log, c.Bags = maps.Clone(m.Hits), maps.Clone(m.Tags), slices.Clone(m.Log), slices.Clone(m.Bags)
	for k, v := range c.Tags {
		c.Tags[k] = slices.Clone(v)
	}
	for i, v := range c.Bags {
		c.Bags[i] = slices.Clone(v)
	}
	return &c
}

func (m *image) empty() bool {
	return m.Count == nil && m.Path == nil && m.Word == nil && m.Sum == nil && len(m.Hits)+len(m.Tags)+len(m.Log)+len(m.Bags) == 0
}

type model map[string]*image

func (m model) clone() model {
	c := model{}
	for k, v := range m {
		c[k] = v.clone()
	}
	return c
}

func (m model) at(k string) *image {
	if m[k] == nil {
		m[k] = &image{Hits: map[int32]int64{}, Tags: map[string][]string{}}
	}
	return m[k]
}

// image reads the state of the current key.
func (o *operator) image() *image {
	m := &image{Hits: maps.Collect(o.hits.All()), Tags: maps.Collect(o.tags.All()), Log: slices.Collect(o.log.All()), Bags: slices.Collect(o.bags.All())}
	if v, ok := o.count.Load(); ok {
		m.Count = &v
	}
	if v, ok := o.path.Load(); ok {
		m.Path = &v
	}
	if v, ok := o.word.Load(); ok {
		m.Word = &v
	}
	if v, ok := o.sum.Load(); ok {
		m.Sum = &v
	}
	return m
}

func (o *operator) seek(k string) { o.d.Seek(k, o.d.Hash(k)) }

type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

// check compares everything that o holds with m.
func (o *operator) check(t fataler, m model, when string) {
	t.Helper()
	got := model{}
	err := o.d.Each(func(k string) error {
		if k != o.d.Key() {
			return fmt.Errorf("Each(%q) while %q is current", k, o.d.Key())
		}
		got[k] = o.image()
		im := got[k]
		if o.hits.Len() != len(im.Hits) || o.tags.Len() != len(im.Tags) || o.log.Len() != len(im.Log) || o.bags.Len() != len(im.Bags) {
			return fmt.Errorf("key %q: Len is %d, %d, %d, %d of %+v", k, o.hits.Len(), o.tags.Len(), o.log.Len(), o.bags.Len(), im)
		}
		return nil
	})
	if err == nil {
		err = o.d.Err()
	}
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	want := model{}
	for k, v := range m {
		if !v.empty() {
			want[k] = v
		}
	}
	if !maps.EqualFunc(want, got, (*image).equal) {
		t.Fatalf("%s: (-want +got)\n%s", when, cmp.Diff(want, got, cmpopts.EquateEmpty()))
	}
}

func (m *image) equal(o *image) bool {
	return same(m.Count, o.Count) && same(m.Word, o.Word) && same(m.Sum, o.Sum) &&
		(m.Path == nil) == (o.Path == nil) && (m.Path == nil || slices.Equal(*m.Path, *o.Path)) &&
		maps.Equal(m.Hits, o.Hits) && maps.EqualFunc(m.Tags, o.Tags, slices.Equal) &&
		slices.Equal(m.Log, o.Log) && slices.EqualFunc(m.Bags, o.Bags, slices.Equal)
}

func same[V comparable](a, b *V) bool { return a == b || a != nil && b != nil && *a == *b }

// machine drives an operator and its model through everything that the life of a job can do to it.
type machine struct {
	ahead Ahead[string]
	machinery
	o     *operator
	m     model
	now   element.CheckpointID
	first int // keys below are gone

	snap   *Snapshot
	frozen map[element.CheckpointID]model    // undecided
	chunks map[element.CheckpointID][][]byte // of finished snapshots
	parts  [][]byte                          // of the snapshot that is being written
	bases  map[element.CheckpointID]element.CheckpointID
	base   element.CheckpointID              // completed
	done   model                             // as of base
	chains map[element.CheckpointID][][]byte // that restore completed checkpoints
}

func (x *machine) key(t *rapid.T) string {
	return fmt.Sprint("k", x.first+rapid.IntRange(0, 12).Draw(t, "key"))
}

// move clears the state of old keys for good and lets new ones come: rows, nodes and runs are used again.
func (x *machine) move(t *rapid.T) {
	for range rapid.IntRange(1, 6).Draw(t, "keys") {
		k := fmt.Sprint("k", x.first)
		x.o.seek(k)
		x.clear(k)
		x.first++
	}
	for i := range 12 {
		k := fmt.Sprint("k", x.first+i)
		x.o.seek(k)
		im := x.m.at(k)
		switch rapid.IntRange(0, 3).Draw(t, "state") {
		case 0:
			v := int64(i)
			x.o.count.Set(v)
			im.Count = &v
		case 1:
			x.o.hits.Put(int32(i), 1)
			im.Hits[int32(i)] = 1
		case 2:
			x.o.log.Append(1)
			im.Log = append(im.Log, 1)
		}
	}
}

func (x *machine) clear(k string) {
	x.o.count.Clear()
	x.o.path.Clear()
	x.o.word.Clear()
	x.o.sum.Clear()
	x.o.hits.Clear()
	x.o.tags.Clear()
	x.o.log.Clear()
	x.o.bags.Clear()
	delete(x.m, k)
}

func (x *machine) values(t *rapid.T) {
	k := x.key(t)
	x.o.seek(k)
	im, n := x.m.at(k), rapid.Int64Range(0, 1000).Draw(t, "n")
	switch rapid.IntRange(0, 12).Draw(t, "op") {
	case 0:
		x.o.count.Set(n)
		im.Count = &n
	case 1:
		*x.o.count.Ref() += n
		if im.Count == nil {
			im.Count = new(int64)
		}
		*im.Count += n
	case 2:
		x.o.count.Clear()
		im.Count = nil
	case 3:
		v := []int64{n}
		x.o.path.Set(slices.Clone(v))
		im.Path = &v
	case 4: // through a reference that a read gave
		if v := x.o.path.Get(); len(v) > 0 {
			v[0] = n
			(*im.Path)[0] = n
		}
	case 5:
		p := x.o.path.Ref()
		*p = append(*p, n)
		if im.Path == nil {
			im.Path = &[]int64{}
		}
		*im.Path = append(*im.Path, n)
	case 6:
		x.o.path.Clear()
		im.Path = nil
	case 7:
		x.o.sum.Set(x.o.sum.Get() + n)
		if im.Sum == nil {
			im.Sum = new(int64)
		}
		*im.Sum += n
	case 8:
		x.o.sum.Clear()
		im.Sum = nil
	case 9:
		w := fmt.Sprint("w", n)
		x.o.word.Set(w)
		im.Word = &w
	case 10:
		x.o.word.Clear()
		im.Word = nil
	case 11: // reading makes no rows
		rows := x.o.d.Len()
		x.o.seek("never written")
		x.o.image()
		if x.o.count.Exists() || x.o.d.Len() != rows {
			t.Fatalf("reading made a row")
		}
	case 12: // clear all
		x.clear(k)
	}
}

func (x *machine) collections(t *rapid.T) {
	k := x.key(t)
	x.o.seek(k)
	im, n := x.m.at(k), rapid.Int64Range(0, 1000).Draw(t, "n")
	mk := int32(n % 5)
	tag := fmt.Sprint("t", n%4)
	switch rapid.IntRange(0, 11).Draw(t, "op") {
	case 0:
		x.o.hits.Put(mk, n)
		im.Hits[mk] = n
	case 1:
		*x.o.hits.Ref(mk) += n
		im.Hits[mk] += n
	case 2:
		x.o.hits.Delete(mk)
		delete(im.Hits, mk)
	case 3: // delete while iterating, and write
		for j, v := range x.o.hits.All() {
			if v%2 == 0 {
				x.o.hits.Delete(j)
				delete(im.Hits, j)
			} else {
				x.o.hits.Put(j, v+1)
				im.Hits[j] = v + 1
				x.o.hits.Put(j+100, 2) // the loop may or may not meet it, and deletes it then
				im.Hits[j+100] = 2
			}
		}
	case 4:
		x.o.tags.Put(tag, []string{fmt.Sprint(n)})
		im.Tags[tag] = []string{fmt.Sprint(n)}
	case 5:
		for j, v := range x.o.tags.All() {
			if len(v) > 0 {
				v[0] = fmt.Sprint(n)
				im.Tags[j][0] = fmt.Sprint(n)
			}
		}
	case 6:
		x.o.tags.Delete(tag)
		delete(im.Tags, tag)
	case 7:
		vs := make([]int64, n%40)
		for i := range vs {
			vs[i] = n + int64(i)
		}
		x.o.log.Append(vs...)
		im.Log = append(im.Log, vs...)
	case 8:
		x.o.log.Clear()
		im.Log = nil
	case 9:
		x.o.bags.Append([]int64{n}, []int64{n + 1})
		im.Bags = append(im.Bags, []int64{n}, []int64{n + 1})
	case 10:
		i := 0
		for v := range x.o.bags.All() {
			v[0]++
			im.Bags[i][0]++
			i++
		}
	case 11:
		x.o.bags.Clear()
		im.Bags = nil
	}
}

func (x *machine) freeze(t *rapid.T) {
	x.now++
	extent := rapid.SampledFrom([]Extent{Delta, Delta, Delta, Full}).Draw(t, "extent")
	s, err := x.o.d.Freeze(x.now, extent)
	if err != nil {
		t.Fatal(err)
	}
	x.snap, x.parts = s, nil
	x.frozen[x.now] = x.m.clone()
	x.bases[x.now] = s.Base()
	if s.Extent() == Full {
		x.bases[x.now] = 0
	}
	if s.Base() != x.base {
		t.Fatalf("base is %d, completed is %d", s.Base(), x.base)
	}
}

// late reports an older checkpoint as completed while the snapshot of the next one is being written.
func (x *machine) late(t *rapid.T) {
	x.freeze(t)
	for x.snap != nil {
		x.step(t)
	}
	x.collections(t)
	x.values(t)
	x.freeze(t)
	x.complete(t)
	for x.snap != nil {
		x.move(t)
		x.step(t)
	}
	x.complete(t)
}

func (x *machine) step(t *rapid.T) {
	if x.snap == nil {
		return
	}
	done, err := x.snap.Step(rapid.IntRange(1, 20).Draw(t, "limit"))
	if err != nil {
		t.Fatal(err)
	}
	x.parts = append(x.parts, allTaken(t, x.snap)...)
	if done {
		x.chunks[x.snap.Checkpoint()] = x.parts
		x.snap = nil
	}
}

// checkpoint takes a whole checkpoint, with changes while it is being written.
func (x *machine) checkpoint(t *rapid.T) {
	x.freeze(t)
	for x.snap != nil {
		x.values(t)
		x.collections(t)
		x.step(t)
	}
	x.complete(t)
}

// complete picks any undecided checkpoint whose snapshot is finished: the newest one, or an older one whose notice was late.
func (x *machine) complete(t *rapid.T) {
	ids := slices.Sorted(maps.Keys(x.chunks))
	if len(ids) == 0 {
		return
	}
	id := rapid.SampledFrom(ids).Draw(t, "completed")
	x.chains[id] = append(slices.Clone(x.chains[x.bases[id]]), x.chunks[id]...)
	x.base, x.done = id, x.frozen[id]
	x.o.d.Completed(id)
	x.forget(func(other element.CheckpointID) bool { return other <= id })
	restored := x.restored(t)
	restored.check(t, x.done, fmt.Sprintf("restored %d", id))
	if err := restored.d.Close(); err != nil {
		t.Fatal(err)
	}
}

func (x *machine) forget(which func(element.CheckpointID) bool) {
	drop := func(id element.CheckpointID, _ model) bool { return which(id) }
	maps.DeleteFunc(x.frozen, drop)
	maps.DeleteFunc(x.chunks, func(id element.CheckpointID, _ [][]byte) bool { return which(id) })
	if x.snap != nil && which(x.snap.Checkpoint()) {
		x.snap = nil
	}
}

func (x *machine) abort(t *rapid.T) {
	ids := slices.Sorted(maps.Keys(x.frozen))
	if len(ids) == 0 {
		return
	}
	id := rapid.SampledFrom(ids).Draw(t, "aborted")
	x.o.d.Aborted(id)
	x.forget(func(other element.CheckpointID) bool { return other == id })
}

func (x *machine) rewind(t *rapid.T) {
	if err := x.o.d.Rewind(x.base); err != nil {
		t.Fatal(err)
	}
	x.m = x.done.clone()
	x.forget(func(element.CheckpointID) bool { return true })
}

// restored is a new operator, loaded from the chain in two halves, as after a rescale.
func (x *machine) restored(t *rapid.T) *operator {
	o := newOperator(x.machinery)
	cut := rapid.IntRange(0, groups).Draw(t, "cut")
	var chain []*chunk.Reader
	for _, b := range x.chains[x.base] {
		r, err := chunk.NewReader(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		chain = append(chain, r)
	}
	for _, part := range [][2]int{{cut, groups}, {0, cut}} {
		if err := o.d.Import(context.Background(), chain, part[0], part[1]); err != nil {
			t.Fatal(err)
		}
	}
	o.d.Restored(x.base)
	return o
}

func (x *machine) crash(t *rapid.T) {
	if err := x.o.d.Close(); err != nil {
		t.Fatal(err)
	}
	x.o = x.restored(t)
	x.m = x.done.clone()
	x.forget(func(element.CheckpointID) bool { return true })
}

// evict moves some units out of memory, whichever.
func (x *machine) evict(t *rapid.T) {
	for range rapid.IntRange(1, 20).Draw(t, "units") {
		x.o.d.t.EvictSome(rapid.IntRange(0, 8).Draw(t, "column"), rapid.Uint32Range(0, 20).Draw(t, "id"))
	}
	if err := x.o.d.Err(); err != nil {
		t.Fatal(err)
	}
}

// prefetch looks ahead at keys, whether they exist or not, and in memory or not, and then at all keys in the order of their
// groups. Keys that were looked at are found as they are when they are sought.
func (x *machine) prefetch(t *rapid.T) {
	var keys []string
	for range rapid.IntRange(0, AheadKeys).Draw(t, "keys") {
		keys = append(keys, x.key(t))
	}
	x.ahead.Take(keys, func(k string) string { return k }, x.o.d.Hash)
	x.o.d.Prefetch(&x.ahead)
	for _, k := range keys {
		if rapid.IntRange(0, 4).Draw(t, "evict") == 0 {
			x.evict(t)
		}
		if !x.o.d.SeekNext(&x.ahead) || x.o.d.Key() != k {
			t.Fatalf("%q is current, not %q", x.o.d.Key(), k)
		}
		im := x.m.at(k)
		if v, ok := x.o.count.Load(); ok != (im.Count != nil) || ok && v != *im.Count {
			t.Fatalf("key %q: %d (%t), not %v", k, v, ok, im.Count)
		}
		if rapid.Bool().Draw(t, "clear") {
			x.clear(k)
			continue
		}
		v := rapid.Int64().Draw(t, "count")
		x.o.count.Set(v)
		im.Count = &v
	}
	if x.o.d.SeekNext(&x.ahead) {
		t.Fatal("there is a key behind the last one")
	}
	if rapid.IntRange(0, 3).Draw(t, "walk") > 0 {
		return
	}
	last, seen := -1, map[string]bool{}
	if err := x.o.d.EachByGroup(func(k string) error {
		if g := x.o.d.KeyGroup(); g < last || seen[k] {
			return fmt.Errorf("key %q of group %d after group %d, or again", k, g, last)
		} else {
			last = g
		}
		seen[k] = true
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for k, im := range x.m {
		if seen[k] == im.empty() {
			t.Fatalf("key %q: seen %v, empty %v", k, seen[k], im.empty())
		}
	}
}

func newMachine(m machinery) *machine {
	return &machine{machinery: m, o: newOperator(m), m: model{}, done: model{}, frozen: map[element.CheckpointID]model{},
		chunks: map[element.CheckpointID][][]byte{}, bases: map[element.CheckpointID]element.CheckpointID{}, chains: map[element.CheckpointID][][]byte{}}
}

// actions are what can happen, some of them more often than others.
func (x *machine) actions() map[string]func(*rapid.T) {
	all := map[string]func(*rapid.T){
		"prefetch": x.prefetch,
		"values":   x.values, "values2": x.values, "move": x.move, "collections": x.collections, "collections2": x.collections,
		"collections3": x.collections, "freeze": x.freeze, "step": x.step, "step2": x.step, "complete": x.complete, "checkpoint": x.checkpoint,
		"late": x.late, "abort": x.abort, "rewind": x.rewind, "crash": x.crash,
	}
	if x.store != nil {
		all["evict"], all["evict2"], all["evict3"] = x.evict, x.evict, x.evict
	}
	return all
}

func (x *machine) close(t fataler) {
	if err := x.o.d.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

func inMemory(t testing.TB) *overflow.Store {
	s := must(overflow.New(overflow.Config{}))
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// check runs a property, ten thousand times if the run is a long one.
func check(t *testing.T, prop func(*rapid.T)) {
	t.Helper()
	if *long {
		old := flag.Lookup("rapid.checks").Value.String()
		if err := flag.Set("rapid.checks", "10000"); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := flag.Set("rapid.checks", old); err != nil {
				t.Error(err)
			}
		}()
	}
	rapid.Check(t, prop)
}

func eachMachinery(t *testing.T, f func(t *testing.T, m machinery)) {
	t.Run("in memory", func(t *testing.T) { f(t, machinery{checkpoints: true}) })
	t.Run("evicting", func(t *testing.T) { f(t, machinery{checkpoints: true, store: inMemory(t)}) })
}

func TestStateEqualsItsModelThroughEverything(t *testing.T) {
	eachMachinery(t, func(t *testing.T, m machinery) {
		check(t, func(rt *rapid.T) {
			x := newMachine(m)
			defer x.close(rt)
			all := x.actions()
			all[""] = func(t *rapid.T) { x.o.check(t, x.m, "now") }
			rt.Repeat(all)
		})
	})
}

// Reads through check count as writes of values that are not flat; this one looks at single keys only, so that
// most values are not touched in most epochs.
func TestStateEqualsItsModelWithFewReads(t *testing.T) {
	eachMachinery(t, func(t *testing.T, m machinery) {
		check(t, func(rt *rapid.T) {
			x := newMachine(m)
			defer x.close(rt)
			rt.Repeat(x.actions())
			x.o.check(rt, x.m, "end")
			x.rewind(rt)
			x.o.check(rt, x.m, "rewound")
		})
	})
}

func TestUntrackedStateEqualsItsModel(t *testing.T) {
	for _, m := range []machinery{{}, {store: inMemory(t)}} {
		check(t, func(rt *rapid.T) {
			x := newMachine(m)
			defer x.close(rt)
			all := map[string]func(*rapid.T){"values": x.values, "collections": x.collections, "move": x.move,
				"": func(t *rapid.T) { x.o.check(t, x.m, "now") }}
			if m.store != nil {
				all["evict"] = x.evict
			}
			rt.Repeat(all)
			if _, err := x.o.d.Freeze(1, Full); err == nil {
				rt.Fatal("state without checkpoints was frozen")
			}
		})
	}
}
