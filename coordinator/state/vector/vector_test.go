package vector

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestVectorEditsLeaveOldVersionsAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := Make[int](rapid.IntRange(0, 200).Draw(t, "size"))
		model := make([]int, v.Len())
		for round := range rapid.IntRange(1, 6).Draw(t, "rounds") {
			before, old := v, slices.Clone(model)
			e := v.Edit()
			for i := range rapid.IntRange(0, 100).Draw(t, "changes") {
				x := 1000*round + i
				if n := e.Len(); n > 0 && rapid.Bool().Draw(t, "set") {
					pos := rapid.IntRange(0, n-1).Draw(t, "position")
					e.Set(pos, x)
					model[pos] = x
				} else {
					e.Push(x)
					model = append(model, x)
				}
			}
			v = e.Vec()
			for name, c := range map[string]struct {
				v     Vec[int]
				model []int
			}{"new": {v, model}, "old": {before, old}} {
				var got []int
				for _, x := range c.v.All() {
					got = append(got, x)
				}
				if !slices.Equal(got, c.model) || c.v.Len() != len(c.model) {
					t.Fatalf("%s version is %v, want %v", name, got, c.model)
				}
			}
		}
	})
}
