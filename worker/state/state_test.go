package state

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/snapshot/chunk"
	"github.com/sluiceio/sluice/worker/state/slab"
)

func newDirectory[K comparable](checkpoints bool) *Directory[K] {
	return must(NewDirectory[K](Options{MaxParallelism: groups, Checkpoints: checkpoints}))
}

// written takes a checkpoint at once and returns its chunk.
func written(t testing.TB, freeze func() (*Snapshot, error)) []byte {
	t.Helper()
	s, err := freeze()
	if err != nil {
		t.Fatal(err)
	}
	for done := false; !done; {
		if done, err = s.Step(100); err != nil {
			t.Fatal(err)
		}
	}
	return taken(t, s)
}

// taken is the only part of a snapshot that is done, or an empty chunk.
func taken(t fataler, s *Snapshot) []byte {
	t.Helper()
	parts := allTaken(t, s)
	switch len(parts) {
	case 0:
		var b bytes.Buffer
		must(must(chunk.NewWriter(s.Header())).WriteTo(&b))
		return b.Bytes()
	case 1:
		return parts[0]
	}
	t.Fatalf("%d parts", len(parts))
	return nil
}

// allTaken are the parts of a snapshot that are ready.
func allTaken(t fataler, s *Snapshot) (parts [][]byte) {
	t.Helper()
	for p, ok := s.Take(); ok; p, ok = s.Take() {
		var b bytes.Buffer
		if _, err := p.WriteTo(&b); err != nil {
			t.Fatalf("write a part: %v", err)
		}
		if err := p.Release(); err != nil {
			t.Fatalf("release a part: %v", err)
		}
		parts = append(parts, b.Bytes())
	}
	return parts
}

