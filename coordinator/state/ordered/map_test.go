package ordered

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestOrderedMapIsAMapAndOldOnesStay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m Map[int, int]
		model := map[int]int{}
		type version struct {
			m     Map[int, int]
			model map[int]int
		}
		var old []version
		for i := range rapid.IntRange(0, 200).Draw(t, "steps") {
			k := rapid.IntRange(0, 40).Draw(t, "key")
			if rapid.Bool().Draw(t, "put") {
				m = m.Put(k, i)
				model[k] = i
			} else {
				m = m.Del(k)
				delete(model, k)
			}
			if i%20 == 0 {
				old = append(old, version{m, maps.Clone(model)})
			}
		}
		old = append(old, version{m, model})
		for _, v := range old {
			compare(t, v.m, v.model)
		}
	})
}

func compare(t *rapid.T, m Map[int, int], model map[int]int) {
	keys := slices.Sorted(maps.Keys(model))
	var got []int
	for k, v := range m.All() {
		if model[k] != v {
			t.Fatalf("key %d holds %d, want %d", k, v, model[k])
		}
		got = append(got, k)
	}
	if !slices.Equal(got, keys) || m.Len() != len(keys) {
		t.Fatalf("keys %v (%d), want %v", got, m.Len(), keys)
	}
	for k := -1; k <= 41; k++ {
		v, ok := m.Get(k)
		if want, there := model[k]; ok != there || v != want {
			t.Fatalf("get %d: %d, %t", k, v, ok)
		}
		var after []int
		for x := range m.After(k) {
			after = append(after, x)
		}
		if i, found := slices.BinarySearch(keys, k); !slices.Equal(after, keys[min(len(keys), i+b2i(found)):]) {
			t.Fatalf("after %d: %v", k, after)
		}
	}
	if k, _, ok := m.First(); ok != (len(keys) > 0) || ok && k != keys[0] {
		t.Fatalf("first is %d, %t", k, ok)
	}
	checkBalance(t, m.root)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func checkBalance(t *rapid.T, b *branch[int, int]) {
	if b == nil {
		return
	}
	l, r := b.left.depth(), b.right.depth()
	if d := l - r; d < -1 || d > 1 || b.height != 1+max(l, r) {
		t.Fatalf("node %d: heights %d and %d, says %d", b.key, l, r, b.height)
	}
	checkBalance(t, b.left)
	checkBalance(t, b.right)
}
