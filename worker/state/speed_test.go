package state

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluiceio/sluice/bench/ratio"
	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/internal/invariant"
)

// wide is a value of 100 bytes, of which an update changes eight.
type wide struct {
	N    int64
	Rest [92]byte
}

// TestSpeedUpdate protects what every record of a keyed operator pays: its key becomes current, and its first value is
// changed in place. The bare table does that for one type of key and one value, without snapshots, budgets and a second
// state.
func TestSpeedUpdate(t *testing.T) {
	sizes := []int{100_000, 1_000_000}
	if *long {
		sizes = append(sizes, 10_000_000)
	}
	if invariant.Enabled {
		sizes = []int{10_000} // for the race detector's sake: nothing is timed
	}
	for _, keys := range sizes {
		for _, tracked := range []bool{false, true} {
			t.Run(fmt.Sprintf("keys=%d/tracked=%v", keys, tracked), func(t *testing.T) {
				compareUpdates(t, keys, tracked, func(v *int64) { *v++ })
			})
		}
		t.Run(fmt.Sprintf("keys=%d/100 bytes", keys), func(t *testing.T) {
			compareUpdates(t, keys, true, func(v *wide) { v.N++ })
		})
	}
}

func compareUpdates[V any](t *testing.T, keys int, tracked bool, update func(*V)) {
	plain := ratio.NewTable[V](mix)
	d, err := NewDirectory[int64](Options{MaxParallelism: 256, Checkpoints: tracked})
	if err != nil {
		t.Fatal(err)
	}
	v, err := ValueOf[V](d, "v")
	if err != nil {
		t.Fatal(err)
	}
	for k := range int64(keys) {
		update(plain.At(k, codec.Mix(uint64(k))))
		d.Seek(k, d.Hash(k))
		update(v.Ref())
	}
	x, y := uint64(1), uint64(1)
	ratio.AtMost(t, 2, ratio.CPU, func(n int) {
		for range n {
			k := int64(next(&x) % uint64(keys))
			update(plain.At(k, codec.Mix(uint64(k))))
		}
	}, func(n int) {
		for range n {
			k := int64(next(&y) % uint64(keys))
			d.Seek(k, codec.Mix(uint64(k)))
			update(v.Ref())
		}
	})
}

// TestSpeedBarrier protects the barrier from the size of what has changed: the least of many freezes with every key
// dirty, against one key of a hundred.
func TestSpeedBarrier(t *testing.T) {
	if invariant.Enabled {
		t.Skip("times mean nothing in a build with run-time checks: make speed")
	}
	keys := 1_000_000
	if *long {
		keys = 10_000_000
	}
	d, err := NewDirectory[int64](Options{MaxParallelism: 256, Checkpoints: true})
	if err != nil {
		t.Fatal(err)
	}
	v, err := ValueOf[int64](d, "v")
	if err != nil {
		t.Fatal(err)
	}
	id := element.CheckpointID(0)
	freeze := func(step int64) time.Duration {
		sum := int64(0)
		for k := range int64(keys) { // all are looked at, so that caches are as cold
			d.Seek(k, d.Hash(k))
			if sum += v.Get(); k%step == 0 {
				*v.Ref()++
			}
		}
		id++
		start := time.Now()
		if _, err := d.Freeze(id, Delta); err != nil {
			t.Fatal(err)
		}
		took := time.Since(start)
		d.Completed(id)
		return took
	}
	few, all := time.Hour, time.Hour
	for range 10 {
		few, all = min(few, freeze(100)), min(all, freeze(1))
	}
	t.Logf("%d keys: %v with 1 %% dirty, %v with all", keys, few, all)
	if most := 200 * time.Microsecond; *long && all > most { // the size that is promised
		t.Errorf("a barrier takes %v with all keys dirty; %v is promised", all, most)
	}
	if all > 3*few+5*time.Microsecond {
		t.Errorf("a barrier takes %v with all keys dirty, %v with one of a hundred", all, few)
	}
}

func TestSpeedSpaces(t *testing.T) {
	many := 20_000
	if invariant.Enabled {
		many = 200
	}
	counts := func(n int) *Spaces[int64, *Value[int64]] {
		s, err := NewSpaces(Options{MaxParallelism: 256, Checkpoints: true}, 0, 256, func(d *Directory[int64]) (*Value[int64], error) {
			return ValueOf[int64](d, "count")
		})
		if err != nil {
			t.Fatal(err)
		}
		for id := range int64(n) {
			if _, err := s.Open(id); err != nil {
				t.Fatal(err)
			}
		}
		return s
	}
	few, all := counts(10), counts(many)
	batch := func(s *Spaces[int64, *Value[int64]], n int) {
		for range n {
			if err := s.all.Maintain(64); err != nil {
				t.Fatal(err)
			}
			if s.all.Bytes() == 0 {
				t.Fatal("the state has no size")
			}
		}
	}
	// What the loop does between two batches must not depend on how many windows are open: of each some lines of the cache are
	// looked at, which are cold when there are many.
	ratio.AtMost(t, 8, ratio.CPU, func(n int) { batch(few, n) }, func(n int) { batch(all, n) })
}