func reader(t testing.TB, b []byte) *chunk.Reader {
	t.Helper()
	r, err := chunk.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestMapLoopSurvivesReuseOfWhatItDeletes(t *testing.T) {
	d := newDirectory[int](false)
	m := must(MapOf[int, int](d, "m"))
	d.Seek(1, d.Hash(1))
	for i := range 6 {
		m.Put(i, i)
	}
	seen := map[int]bool{}
	var deleted []int
	for k := range m.All() {
		if seen[k] {
			t.Fatalf("%d came twice", k)
		}
		if len(seen) == 1 { // delete the first two, and reuse their memory
			deleted = append(deleted, k)
			for first := range maps.Keys(seen) {
				deleted = append(deleted, first)
			}
			for _, k := range deleted {
				m.Delete(k)
			}
			for i := range 10 {
				m.Put(100+i, 0)
			}
		}
		seen[k] = true
	}
	for i := range 6 {
		if !seen[i] {
			t.Errorf("%d did not come", i)
		}
	}
	if m.Len() != 6-2+10 {
		t.Errorf("%d entries", m.Len())
	}
}

func TestRefsStayValidWhileTheMapGrows(t *testing.T) {
	d := newDirectory[int](true)
	m := must(MapOf[int, int](d, "m"))
	d.Seek(1, d.Hash(1))
	p := m.Ref(0)
	for i := range 10 * (1 << slab.BlockBits) {
		m.Put(i+1, i)
	}
	*p = 7
	if m.Get(0) != 7 {
		t.Error("a write through Ref was lost")
	}
}

func TestChurnOfKeysReusesMemory(t *testing.T) {
	for _, checkpoints := range []bool{false, true} {
		d := newDirectory[string](checkpoints)
		v, m, l := must(ValueOf[int](d, "v")), must(MapOf[int, string](d, "m")), must(ListOf[int](d, "l"))
		var id element.CheckpointID
		for i := range 30_000 {
			k := fmt.Sprint("key-", i)
			d.Seek(k, d.Hash(k))
			v.Set(i)
			m.Put(i, k)
			l.Append(i)
			old := fmt.Sprint("key-", i-100)
			d.Seek(old, d.Hash(old))
			v.Clear()
			m.Clear()
			l.Clear()
			if checkpoints && i%1000 == 999 {
				id++
				written(t, func() (*Snapshot, error) { return d.Freeze(id, Delta) })
				d.Completed(id)
			}
		}
		n := 0
		if err := d.Each(func(string) error { n++; return nil }); err != nil || n != 100 {
			t.Errorf("%d keys live, %v", n, err)
		}
		if d.Len() > 3000 || d.Bytes() > 3<<20 {
			t.Errorf("checkpoints %v: %d rows, %d bytes for 100 keys", checkpoints, d.Len(), d.Bytes())
		}
	}
}

func TestReadingAKeyMakesNoRow(t *testing.T) {
	d := newDirectory[int](true)
	v, m, l := must(ValueOf[int](d, "v")), must(MapOf[int, int](d, "m")), must(ListOf[int](d, "l"))
	for k := range 1000 {
		d.Seek(k, d.Hash(k))
		v.Get()
		v.Clear()
		m.Get(1)
		m.Delete(1)
		m.Clear()
		l.Append()
		l.Clear()
		for range m.All() {
			t.Fatal("an entry from nowhere")
		}
		for range l.All() {
			t.Fatal("an element from nowhere")
		}
	}
	if d.Len() != 0 {
		t.Errorf("%d rows", d.Len())
	}
}

func TestHotPathAllocatesNothing(t *testing.T) {
	d := newDirectory[int64](true)
	v, m := must(ValueOf[int64](d, "v")), must(MapOf[int64, int64](d, "m"))
	k := int64(0)
	update := func() {
		k = (k + 1) % 100
		d.Seek(k, d.Hash(k))
		*v.Ref()++
		v.Set(v.Get() + 1)
		*m.Ref(k)++
	}
	for range 1000 {
		update()
	}
	if n := testing.AllocsPerRun(1000, update); n != 0 {
		t.Errorf("%v allocations per record", n)
	}
}

func TestKeysOfEveryForm(t *testing.T) {
	type pair struct {
		A string
		B int32
	}
	forms(t, []pair{{"a", 1}, {"a", 2}, {"", 1}})
	forms(t, []struct{}{{}})
	forms(t, []bool{true, false})
	forms(t, [][16]byte{{}, {1}, {15: 1}})
	forms(t, []element.Time{element.MinTime, 0, element.MaxTime})
	if _, err := NewDirectory[float64](Options{MaxParallelism: 1}); err == nil {
		t.Error("a float is a key")
	}
	if _, err := NewDirectory[int](Options{}); err == nil {
		t.Error("no key groups")
	}
}

func forms[K comparable](t *testing.T, keys []K) {
	t.Helper()
	d := newDirectory[K](true)
	m := must(MapOf[K, int](d, "m")) // no value state: a row is a key alone
	for i, k := range keys {
		d.Seek(k, d.Hash(k))
		m.Put(k, i)
	}
	b := written(t, func() (*Snapshot, error) { return d.Freeze(1, Full) })
	e := newDirectory[K](false)
	m = must(MapOf[K, int](e, "m"))
	if err := e.Import(t.Context(), []*chunk.Reader{reader(t, b)}, 0, groups); err != nil {
		t.Fatal(err)
	}
	for i, k := range keys {
		e.Seek(k, e.Hash(k))
		if v, ok := m.Load(k); !ok || v != i || e.Key() != k {
			t.Errorf("%T %v: got %v, %v", k, k, v, ok)
		}
	}
}

func TestManyKeysGrowAndShrinkTheIndex(t *testing.T) {
	d := newDirectory[int](false)
	v := must(ValueOf[int](d, "v"))
	const n = 300_000
	for k := range n {
		d.Seek(k, d.Hash(k))
		v.Set(k)
	}
	for k := range n {
		if k%3 != 0 {
			d.Seek(k, d.Hash(k))
			v.Clear()
		}
	}
	for k := n; k < n+n/3; k++ { // new keys free the rows of the cleared ones
		d.Seek(k, d.Hash(k))
		v.Set(k)
	}
	for k := range n + n/3 {
		d.Seek(k, d.Hash(k))
		if got, ok := v.Load(); ok != (k >= n || k%3 == 0) || ok && got != k {
			t.Fatalf("key %d: %d, %v", k, got, ok)
		}
	}
	if d.Len() > n+1 {
		t.Errorf("%d rows were made for at most %d keys at a time", d.Len(), n)
	}
}

func TestGivenUpSnapshotsSaySo(t *testing.T) {
	d := newDirectory[int](true)
	v := must(ValueOf[int](d, "v"))
	d.Seek(1, d.Hash(1))
	v.Set(1)
	first := must(d.Freeze(5, Delta))
	second := must(d.Freeze(6, Delta))
	if _, err := first.Step(1); !errors.Is(err, ErrAborted) {
		t.Errorf("a snapshot overtaken by the next barrier: %v", err)
	}
	d.Aborted(6)
	if _, err := second.Step(1); !errors.Is(err, ErrAborted) {
		t.Errorf("an aborted snapshot: %v", err)
	}
	third := must(d.Freeze(7, Delta))
	if err := d.Rewind(0); err != nil {
		t.Fatal(err)
	}
	if _, err := third.Step(1); !errors.Is(err, ErrAborted) {
		t.Errorf("a snapshot of a rewound state: %v", err)
	}
	if _, err := d.Freeze(7, Delta); err == nil {
		t.Error("a barrier came twice")
	}
	if err := d.Rewind(5); err == nil {
		t.Error("rewound to a checkpoint that is not known to be completed")
	}
}

func TestDeclarationsAreChecked(t *testing.T) {
	d := newDirectory[int](false)
	v := must(ValueOf[int](d, "v"))
	fails := func(want string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error about %q", err, want)
		}
	}
	_, err := ListOf[int](d, "v")
	fails("two states", err)
	_, err = ListOf[int](d, "")
	fails("empty name", err)
	_, err = ValueOf[chan int](d, "c")
	fails("E008", err)
	_, err = ListOf[func()](d, "f")
	fails("E008", err)
	_, err = MapOf[float64, int](d, "m")
	fails("E007", err)
	_, err = MapOf[int, chan int](d, "m")
	fails("E008", err)
	d.Seek(1, 1)
	v.Set(1)
	_, err = ValueOf[int](d, "late")
	fails("after the first record", err)
}

