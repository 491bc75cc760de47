package handle_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/snapshot/chunk"
	"github.com/sluiceio/sluice/worker/state"
	"github.com/sluiceio/sluice/worker/state/budget"
	"github.com/sluiceio/sluice/worker/state/handle"
	"github.com/sluiceio/sluice/worker/state/overflow"
)

const groups = 8

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
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

// operator has a state of every kind, with a time to live of 10 seconds.
type operator struct {
	d       *state.Directory[int]
	written *handle.Value[string]  // refreshed by writes
	read    *handle.Value[[]int64] // refreshed by reads
	visits  *handle.Map[int, int64]
	seen    *handle.Map[string, string] // refreshed by reads
	log     *handle.List[int64]
	sum     *handle.Reducing[int64]
	eternal *handle.Value[int64]
}

const life = 10 * time.Second

func newOperator(now func() time.Time, s *overflow.Store) *operator {
	o := state.Options{MaxParallelism: groups, Checkpoints: true, Now: now}
	if s != nil {
		o.Overflow, o.Budget = s, budget.New(1<<40)
	}
	d := must(state.NewDirectory[int](o))
	w, r := handle.Config{After: life}, handle.Config{After: life, Refresh: handle.OnRead}
	return &operator{d: d, written: must(handle.ValueOf[string](d, "written", w)), read: must(handle.ValueOf[[]int64](d, "read", r)),
		visits: must(handle.MapOf[int, int64](d, "visits", w)), seen: must(handle.MapOf[string, string](d, "seen", r)),
		log: must(handle.ListOf[int64](d, "log", w)), sum: must(handle.ReducingOf(d, "sum", func(a, b int64) int64 { return a + b }, w)),
		eternal: must(handle.ValueOf[int64](d, "eternal", handle.Config{}))}
}

// stamped is a value of the model.
type stamped[V any] struct {
	v  V
	at int64
}

type image struct {
	written *stamped[string]
	read    *stamped[[]int64]
	visits  map[int]stamped[int64]
	seen    map[string]stamped[string]
	log     []stamped[int64]
	sum     *stamped[int64]
	eternal *int64
}

func (m *image) clone() *image {
	c := *m
	if m.read != nil {
		c.read = &stamped[[]int64]{slices.Clone(m.read.v), m.read.at}
	}
	c.visits, c.seen, c.log = maps.Clone(m.visits), maps.Clone(m.seen), slices.Clone(m.log)
	return &c
}

type machine struct {
	store *overflow.Store
	o     *operator
	now   time.Time
	m     map[int]*image
	base  map[int]*image
	chain []*chunk.Reader
	id    element.CheckpointID
}

func newMachine(s *overflow.Store) *machine {
	x := &machine{store: s, now: time.Unix(1_700_000_000, 0), m: map[int]*image{}, base: map[int]*image{}}
	x.o = newOperator(x.clock, s)
	return x
}

func (x *machine) clock() time.Time { return x.now }

func (x *machine) us() int64 { return x.now.UnixMicro() }

func (x *machine) alive(at int64) bool { return x.us()-at < life.Microseconds() }

func (x *machine) pick(t *rapid.T) *image {
	k := rapid.IntRange(0, 9).Draw(t, "key")
	x.o.d.Seek(k, x.o.d.Hash(k))
	if x.m[k] == nil {
		x.m[k] = &image{visits: map[int]stamped[int64]{}, seen: map[string]stamped[string]{}}
	}
	return x.m[k]
}

func (x *machine) tick(t *rapid.T) {
	x.now = x.now.Add(time.Duration(rapid.Int64Range(0, int64(life)).Draw(t, "time")))
	if err := x.o.d.Maintain(rapid.IntRange(1, 20).Draw(t, "work")); err != nil {
		t.Fatal(err)
	}
}

