package chain

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/state"
)

// TestAChainOfPartsIsBounded: whatever the sizes of table and changes, and whichever checkpoints complete, a chain has no more parts
// than the whole table has changes, and of three bytes that are written one at least is a change.
func TestAChainOfPartsIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Int64Range(1, 10_000).Draw(t, "table")
		change := rapid.Int64Range(1, 100).Draw(t, "change")
		grows := rapid.Bool().Draw(t, "grows")
		g := &growth{}
		var base element.CheckpointID
		var changes, wholes int64
		chain, pending := 0, int64(0)
		for id := element.CheckpointID(1); id <= 2000; id++ {
			pending += change
			if grows {
				size += change
			}
			full := g.extent() == state.Full
			bytes := pending
			if full || base == 0 {
				bytes = size
			}
			g.froze(id, full || base == 0)
			g.wrote(id, bytes)
			if rapid.IntRange(0, 9).Draw(t, "fate") == 0 {
				continue // given up: the next one has its changes, too
			}
			if g.completed(id); full || base == 0 {
				chain = 0
				wholes += bytes
			}
			changes += pending
			base, pending, chain = id, 0, chain+1
			if most := max(wholeParts, int(g.whole/change)+1) + 1; chain > most || g.parts != chain {
				t.Fatalf("checkpoint %d: %d parts, counted %d, at most %d", id, chain, g.parts, most)
			}
		}
		if first := size; wholes > 2*changes+first {
			t.Fatalf("%d bytes of whole tables for %d of changes", wholes, changes)
		}
	})
}

func TestWhatIsNotDecidedDoesNotCount(t *testing.T) {
	g := &growth{}
	for id := element.CheckpointID(1); id <= 40; id++ {
		g.froze(id, false)
		g.wrote(id, 10)
	}
	if g.parts != 0 || g.extent() != state.Delta {
		t.Errorf("%+v", g)
	}
	g.completed(39) // of which nothing is known any more
	g.wrote(39, 5)
	if g.completed(40); g.parts != 1 || g.since != 10 {
		t.Errorf("%+v", g)
	}
	if g.completed(40); g.parts != 1 {
		t.Errorf("told twice: %+v", g)
	}
}
