package state

import (
	"testing"

	"github.com/sluiceio/sluice/bench/ratio"
	"github.com/sluiceio/sluice/flow/codec"
)

// TestSpeedUpdate protects what every record of a keyed operator pays: its key becomes current, and its first value is
// changed in place. The bare table does that for one type of key and one value, without snapshots and without a second
// state. A million keys cost about twice as much as there: two misses of the cache that depend on each other instead of
// one.
func TestSpeedUpdate(t *testing.T) {
	const keys = 100_000
	plain := &bare{slots: make([]bareSlot, 16), mask: 15}
	d, err := NewDirectory[int64](Options{MaxParallelism: 256})
	if err != nil {
		t.Fatal(err)
	}
	v, err := ValueOf[int64](d, "count")
	if err != nil {
		t.Fatal(err)
	}
	for k := range int64(keys) {
		*plain.at(k, codec.Mix(uint64(k))) = 1
		d.Seek(k, d.Hash(k))
		*v.Ref() = 1
	}
	x, y := uint64(1), uint64(1)
	ratio.AtMost(t, 2, ratio.CPU, func(n int) {
		for range n {
			k := int64(next(&x) % keys)
			*plain.at(k, codec.Mix(uint64(k)))++
		}
	}, func(n int) {
		for range n {
			k := int64(next(&y) % keys)
			d.Seek(k, codec.Mix(uint64(k)))
			*v.Ref()++
		}
	})
}