func (x *machine) values(t *rapid.T) {
	im, n := x.pick(t), rapid.Int64Range(0, 99).Draw(t, "n")
	switch rapid.IntRange(0, 11).Draw(t, "op") {
	case 0:
		x.o.written.Set(fmt.Sprint(n))
		im.written = &stamped[string]{fmt.Sprint(n), x.us()}
	case 1:
		got, ok := x.o.written.Load()
		if want := im.written; ok != (want != nil && x.alive(want.at)) || ok && got != want.v {
			t.Fatalf("written is %q, %v; want %+v", got, ok, want)
		}
	case 2:
		*x.o.written.Ref() += "x"
		if im.written == nil || !x.alive(im.written.at) {
			im.written = &stamped[string]{"", 0}
		}
		im.written = &stamped[string]{im.written.v + "x", x.us()}
	case 3:
		x.o.written.Clear()
		im.written = nil
	case 4:
		x.o.read.Set([]int64{n})
		im.read = &stamped[[]int64]{[]int64{n}, x.us()}
	case 5, 6:
		got, ok := x.o.read.Load()
		if ok != (im.read != nil && x.alive(im.read.at)) || ok && !slices.Equal(got, im.read.v) {
			t.Fatalf("read is %v, %v; want %+v", got, ok, im.read)
		}
		if ok {
			got[0]++ // in place
			im.read.v[0]++
			im.read.at = x.us()
		}
	case 7:
		if ok := x.o.read.Exists(); ok != (im.read != nil && x.alive(im.read.at)) {
			t.Fatalf("read exists: %v; want %+v", ok, im.read)
		}
	case 8, 9:
		x.o.sum.Add(n)
		if im.sum == nil || !x.alive(im.sum.at) {
			im.sum = &stamped[int64]{}
		}
		im.sum = &stamped[int64]{im.sum.v + n, x.us()}
	case 10:
		x.o.sum.Clear()
		im.sum = nil
	case 11:
		x.o.eternal.Set(n)
		im.eternal = &n
	}
}

func (x *machine) collections(t *rapid.T) {
	im, n := x.pick(t), rapid.Int64Range(0, 99).Draw(t, "n")
	k, s := int(n%4), fmt.Sprint(n%3)
	switch rapid.IntRange(0, 10).Draw(t, "op") {
	case 0, 1:
		*x.o.visits.Ref(k) += n
		v := im.visits[k]
		if !x.alive(v.at) {
			v = stamped[int64]{}
		}
		im.visits[k] = stamped[int64]{v.v + n, x.us()}
	case 2:
		x.o.visits.Delete(k)
		delete(im.visits, k)
	case 3:
		if v, had := im.visits[k]; x.o.visits.Has(k) != (had && x.alive(v.at)) {
			t.Fatalf("visits of %d: %+v", k, v)
		}
	case 4, 5:
		x.o.seen.Put(s, fmt.Sprint(n))
		im.seen[s] = stamped[string]{fmt.Sprint(n), x.us()}
	case 6:
		got, ok := x.o.seen.Load(s)
		v, had := im.seen[s]
		if ok != (had && x.alive(v.at)) || ok && got != v.v {
			t.Fatalf("seen %q is %q, %v; want %+v", s, got, ok, v)
		}
		if ok {
			im.seen[s] = stamped[string]{v.v, x.us()}
		}
	case 7:
		for s, v := range x.o.seen.All() {
			if !x.alive(im.seen[s].at) || im.seen[s].v != v {
				t.Fatalf("seen %q is %q; want %+v", s, v, im.seen[s])
			}
			im.seen[s] = stamped[string]{v, x.us()}
		}
	case 8, 9:
		x.o.log.Append(n, n+1)
		im.log = append(im.log, stamped[int64]{n, x.us()}, stamped[int64]{n + 1, x.us()})
	case 10:
		x.o.log.Clear()
		im.log = nil
	}
}

// plain is what can be read of a state, without refreshing it.
type plain struct {
	Written, Sum string
	Visits       map[int]int64
	Log          []int64
	Eternal      int64
}

func (x *machine) check(t *rapid.T) {
	for k := range 10 {
		x.o.d.Seek(k, x.o.d.Hash(k))
		got := plain{x.o.written.Get(), fmt.Sprint(x.o.sum.Get()), maps.Collect(x.o.visits.All()), slices.Collect(x.o.log.All()), x.o.eternal.Get()}
		if len(got.Visits) != x.o.visits.Len() || len(got.Log) != x.o.log.Len() {
			t.Fatalf("key %d: Len is %d and %d of %+v", k, x.o.visits.Len(), x.o.log.Len(), got)
		}
		want := plain{Sum: "0", Visits: map[int]int64{}}
		if im := x.m[k]; im != nil {
			if im.written != nil && x.alive(im.written.at) {
				want.Written = im.written.v
			}
			if im.sum != nil && x.alive(im.sum.at) {
				want.Sum = fmt.Sprint(im.sum.v)
			}
			for j, v := range im.visits {
				if x.alive(v.at) {
					want.Visits[j] = v.v
				}
			}
			for _, v := range im.log {
				if x.alive(v.at) {
					want.Log = append(want.Log, v.v)
				}
			}
			if im.eternal != nil {
				want.Eternal = *im.eternal
			}
		}
		if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
			t.Fatalf("key %d: %s", k, d)
		}
	}
	if err := x.o.d.Err(); err != nil {
		t.Fatal(err)
	}
}

