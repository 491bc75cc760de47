package state

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

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
