package state

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestOrderedMapIsAMapAndOldOnesStay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m omap[int, int]
		model := map[int]int{}
		type version struct {
			m     omap[int, int]
			model map[int]int
		}
		var old []version
		for i := range rapid.IntRange(0, 200).Draw(t, "steps") {
			k := rapid.IntRange(0, 40).Draw(t, "key")
			if rapid.Bool().Draw(t, "put") {
				m = m.put(k, i)
				model[k] = i
			} else {
				m = m.del(k)
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

func compare(t *rapid.T, m omap[int, int], model map[int]int) {
	keys := slices.Sorted(maps.Keys(model))
	var got []int
	for k, v := range m.all() {
		if model[k] != v {
			t.Fatalf("key %d holds %d, want %d", k, v, model[k])
		}
		got = append(got, k)
	}
	if !slices.Equal(got, keys) || m.len() != len(keys) {
		t.Fatalf("keys %v (%d), want %v", got, m.len(), keys)
	}
	for k := -1; k <= 41; k++ {
		v, ok := m.get(k)
		if want, there := model[k]; ok != there || v != want {
			t.Fatalf("get %d: %d, %t", k, v, ok)
		}
		var after []int
		for x := range m.after(k) {
			after = append(after, x)
		}
		if i, found := slices.BinarySearch(keys, k); !slices.Equal(after, keys[min(len(keys), i+b2i(found)):]) {
			t.Fatalf("after %d: %v", k, after)
		}
	}
	if k, _, ok := m.first(); ok != (len(keys) > 0) || ok && k != keys[0] {
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

func TestVectorEditsLeaveOldVersionsAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := makeVec[int](rapid.IntRange(0, 200).Draw(t, "size"))
		model := make([]int, v.len())
		for round := range rapid.IntRange(1, 6).Draw(t, "rounds") {
			before, old := v, slices.Clone(model)
			e := v.edit()
			for i := range rapid.IntRange(0, 100).Draw(t, "changes") {
				x := 1000*round + i
				if n := e.v.len(); n > 0 && rapid.Bool().Draw(t, "set") {
					pos := rapid.IntRange(0, n-1).Draw(t, "position")
					e.set(pos, x)
					model[pos] = x
				} else {
					e.push(x)
					model = append(model, x)
				}
			}
			v = e.v
			for name, c := range map[string]struct {
				v     vec[int]
				model []int
			}{"new": {v, model}, "old": {before, old}} {
				var got []int
				for _, x := range c.v.all() {
					got = append(got, x)
				}
				if !slices.Equal(got, c.model) || c.v.len() != len(c.model) {
					t.Fatalf("%s version is %v, want %v", name, got, c.model)
				}
			}
		}
	})
}
