package table_test

import (
	"maps"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/worker/operator/table"
)

func TestTableIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var size int64
		tab := table.New[string, int](&size)
		model := map[string]int{}
		// Few distinct hashes: keys collide in their slot and in their tag.
		spread := rapid.Uint64Range(1, 64).Draw(t, "distinct hashes")
		hash, err := codec.Hasher[string]()
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(0, 400).Draw(t, "steps") {
			if rapid.IntRange(0, 99).Draw(t, "clear") == 0 {
				tab.Clear()
				clear(model)
			}
			k := rapid.StringMatching(`[a-z]{0,3}`).Draw(t, "key")
			v, fresh := tab.Find(k, hash(k)%spread)
			if _, known := model[k]; fresh == known {
				t.Fatalf("%q: fresh %v, known %v", k, fresh, known)
			}
			if fresh && *v != 0 {
				t.Fatalf("%q is fresh with value %d", k, *v)
			}
			*v++
			model[k]++
		}
		got := map[string]int{}
		if err := tab.Each(func(k string, v *int) error { got[k] += *v; return nil }); err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(got, model) || tab.Len() != len(model) {
			t.Fatalf("table has %v (%d), want %v", got, tab.Len(), model)
		}
		if size <= 0 {
			t.Fatalf("size is %d bytes", size)
		}
		tab.Release()
		if size != 0 {
			t.Fatalf("size is %d bytes after release", size)
		}
	})
}

func TestClearGivesBackTheMemoryOfARareLargeTable(t *testing.T) {
	var size int64
	tab := table.New[int64, int64](&size)
	for k := range int64(100_000) {
		tab.Find(k, codec.Mix(uint64(k)))
	}
	large := size
	tab.Clear() // was full: kept
	if size != large {
		t.Fatalf("a full table shrank from %d to %d bytes", large, size)
	}
	tab.Find(1, codec.Mix(1))
	tab.Clear()
	if size >= large/1000 {
		t.Errorf("a table with one key keeps %d bytes", size)
	}
}

func BenchmarkFind(b *testing.B) {
	const keys = 100_000
	var size int64
	tab := table.New[uint64, int64](&size)
	for k := range uint64(keys) {
		tab.Find(k, codec.Mix(k))
	}
	b.ReportAllocs()
	g := uint64(1)
	for b.Loop() {
		g = g*6364136223846793005 + 1442695040888963407
		k := (g >> 33) % keys
		v, _ := tab.Find(k, codec.Mix(k))
		*v++
	}
}
