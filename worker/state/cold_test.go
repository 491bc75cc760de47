package state

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/worker/state/budget"
	"github.com/sluiceio/sluice/worker/state/column"
	"github.com/sluiceio/sluice/worker/state/overflow"
)

func evicting(t testing.TB) (*Directory[string], *overflow.Store) {
	s := inMemory(t)
	d := must(NewDirectory[string](Options{Operator: "op", MaxParallelism: groups, Checkpoints: true, Overflow: s, Budget: budget.New(1 << 40)}))
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d, s
}

// leave moves everything out of memory.
func leave[K comparable](t testing.TB, d *Directory[K]) {
	t.Helper()
	for range 100_000 {
		if d.Len() == 0 {
			return
		}
		EvictSome(d, len(d.t.States()), 0)
	}
	t.Fatalf("%d rows did not leave: %v", d.Len(), d.Err())
}

// A list that is longer than what comes back at once is read where it is, in order, together with what is in memory.
func TestLongListsAreReadInTheOverflow(t *testing.T) {
	d, _ := evicting(t)
	l := must(ListOf[int](d, "l"))
	at := func() { d.Seek("k", d.Hash("k")) }
	const n = 10_000
	want := make([]int, 0, n+3)
	at()
	for i := range n {
		l.Append(i)
		want = append(want, i)
	}
	leave(t, d)
	at()
	l.Append(n, n+1, n+2) // the last run comes back
	want = append(want, n, n+1, n+2)
	if got := slices.Collect(l.All()); !slices.Equal(got, want) || l.Len() != len(want) {
		i := 0
		for i < min(len(got), len(want)) && got[i] == want[i] {
			i++
		}
		t.Fatalf("%d elements, Len %d, want %d; element %d is %v: %v", len(got), l.Len(), len(want), i, got[i:min(i+3, len(got))], d.Err())
	}
	if s := d.Stats(); s.Returned > 5 {
		t.Errorf("%d units came back to be read once", s.Returned)
	}
	seen := 0
	for v := range l.All() {
		if seen++; v == 5000 {
			break
		}
	}
	if seen != 5001 {
		t.Errorf("the loop went on after its end: %d", seen)
	}
	for v := range l.All() {
		if v == 100 {
			l.Clear() // in the middle of its records
		}
		if v > 200 {
			t.Fatalf("element %d came after the list was cleared", v)
		}
	}
	if l.Len() != 0 || len(slices.Collect(l.All())) != 0 {
		t.Errorf("%d elements after Clear", l.Len())
	}
	l.Append(7)
	leave(t, d)
	at()
	if got := slices.Collect(l.All()); !slices.Equal(got, []int{7}) {
		t.Errorf("got %v", got)
	}
	if err := d.Rewind(0); err != nil || d.Err() != nil {
		t.Fatal(err, d.Err())
	}
	at()
	if l.Exists() {
		t.Errorf("%d elements after a rewind to nothing", l.Len())
	}
}