func TestLoadRefusesAnotherOperator(t *testing.T) {
	from := newDirectory[int](true)
	v := must(ValueOf[int32](from, "v"))
	for k := range 100 {
		from.Seek(k, from.Hash(k))
		v.Set(int32(k))
	}
	r := reader(t, written(t, func() (*Snapshot, error) { return from.Freeze(1, Full) }))

	none := newDirectory[int](true)
	var unknown *UnknownStateError
	if err := none.Import(t.Context(), []*chunk.Reader{r}, 0, groups); !errors.As(err, &unknown) || unknown.Name != "v" {
		t.Errorf("an unknown state: %v", err)
	}
	list := newDirectory[int](true)
	must(ListOf[int32](list, "v"))
	if err := list.Import(t.Context(), []*chunk.Reader{r}, 0, groups); err == nil || !strings.Contains(err.Error(), "kind") {
		t.Errorf("another kind: %v", err)
	}
	str := newDirectory[int](true)
	must(ValueOf[string](str, "v"))
	if err := str.Import(t.Context(), []*chunk.Reader{r}, 0, groups); err == nil || !strings.Contains(err.Error(), codec.CodeMigration) {
		t.Errorf("another type: %v", err)
	}
	key := newDirectory[string](true)
	must(ValueOf[int32](key, "v"))
	if err := key.Import(t.Context(), []*chunk.Reader{r}, 0, groups); err == nil || !strings.Contains(err.Error(), "key: "+codec.CodeMigration) {
		t.Errorf("another key: %v", err)
	}
	other := must(NewDirectory[int](Options{MaxParallelism: groups * 2}))
	must(ValueOf[int32](other, "v"))
	if err := other.Import(t.Context(), []*chunk.Reader{r}, 0, groups); err == nil || !strings.Contains(err.Error(), "key groups") {
		t.Errorf("another number of key groups: %v", err)
	}
	wide := newDirectory[int](true)
	w := must(ValueOf[int64](wide, "v"))
	if err := wide.Import(t.Context(), []*chunk.Reader{r}, 0, groups); err != nil {
		t.Fatalf("a wider type: %v", err)
	}
	wide.Restored(1)
	for k := range 100 {
		wide.Seek(k, wide.Hash(k))
		if w.Get() != int64(k) {
			t.Fatalf("key %d: %d", k, w.Get())
		}
	}
	if err := wide.Import(t.Context(), []*chunk.Reader{r}, 0, groups); err == nil {
		t.Error("loaded into a directory that is at work")
	}
}