func clone(m map[int]*image) map[int]*image {
	c := map[int]*image{}
	for k, v := range m {
		c[k] = v.clone()
	}
	return c
}

func parts(t interface{ Fatal(...any) }, s *state.Snapshot) (chain []*chunk.Reader) {
	for done := false; !done; {
		var err error
		if done, err = s.Step(7); err != nil {
			t.Fatal(err)
		}
		for p, ok := s.Take(); ok; p, ok = s.Take() {
			var b bytes.Buffer
			must(p.WriteTo(&b))
			chain = append(chain, must(chunk.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))))
		}
	}
	return chain
}

func (x *machine) checkpoint(t *rapid.T) {
	x.id++
	base := clone(x.m)
	s := must(x.o.d.Freeze(x.id, state.Delta))
	x.values(t)
	x.collections(t)
	x.chain = append(x.chain, parts(t, s)...)
	x.o.d.Completed(x.id)
	x.base = base
}

func (x *machine) rewind(t *rapid.T) {
	if err := x.o.d.Rewind(x.id); err != nil {
		t.Fatal(err)
	}
	x.m = clone(x.base)
}

// crash restores another operator, from chunks that may be merged on the way.
func (x *machine) crash(t *rapid.T) {
	if err := x.o.d.Close(); err != nil {
		t.Fatal(err)
	}
	x.o = newOperator(x.clock, x.store)
	if len(x.chain) > 0 && rapid.Bool().Draw(t, "merge") {
		var b bytes.Buffer
		must(chunk.Merge(&b, x.chain, chunk.MergeOptions{End: groups, Base: true, Now: x.now}))
		x.chain = []*chunk.Reader{must(chunk.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len())))}
	}
	if err := x.o.d.Import(t.Context(), x.chain, 0, groups); err != nil {
		t.Fatal(err)
	}
	x.o.d.Restored(x.id)
	x.m = clone(x.base)
}

func (x *machine) evict(t *rapid.T) {
	for range rapid.IntRange(1, 10).Draw(t, "units") {
		state.EvictSome(x.o.d, rapid.IntRange(0, 6).Draw(t, "column"), rapid.Uint32Range(0, 10).Draw(t, "id"))
	}
}

func TestExpiringStateEqualsItsModel(t *testing.T) {
	for name, s := range map[string]*overflow.Store{"in memory": nil, "evicting": inMemory(t)} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				x := newMachine(s)
				all := map[string]func(*rapid.T){"values": x.values, "values2": x.values, "collections": x.collections, "collections2": x.collections, "tick": x.tick,
					"checkpoint": x.checkpoint, "rewind": x.rewind, "crash": x.crash, "": x.check}
				if s != nil {
					all["evict"], all["evict2"] = x.evict, x.evict
				}
				rt.Repeat(all)
				if err := x.o.d.Close(); err != nil {
					rt.Fatal(err)
				}
			})
		})
	}
}

