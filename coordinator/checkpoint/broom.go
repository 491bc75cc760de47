package checkpoint

import (
	"maps"
	"slices"
	"time"

	"github.com/sluiceio/sluice/coordinator/state/ledger"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// Broom removes the objects of a job that no kept checkpoint needs: a plan is committed, then the stores are told, again and again
// until they have answered, and at last the names leave the facts. A leader that does not know what its predecessor has heard asks once
// more: deleting what is gone is harmless.
type Broom struct {
	gone  map[string]map[string]bool // by name: stores that have answered
	asked map[string]time.Time       // by store
}

// Sweep is what a Broom wants done. At most one of Plan and Forget is set: both are commands.
type Sweep struct {
	Plan   []string            // names to put into the plan of deletion
	Forget []string            // names that are gone everywhere
	Ask    map[string][]string // by store: names that it should delete
	Again  time.Time           // when to look again; zero: when the facts change
}

const (
	// askAgain is the pause between two questions to a store.
	askAgain = 10 * time.Second
	// mostNames is how many names a plan, or a question, has at most.
	mostNames = 1000
)

// Gone takes the answer of a store.
func (b *Broom) Gone(store string, names []string) {
	if b.gone == nil {
		b.gone = map[string]map[string]bool{}
	}
	for _, n := range names {
		if b.gone[n] == nil {
			b.gone[n] = map[string]bool{}
		}
		b.gone[n][store] = true
	}
}

// Step compares the facts with what the stores have answered. reach tells of a store whether it can be asked, and whether it is still
// known: what lay on a worker that nobody remembers is not waited for.
func (b *Broom) Step(c *jobpb.Checkpoints, now time.Time, reach func(store string) (can, known bool)) (s Sweep) {
	ask := map[string][]string{}
	for _, name := range c.GetDeleting() {
		open := false
		for _, store := range ledger.Object(c, name).GetStores() {
			can, known := reach(store)
			if b.gone[name][store] || !known {
				continue
			}
			open = true
			if can && len(ask[store]) < mostNames {
				ask[store] = append(ask[store], name)
			}
		}
		if !open && len(s.Forget) < mostNames {
			s.Forget = append(s.Forget, name)
		}
	}
	if len(s.Forget) == 0 {
		s.Plan = ledger.Garbage(c, mostNames)
	}
	for _, store := range slices.Sorted(maps.Keys(ask)) {
		if at, was := b.asked[store]; was && now.Before(at.Add(askAgain)) {
			if again := at.Add(askAgain); s.Again.IsZero() || again.Before(s.Again) {
				s.Again = again
			}
			continue
		}
		if b.asked == nil {
			b.asked, s.Ask = map[string]time.Time{}, map[string][]string{}
		}
		if s.Ask == nil {
			s.Ask = map[string][]string{}
		}
		b.asked[store], s.Ask[store] = now, ask[store]
		if again := now.Add(askAgain); s.Again.IsZero() || again.Before(s.Again) {
			s.Again = again
		}
	}
	for name := range b.gone { // in any order: each is looked at by itself
		if _, planned := slices.BinarySearch(c.GetDeleting(), name); !planned {
			delete(b.gone, name)
		}
	}
	return s
}