func TestLoadRefusesAKeyInTheWrongGroup(t *testing.T) {
	d := newDirectory[int](true)
	must(ValueOf[int](d, "v"))
	w := must(chunk.NewWriter(d.Header()))
	k := 1
	key := must(must(codec.Of[int](nil)).Append(nil, &k))
	group := codec.KeyGroup(d.Hash(k), groups)
	if err := w.Add(&chunk.Entry{Group: (group + 1) % groups, Key: key, Value: []byte{2}}); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	must(w.WriteTo(&b))
	if err := d.Import(t.Context(), []*chunk.Reader{reader(t, b.Bytes())}, 0, groups); !errors.Is(err, chunk.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}

// FuzzLoad: entries that a chunk vouches for may still hold anything.
func FuzzLoad(f *testing.F) {
	f.Add(0, []byte{2, 'k'}, []byte{4}, false)
	f.Add(7, []byte{2, 'k', 'k', 0}, []byte{1, 3, 2}, false)
	f.Add(4, []byte{1, 'k', 6}, []byte{2}, true)
	f.Fuzz(func(t *testing.T, state int, key, value []byte, deleted bool) {
		o := newOperator(machinery{checkpoints: true})
		h := o.d.Header()
		w := must(chunk.NewWriter(h))
		state = int(uint(state) % uint(len(h.States)))
		k := ""
		e := chunk.Entry{State: state, Key: key, Value: value}
		if rest, err := must(codec.Of[string](nil)).Decode(key, &k); err == nil {
			e.Group = codec.KeyGroup(o.d.Hash(k), groups)
			e.Key, e.Sub = key[:len(key)-len(rest)], rest
		}
		if deleted {
			e.Op = chunk.Delete
		}
		for range 2 {
			_ = w.Add(&e)
		}
		var b bytes.Buffer
		must(w.WriteTo(&b))
		if err := o.d.Import(t.Context(), []*chunk.Reader{reader(t, b.Bytes())}, 0, groups); err != nil {
			return
		}
		o.d.Restored(1)
		if err := o.d.Each(func(string) error { o.image(); return nil }); err != nil {
			t.Fatal(err)
		}
	})
}

func TestFailureOfACodecEndsTheAttempt(t *testing.T) {
	type animal interface{ Sound() string }
	r := codec.NewRegistry()
	if err := codec.Variant[animal, cat](r, "cat"); err != nil {
		t.Fatal(err)
	}
	d := must(NewDirectory[int](Options{MaxParallelism: groups, Checkpoints: true, Registry: r}))
	v := must(ValueOf[animal](d, "v"))
	d.Seek(1, d.Hash(1))
	v.Set(cat{})
	s := must(d.Freeze(1, Delta))
	if _, err := s.Step(10); err != nil || d.Err() != nil {
		t.Fatal(err, d.Err())
	}
	v.Set(dog{})
	s = must(d.Freeze(2, Delta))
	if _, err := s.Step(10); err == nil || !strings.Contains(err.Error(), "dog") {
		t.Errorf("a value that cannot be encoded was written: %v", err)
	}
	v.Get()
	if err := d.Err(); err == nil || !strings.Contains(err.Error(), `state "v"`) {
		t.Errorf("no pre-image and no error: %v", err)
	}
}

type cat struct{}
type dog struct{}

func (cat) Sound() string { return "meow" }
func (dog) Sound() string { return "woof" }

// TestFreezeDoesNotDependOnSize compares allocation, which cannot be noisy: a barrier over many keys takes no more
// memory than one over few.
func TestFreezeDoesNotDependOnSize(t *testing.T) {
	allocs := func(keys int) float64 {
		d := newDirectory[int](true)
		v := must(ValueOf[int](d, "v"))
		for k := range keys {
			d.Seek(k, d.Hash(k))
			v.Set(k)
		}
		var id element.CheckpointID
		return testing.AllocsPerRun(10, func() {
			id++
			must(d.Freeze(id, Delta))
			d.Completed(id)
		})
	}
	if small, large := allocs(10), allocs(200_000); large > small+5 {
		t.Errorf("a barrier allocates %v times over 10 keys, %v times over 200000", small, large)
	}
}
