package layout

import (
	"testing"

	"github.com/sluiceio/sluice/flow/codec"
)

func TestKeyGroupRangesAreThoseOfTheRouting(t *testing.T) {
	for _, most := range []int{1, 7, 128, 256} {
		for p := 1; p <= min(most, 17); p++ {
			owner := Owners(p, most)
			next := 0
			for s := range p {
				first, end := KeyGroupsOf(s, p, most)
				if first != next {
					t.Fatalf("subtask %d of %d, %d key groups: begins at %d, the one before ended at %d", s, p, most, first, next)
				}
				next = end
				for g := range most {
					if (first <= g && g < end) != (codec.Subtask(g, p, most) == s) || (owner[g] == int32(s)) != (first <= g && g < end) {
						t.Fatalf("subtask %d of %d: key group %d", s, p, g)
					}
				}
			}
			if next != most {
				t.Fatalf("%d of %d key groups are owned", next, most)
			}
		}
	}
}