// A loop over a map that lies in the overflow may change it.
func TestLoopsOverMapsInTheOverflowMayChangeThem(t *testing.T) {
	d, _ := evicting(t)
	m, s := must(MapOf[int, int](d, "m")), must(MapOf[int, []int](d, "s"))
	at := func() { d.Seek("k", d.Hash("k")) }
	at()
	const n = 500
	for i := range n {
		m.Put(i, i)
		s.Put(i, []int{i})
	}
	leave(t, d)
	at()
	m.Put(3, 33) // one is in memory
	seen := map[int]int{}
	for k, v := range m.All() {
		if _, twice := seen[k]; twice {
			t.Fatalf("%d came twice", k)
		}
		seen[k] = v
		m.Delete(k + 1) // before its turn, or after
		m.Put(k, v+1)   // its own
		*m.Ref(n + k)++ // a new one
	}
	for k, v := range seen {
		if want := k; k == 3 {
			if v != 33 {
				t.Errorf("3 is %d", v)
			}
		} else if k < n && v != want {
			t.Errorf("%d is %d", k, v)
		}
	}
	for k, v := range s.All() {
		v[0]++ // what a reader changes in place is there
		if k%2 == 0 {
			s.Delete(k)
		}
	}
	if s.Len() != n/2 || s.Get(7)[0] != 8 {
		t.Errorf("%d entries, 7 is %v", s.Len(), s.Get(7))
	}
	leave(t, d)
	at()
	if got := maps.Collect(s.All()); len(got) != n/2 || got[7][0] != 8 {
		t.Errorf("%d entries, 7 is %v", len(got), got[7])
	}
	s.Clear()
	leave(t, d)
	at()
	if s.Len() != 0 || len(maps.Collect(s.All())) != 0 || s.Has(7) {
		t.Errorf("%d entries after Clear", s.Len())
	}
	if err := d.Err(); err != nil {
		t.Fatal(err)
	}
}

// What a slice leads to may be changed in place after a barrier; a rewind brings back what it was.
func TestChangesInPlaceAfterABarrierAreUndone(t *testing.T) {
	for _, evicted := range []bool{false, true} {
		d, _ := evicting(t)
		v, m, l := must(ValueOf[[]int](d, "v")), must(MapOf[int, []int](d, "m")), must(ListOf[[]int](d, "l"))
		d.Seek("k", d.Hash("k"))
		v.Set([]int{1})
		m.Put(1, []int{1})
		l.Append([]int{1})
		written(t, func() (*Snapshot, error) { return d.Freeze(1, Delta) })
		d.Completed(1)
		d.Seek("k", d.Hash("k"))
		v.Get()[0] = 2
		m.Get(1)[0] = 2
		for e := range l.All() {
			e[0] = 2
		}
		if evicted {
			leave(t, d)
		}
		if err := d.Rewind(1); err != nil {
			t.Fatal(err)
		}
		d.Seek("k", d.Hash("k"))
		if v.Get()[0] != 1 || m.Get(1)[0] != 1 || slices.Collect(l.All())[0][0] != 1 {
			t.Errorf("evicted %v: %v, %v, %v", evicted, v.Get(), m.Get(1), slices.Collect(l.All()))
		}
	}
}

func asError(t *testing.T, err error, code string) *Error {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Code != code {
		t.Fatalf("got %v, want an error of code %s", err, code)
	}
	return e
}

func TestAValueBeyondTheLimitNamesItsPlace(t *testing.T) {
	d, _ := evicting(t)
	v := must(ValueOf[[]byte](d, "blob"))
	d.Seek("some key", d.Hash("some key"))
	v.Set(make([]byte, 64<<20+1))
	s := must(d.Freeze(1, Delta))
	_, err := s.Step(10)
	e := asError(t, err, column.CodeSize)
	if e.Operator != "op" || e.State != "blob" || e.Key != "some key" {
		t.Errorf("the error names operator %q, state %q, key %q", e.Operator, e.State, e.Key)
	}
}

func TestAKeyThatCannotBeEncodedNamesItsPlace(t *testing.T) {
	d, _ := evicting(t)
	r := codec.NewRegistry()
	type animal interface{ Sound() string }
	if err := codec.Variant[animal, cat](r, "cat"); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	e := must(NewDirectory[string](Options{Operator: "op", MaxParallelism: groups, Checkpoints: true, Registry: r}))
	v := must(ValueOf[animal](e, "pet"))
	e.Seek("k", e.Hash("k"))
	v.Set(dog{})
	_, err := must(e.Freeze(1, Delta)).Step(10)
	if f := asError(t, err, CodeCodec); f.State != "pet" || f.Key != "k" || !strings.Contains(f.Error(), "dog") {
		t.Errorf("got %v", f)
	}
}