// What nobody asks for any more goes by itself, from memory, from the overflow and from snapshots.
func TestWhatHasExpiredIsRemovedInTheBackground(t *testing.T) {
	for name, s := range map[string]*overflow.Store{"in memory": nil, "evicted": inMemory(t)} {
		x := newMachine(s)
		const keys = 500
		for k := range keys {
			x.o.d.Seek(k, x.o.d.Hash(k))
			x.o.written.Set("v")
			x.o.visits.Put(k, 1)
			x.o.log.Append(1, 2)
		}
		s1 := must(x.o.d.Freeze(1, state.Delta))
		x.chain = parts(t, s1)
		x.o.d.Completed(1)
		if s != nil {
			for range 2 * keys {
				state.EvictSome(x.o.d, 0, 0)
			}
			if n := x.o.d.Len(); n != 0 {
				t.Fatalf("%d rows did not leave", n)
			}
		}
		x.now = x.now.Add(life)
		for i := range 400 {
			if err := x.o.d.Maintain(64); err != nil {
				t.Fatal(err)
			}
			if i == 200 {
				x.chain = append(x.chain, parts(t, must(x.o.d.Freeze(2, state.Delta)))...)
				x.o.d.Completed(2)
			}
		}
		for k := range 2 * keys { // new keys free the rows of those that are gone
			x.o.d.Seek(keys+k, x.o.d.Hash(keys+k))
			x.o.eternal.Set(1)
			x.o.eternal.Clear()
		}
		x.chain = append(x.chain, parts(t, must(x.o.d.Freeze(3, state.Delta)))...)
		var b bytes.Buffer
		stats := must(chunk.Merge(&b, x.chain, chunk.MergeOptions{End: groups, Base: true}))
		if stats.Written != 0 {
			t.Errorf("%s: %d entries are left", name, stats.Written)
		}
		if st := x.o.d.Stats(); s != nil && st.Written == 0 {
			t.Errorf("%s: nothing was evicted", name)
		}
		if err := x.o.d.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestATimeToLiveMayComeAndGo(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	open := func(c handle.Config) (*state.Directory[int], *handle.Value[string], *handle.List[int64], *handle.Map[int, string]) {
		d := must(state.NewDirectory[int](state.Options{MaxParallelism: groups, Checkpoints: true, Now: func() time.Time { return now }}))
		return d, must(handle.ValueOf[string](d, "v", c)), must(handle.ListOf[int64](d, "l", c)), must(handle.MapOf[int, string](d, "m", c))
	}
	eternal, short := handle.Config{}, handle.Config{After: time.Minute}
	for _, turn := range [][2]handle.Config{{eternal, short}, {short, eternal}, {short, {After: time.Hour}}, {eternal, eternal}} {
		d, v, l, m := open(turn[0])
		d.Seek(1, d.Hash(1))
		v.Set("v")
		l.Append(1, 2)
		m.Put(3, "three")
		chain := parts(t, must(d.Freeze(1, state.Delta)))
		e, v, l, m := open(turn[1])
		if err := e.Import(t.Context(), chain, 0, groups); err != nil {
			t.Fatal(err)
		}
		e.Restored(1)
		e.Seek(1, e.Hash(1))
		if v.Get() != "v" || !slices.Equal(slices.Collect(l.All()), []int64{1, 2}) || m.Get(3) != "three" {
			t.Errorf("%v: %q, %v, %q", turn, v.Get(), slices.Collect(l.All()), m.Get(3))
		}
		now = now.Add(time.Minute)
		if err := e.Maintain(0); err != nil {
			t.Fatal(err)
		}
		e.Seek(1, e.Hash(1))
		if lives := turn[1].After != time.Minute; v.Exists() != lives || (l.Len() == 2) != lives || m.Has(3) != lives {
			t.Errorf("%v: a minute later %v, %d, %v", turn, v.Exists(), l.Len(), m.Has(3))
		}
	}
}

func TestTimesToLiveAreChecked(t *testing.T) {
	d := must(state.NewDirectory[int](state.Options{MaxParallelism: groups}))
	for _, after := range []time.Duration{-1, -time.Hour, 1} {
		var e *state.Error
		if _, err := handle.ValueOf[int](d, "v", handle.Config{After: after}); !errors.As(err, &e) || e.Code != state.CodeDeclare {
			t.Errorf("%v: %v", after, err)
		}
	}
	if _, err := handle.ListOf[int](d, "l", handle.Config{After: time.Hour, Refresh: handle.OnRead}); !errors.Is(err, handle.ErrListRefresh) {
		t.Errorf("a list that refreshes on reads: %v", err)
	}
}

func TestAggregating(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	d := must(state.NewDirectory[int](state.Options{MaxParallelism: groups, Checkpoints: true, Now: func() time.Time { return now }}))
	type mean struct{ Sum, Count int }
	a := must(handle.AggregatingOf(d, "mean", handle.Aggregate[int, mean, int]{
		New:    func() mean { return mean{} },
		Add:    func(m mean, v int) mean { return mean{m.Sum + v, m.Count + 1} },
		Result: func(m mean) int { return m.Sum / max(m.Count, 1) },
	}, handle.Config{After: time.Minute}))
	d.Seek(1, d.Hash(1))
	if a.Exists() || a.Get() != 0 {
		t.Error("something from nothing")
	}
	a.Add(10)
	a.Add(20)
	if a.Get() != 15 || !a.Exists() {
		t.Errorf("mean is %d", a.Get())
	}
	now = now.Add(time.Minute)
	if err := d.Maintain(0); err != nil {
		t.Fatal(err)
	}
	d.Seek(1, d.Hash(1))
	if a.Exists() {
		t.Error("the accumulator lives longer than a minute")
	}
	a.Add(3)
	if a.Get() != 3 {
		t.Errorf("mean is %d", a.Get())
	}
	a.Clear()
	if a.Exists() {
		t.Error("cleared and there")
	}
}
