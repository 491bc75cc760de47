package vfs

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// CrashClone returns the file system that a machine finds after losing power now, at the least: everything that was
// not synced is gone. The original is not touched, so a test can crash one run at every step.
func (m *Mem) CrashClone() *Mem { return m.crash(nil) }

// TornClone is CrashClone where a random part of what was not synced survived, as disks and page caches do it:
// sectors of unsynced writes one by one, sizes, directory entries one by one and in any order, renames as a whole.
// The same seed and history give the same clone. Whatever recovery relies on must hold for every seed.
func (m *Mem) TornClone(seed uint64) *Mem { return m.crash(rand.New(rand.NewPCG(seed, 0x7ea2))) }

// sectorBytes is what a disk writes whole or not at all.
const sectorBytes = 512

type crash struct {
	luck   *rand.Rand // nil: nothing unsynced survives
	moves  map[*move]bool
	clones map[*node]*node // a name lost half of its rename has two names for one file
}

func (m *Mem) crash(luck *rand.Rand) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &crash{luck: luck, moves: map[*move]bool{}, clones: map[*node]*node{}}
	clone := NewMem()
	clone.mu.root = c.clone(m.mu.root)
	return clone
}

func (c *crash) clone(n *node) *node {
	if done := c.clones[n]; done != nil {
		return done
	}
	to := &node{mode: n.mode, modified: n.modified}
	c.clones[n] = to
	if !n.isDir() {
		to.durable = c.survivingBytes(n)
		to.data = slices.Clone(to.durable)
		return to
	}
	to.entries, to.kept = map[string]*node{}, map[string]*node{}
	survivors := c.survivingEntries(n)
	for _, name := range sortedNames(survivors) { // sorted: luck must be drawn in a fixed order
		e := c.clone(survivors[name])
		to.entries[name], to.kept[name] = e, e
	}
	return to
}

func (c *crash) survives() bool { return c.luck != nil && c.luck.IntN(2) == 0 }

// survivingEntries applies a part of the pending changes, in their order, to what was synced.
func (c *crash) survivingEntries(n *node) map[string]*node {
	kept := maps.Clone(n.kept)
	for _, ch := range n.pending {
		if !c.keeps(ch) {
			continue
		}
		if ch.to == nil {
			delete(kept, ch.name)
		} else {
			kept[ch.name] = ch.to
		}
	}
	return kept
}

// keeps draws once for both halves of a rename; a half that was synced is not pending any more and is not asked for.
func (c *crash) keeps(ch change) bool {
	if ch.move == nil {
		return c.survives()
	}
	keep, drawn := c.moves[ch.move]
	if !drawn {
		keep = c.survives()
		c.moves[ch.move] = keep
	}
	return keep
}

// survivingBytes mixes the synced and the current bytes by sectors, at a size between or equal to theirs.
func (c *crash) survivingBytes(n *node) []byte {
	if c.luck == nil || slices.Equal(n.data, n.durable) {
		return slices.Clone(n.durable)
	}
	sizes := [...]int{len(n.durable), len(n.data), 0}
	lo, hi := min(sizes[0], sizes[1]), max(sizes[0], sizes[1])
	sizes[2] = lo + c.luck.IntN(hi-lo+1)
	out := make([]byte, sizes[c.luck.IntN(len(sizes))])
	for at := 0; at < len(out); at += sectorBytes {
		from := n.durable
		if c.survives() {
			from = n.data
		}
		if at < len(from) {
			copy(out[at:min(at+sectorBytes, len(out))], from[at:])
		}
	}
	return out
}
