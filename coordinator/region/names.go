package region

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluiceio/sluice/proto/jobpb"
)

// Events say what they concern by names, as far as there is room.
const (
	maxNames     = 240 // bytes of names in one event
	maxChainName = 48  // bytes of one of them
)

// place is a subtask of something that has a name.
type place struct{ of, index int32 }

// SubtaskNames names the subtasks of regions by their chains: count[0-3,7], sort[2].
func (l *Layout) SubtaskNames(regions []int32) string {
	var places []place
	for _, r := range regions {
		for _, s := range l.plan.Regions[r].Subtasks {
			for i := range s.Count {
				places = append(places, place{s.Chain, s.First + i})
			}
		}
	}
	return names(places, "subtasks", func(chain int32) (string, string) { return l.chainName(chain), "" })
}

// ResultNames names stored results by their producers: count[0-3] → sort. The references must fit the plan.
func (l *Layout) ResultNames(refs []*jobpb.PartitionRef) string {
	places := make([]place, len(refs))
	for i, r := range refs {
		places[i] = place{r.Edge, r.Producer}
	}
	return names(places, "results", func(edge int32) (string, string) {
		e := l.plan.Edges[edge]
		return l.chainName(e.FromChain), " → " + l.chainName(e.ToChain)
	})
}

// names lists places in order, those of one name together and runs of them as ranges, until there is no more room.
func names(places []place, noun string, name func(of int32) (before, after string)) string {
	slices.SortFunc(places, func(a, b place) int { return cmp.Or(cmp.Compare(a.of, b.of), cmp.Compare(a.index, b.index)) })
	places = slices.Compact(places)
	var b strings.Builder
	for i := 0; i < len(places); {
		before, after := name(places[i].of)
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		b.WriteString(before)
		of, sep := places[i].of, "["
		for i < len(places) && places[i].of == of && b.Len() < maxNames {
			first := i
			for i++; i < len(places) && places[i].of == of && places[i].index == places[i-1].index+1; i++ {
			}
			b.WriteString(sep)
			fmt.Fprint(&b, places[first].index)
			if i-1 > first {
				fmt.Fprint(&b, "-", places[i-1].index)
			}
			sep = ","
		}
		b.WriteString("]" + after)
		if left := len(places) - i; left > 0 && b.Len() >= maxNames {
			return fmt.Sprintf("%s and %d more %s", b.String(), left, noun)
		}
	}
	return b.String()
}

// chainName is what people call a chain.
func (l *Layout) chainName(chain int32) string {
	name := l.plan.Chains[chain].Name
	if name == "" {
		return fmt.Sprintf("chain %d", chain)
	}
	if len(name) <= maxChainName {
		return name
	}
	cut := maxChainName
	for !utf8.RuneStart(name[cut]) {
		cut--
	}
	return name[:cut] + "…"
}
