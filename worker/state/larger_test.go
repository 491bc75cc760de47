package state

import (
	"flag"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/snapshot/chunk"
	"github.com/sluiceio/sluice/worker/state/budget"
	"github.com/sluiceio/sluice/worker/state/overflow"
)

var long = flag.Bool("long", false, "run what takes minutes: ten million keys, ten thousand programs")

// larger is a state that does not fit into its budget, and what it has to be.
type larger struct {
	d      *Directory[int64]
	count  *Value[int64]
	last   *Map[int32, int64]
	budget int64
	most   int64 // bytes used
	id     element.CheckpointID
	chain  []*chunk.Reader
	want   []int32 // count by key
	base   []int32 // as of the last checkpoint
	seed   uint64
}

func newLarger(t testing.TB, keys int, bytes int64) *larger {
	b := budget.New(bytes)
	s, err := overflow.New(overflow.Config{Dir: filepath.Join(t.TempDir(), "overflow"), Budget: b})
	if err != nil {
		t.Fatal(err)
	}
	d, err := NewDirectory[int64](Options{MaxParallelism: 256, Checkpoints: true, Budget: b, Overflow: s})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	x := &larger{d: d, budget: bytes, want: make([]int32, keys), base: make([]int32, keys), seed: 1}
	if x.count, err = ValueOf[int64](d, "count"); err != nil {
		t.Fatal(err)
	}
	if x.last, err = MapOf[int32, int64](d, "last"); err != nil {
		t.Fatal(err)
	}
	return x
}

// update changes n random keys; one of eight has a map as well.
func (x *larger) update(t testing.TB, n int) {
	for i := range n {
		k := int64(next(&x.seed) % uint64(len(x.want)))
		x.touch(k)
		if i%1024 == 0 {
			x.maintain(t)
		}
	}
}

func (x *larger) touch(k int64) {
	x.d.Seek(k, codec.Mix(uint64(k)))
	x.want[k]++
	*x.count.Ref()++
	if k%8 == 0 {
		x.last.Put(x.want[k]%4, k)
	}
}

func (x *larger) maintain(t testing.TB) {
	if err := x.d.Maintain(256); err != nil {
		t.Fatal(err)
	}
	x.most = max(x.most, int64(x.d.Bytes()))
}

// checkpoint writes a snapshot while updates go on, and completes it.
func (x *larger) checkpoint(t testing.TB) {
	x.id++
	s, err := x.d.Freeze(x.id, Delta)
	if err != nil {
		t.Fatal(err)
	}
	base := append([]int32(nil), x.want...)
	for done := false; !done; {
		x.update(t, 256)
		if done, err = s.Step(2048); err != nil {
			t.Fatal(err)
		}
		for _, b := range allTaken(t, s) {
			x.chain = append(x.chain, reader(t, b))
		}
	}
	x.d.Completed(x.id)
	x.base = base
}

func (x *larger) check(t testing.TB, when string, d *Directory[int64], count *Value[int64], last *Map[int32, int64]) {
	t.Helper()
	seen := 0
	if err := d.EachByGroup(func(k int64) error {
		seen++
		if n := count.Get(); n != int64(x.want[k]) {
			t.Fatalf("%s: key %d was counted %d times, want %d", when, k, n, x.want[k])
		}
		if want := min(4, int(x.want[k])); k%8 == 0 && last.Len() != want {
			t.Fatalf("%s: key %d has %d entries, want %d", when, k, last.Len(), want)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	want := 0
	for _, n := range x.want {
		if n > 0 {
			want++
		}
	}
	if seen != want {
		t.Fatalf("%s: %d keys, want %d", when, seen, want)
	}
}

// live plays the life of a state that is larger than its memory.
func (x *larger) live(t testing.TB, updates int) {
	for k := range int64(len(x.want)) {
		x.touch(k)
		if k%1024 == 0 {
			x.maintain(t)
		}
	}
	x.checkpoint(t)
	start := time.Now()
	x.update(t, updates)
	t.Logf("%d updates at %v each, %+v", updates, time.Since(start)/time.Duration(updates), x.d.Stats())
	x.checkpoint(t)
	x.update(t, updates/4)
	x.check(t, "now", x.d, x.count, x.last)
	if err := x.d.Rewind(x.id); err != nil {
		t.Fatal(err)
	}
	copy(x.want, x.base)
	x.check(t, "rewound", x.d, x.count, x.last)
	x.update(t, updates/4)
	x.checkpoint(t)

	restored := newLarger(t, len(x.want), x.budget)
	restored.want, restored.base = x.want, x.base
	copy(x.want, x.base)
	if err := restored.d.Import(t.Context(), x.chain, 0, 256); err != nil {
		t.Fatal(err)
	}
	restored.d.Restored(x.id)
	restored.check(t, "restored", restored.d, restored.count, restored.last)
	for name, y := range map[string]*larger{"first": x, "restored": restored} {
		y.most = max(y.most, int64(y.d.Bytes()))
		t.Logf("%s: %d keys, %d in memory, at most %.1f of %.1f MiB, %+v", name, len(x.want), y.d.Len(), float64(y.most)/(1<<20), float64(y.budget)/(1<<20), y.d.Stats())
		if y.most > y.budget+y.budget/4 {
			t.Errorf("%s: %d bytes of a budget of %d", name, y.most, y.budget)
		}
	}
}

func TestStateLargerThanMemory(t *testing.T) {
	keys, bytes, updates := 30_000, int64(512<<10), 20_000
	if *long {
		keys, bytes, updates = 10_000_000, 64<<20, 2_000_000
	}
	newLarger(t, keys, bytes).live(t, updates)
}