// A back end that fails ends the attempt, with the first error, and nothing panics on the way.
func TestAFailingOverflowEndsTheAttempt(t *testing.T) {
	s := must(overflow.New(overflow.Config{Dir: filepath.Join(t.TempDir(), "overflow")}))
	d := must(NewDirectory[string](Options{Operator: "op", MaxParallelism: groups, Checkpoints: true, Overflow: s, Budget: budget.New(1 << 40)}))
	v, m, l := must(ValueOf[string](d, "v")), must(MapOf[int, string](d, "m")), must(ListOf[int](d, "l"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for i := range 20_000 {
		k := fmt.Sprint(i % 5000)
		d.Seek(k, d.Hash(k))
		v.Set(strings.Repeat("x", 100))
		m.Put(i, "x")
		l.Append(i)
		for range m.All() {
			break
		}
		EvictSome(d, i%4, 0)
	}
	if e := asError(t, d.Err(), CodeOverflow); e.Operator != "op" {
		t.Errorf("got %v", e)
	}
}

// A job whose state fits runs no Badger.
func TestStateThatFitsOpensNoOverflow(t *testing.T) {
	d, s := evicting(t)
	v := must(ValueOf[int](d, "v"))
	for i := range 10_000 {
		k := fmt.Sprint(i)
		d.Seek(k, d.Hash(k))
		v.Set(i)
	}
	written(t, func() (*Snapshot, error) { return d.Freeze(1, Delta) })
	if s.Opened() || d.Stats().Evicted != 0 {
		t.Errorf("Badger runs: %+v", d.Stats())
	}
}

// Keys that no record can have stay in memory.
func TestVeryLongKeysStay(t *testing.T) {
	d, _ := evicting(t)
	v := must(ValueOf[int](d, "v"))
	long := strings.Repeat("k", 40<<10)
	d.Seek(long, d.Hash(long))
	v.Set(1)
	for range 10 {
		EvictSome(d, 0, 0)
	}
	d.Seek(long, d.Hash(long))
	if v.Get() != 1 || d.Len() != 1 || d.Err() != nil {
		t.Errorf("%d, %d rows, %v", v.Get(), d.Len(), d.Err())
	}
}

// Two operators share the memory of a process: one that grows takes what the other does not need, and gives it back.
func TestOperatorsShareTheirMemory(t *testing.T) {
	const total, keys = 1 << 20, 50_000
	b := budget.New(total)
	s := inMemory(t)
	open := func() (*Directory[int], *Value[[2]int64]) {
		d := must(NewDirectory[int](Options{MaxParallelism: groups, Checkpoints: true, Overflow: s, Budget: b}))
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		return d, must(ValueOf[[2]int64](d, "v"))
	}
	one, v := open()
	two, w := open()
	fill := func(d *Directory[int], v *Value[[2]int64], n int) {
		for k := range n {
			d.Seek(k, d.Hash(k))
			v.Set([2]int64{int64(k)})
			if k%512 == 0 {
				if err := d.Maintain(64); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	fill(one, v, keys)
	if used := one.Bytes(); used > total || used < total/2 {
		t.Errorf("an operator that is alone uses %d of %d bytes", used, total)
	}
	fill(two, w, keys)
	for range 3000 {
		for _, d := range []*Directory[int]{one, two} {
			if err := d.Maintain(64); err != nil {
				t.Fatal(err)
			}
		}
	}
	if x, y := one.Bytes(), two.Bytes(); x+y > total+total/4 || x > total*3/4 || y < total/4 {
		t.Errorf("two operators use %d and %d of %d bytes", x, y, total)
	}
	for k := 0; k < keys; k += 7 {
		one.Seek(k, one.Hash(k))
		two.Seek(k, two.Hash(k))
		if v.Get()[0] != int64(k) || w.Get()[0] != int64(k) {
			t.Fatalf("key %d is %v and %v", k, v.Get(), w.Get())
		}
	}
}
