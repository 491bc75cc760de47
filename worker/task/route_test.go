package task

import (
	"testing"

	"github.com/sluiceio/sluice/flow/codec"
)

func TestKeyGroupRangesAreThoseOfTheRouting(t *testing.T) {
	for _, most := range []int{1, 7, 128, 256} {
		for p := 1; p <= min(most, 17); p++ {
			owner := owners(p, most)
			next := 0
			for s := range p {
				r := keyGroupsOf(s, p, most)
				if r.First != next {
					t.Fatalf("subtask %d of %d, %d key groups: begins at %d, the one before ended at %d", s, p, most, r.First, next)
				}
				next = r.End
				for g := range most {
					if r.Contains(g) != (codec.Subtask(g, p, most) == s) || (owner[g] == int32(s)) != r.Contains(g) {
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
