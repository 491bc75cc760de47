package ops

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// spillTable shows what did not fit the memory of batch operators; nothing if everything did.
func spillTable(w *tabwriter.Writer, j *apipb.StatusResponse) {
	now, begun := chainCounters(j), false
	for _, t := range heads(j) {
		c := now[t.Chain]
		if c.spilledRecords == 0 && c.spilledBytes == 0 {
			continue
		}
		if !begun {
			_, _ = fmt.Fprintln(w) // a buffer, like below
			row(w, "SPILLED", "BYTES", "RECORDS", "FILES", "DEPTH")
			begun = true
		}
		row(w, t.Operator, size(c.spilledBytes), amount(c.spilledRecords), c.spillFiles, c.spillDepth)
	}
}

// droppedTable shows records that did not get through; nothing if all did.
func droppedTable(w *tabwriter.Writer, j *apipb.StatusResponse) {
	now, begun := chainCounters(j), false
	for _, t := range heads(j) {
		c := now[t.Chain]
		if c.late == 0 && c.skipped == 0 && c.letters == 0 {
			continue
		}
		if !begun {
			_, _ = fmt.Fprintln(w) // a buffer, like below
			row(w, "DROPPED", "LATE", "SKIPPED", "DEAD LETTERS")
			begun = true
		}
		row(w, t.Operator, amount(c.late), amount(c.skipped), amount(c.letters))
	}
}

// userTable shows what the operators count themselves, over all subtasks.
func userTable(w *tabwriter.Writer, j *apipb.StatusResponse) {
	type count struct{ operator, name string }
	sums := map[count]int64{}
	var all []count
	for _, t := range j.Subtasks {
		for _, u := range t.Counters.GetUser() {
			c := count{u.Operator, u.Name}
			if _, known := sums[c]; !known {
				all = append(all, c)
			}
			sums[c] += u.Value
		}
	}
	if len(all) == 0 {
		return
	}
	_, _ = fmt.Fprintln(w) // a buffer, like below
	row(w, "OPERATOR", "COUNTER", "VALUE")
	for _, c := range all {
		row(w, c.operator, c.name, sums[c])
	}
}

// heads are the first subtasks of the chains.
func heads(j *apipb.StatusResponse) (first []*apipb.SubtaskStatus) {
	seen := map[int32]bool{}
	for _, t := range j.Subtasks {
		if !seen[t.Chain] {
			seen[t.Chain] = true
			first = append(first, t)
		}
	}
	return first
}

// regionTable has a line for all regions in a row that are in the same state and read the same.
func regionTable(w *tabwriter.Writer, j *apipb.StatusResponse) {
	if len(j.Regions) == 0 {
		return
	}
	_, _ = fmt.Fprintln(w) // a buffer
	row(w, "REGION", "STATE", "EPOCH", "SUBTASKS", "AFTER")
	for i := 0; i < len(j.Regions); {
		n, subtasks := i+1, len(j.Regions[i].Subtasks)
		for n < len(j.Regions) && alike(j.Regions[i], j.Regions[n]) {
			subtasks += len(j.Regions[n].Subtasks)
			n++
		}
		first, last := j.Regions[i], j.Regions[n-1]
		after := slices.Clone(first.After)
		for _, r := range j.Regions[i:n] {
			after = append(after, r.After...)
		}
		row(w, regionRange(first.Index, last.Index), enum(first.State), first.Epoch, subtasks, ranges(after))
		i = n
	}
}

// alike: two regions are shown in one line.
func alike(a, b *apipb.RegionInfo) bool {
	return a.State == b.State && a.Epoch == b.Epoch && slices.Equal(a.InputEdges, b.InputEdges) && len(a.Subtasks) == len(b.Subtasks) &&
		chainsOf(a) == chainsOf(b)
}

// chainsOf names the chains whose subtasks a region has.
func chainsOf(r *apipb.RegionInfo) string {
	var names []string
	for _, s := range r.Subtasks {
		name, _, _ := strings.Cut(s, "[")
		if len(names) == 0 || names[len(names)-1] != name {
			names = append(names, name)
		}
	}
	return strings.Join(names, "; ")
}

func regionRange(first, last int32) string {
	if first == last {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d–%d", first, last)
}

// ranges writes regions in any order as 0–3, 7.
func ranges(all []*apipb.RegionRange) string {
	slices.SortFunc(all, func(a, b *apipb.RegionRange) int { return int(a.First) - int(b.First) })
	var parts []string
	for i := 0; i < len(all); {
		first, last := all[i].First, all[i].Last
		for i++; i < len(all) && all[i].First <= last+1; i++ {
			last = max(last, all[i].Last)
		}
		parts = append(parts, regionRange(first, last))
	}
	return strings.Join(parts, ", ")
}

// numbers writes regions in order as 0–3, 7.
func numbers(regions []int32) string {
	all := make([]*apipb.RegionRange, len(regions))
	for i, r := range regions {
		all[i] = &apipb.RegionRange{First: r, Last: r}
	}
	return ranges(all)
}

func edgeTable(w *tabwriter.Writer, j *apipb.StatusResponse) {
	if len(j.Edges) == 0 {
		return
	}
	_, _ = fmt.Fprintln(w) // a buffer
	row(w, "EDGE", "PARTITIONER", "EXCHANGE", "REGIONS", "STORED", "REASON")
	for _, e := range j.Edges {
		regions := numbers(e.ToRegions)
		if from := numbers(e.FromRegions); from != regions {
			regions = from + " → " + regions
		}
		reason := e.Reason
		if e.Gated {
			reason += "; gated"
		}
		row(w, e.From+" → "+e.To, strings.ToLower(enum(e.Partitioner)), enum(e.Exchange), regions, stored(e.Result), reason)
	}
}

// stored is how many producers have stored their results, what became of those, and how much it is: released results count,
// too, although they are gone.
func stored(r *apipb.ResultInfo) string {
	if r == nil {
		return ""
	}
	text := fmt.Sprintf("%d/%d", r.Stored+r.Lost+r.Released, r.Producers)
	if r.Lost > 0 {
		text += fmt.Sprintf(", %d lost", r.Lost)
	}
	switch {
	case r.Released > 0 && r.Released == r.Producers:
		text += ", released"
	case r.Released > 0:
		text += fmt.Sprintf(", %d released", r.Released)
	}
	if r.Records > 0 || r.Bytes > 0 {
		text += fmt.Sprintf(", %s, %s records", size(r.Bytes), amount(r.Records))
	}
	return text
}

// again counts the subtasks of a chain that were run more than once, each time but the first.
func again(t *apipb.SubtaskStatus) int {
	if t.Attempt < 2 {
		return 0
	}
	return int(t.Attempt - 1)
}

func subtaskTable(w *tabwriter.Writer, j *apipb.StatusResponse) {
	row(w, "SUBTASK", "ATTEMPT", "STATE", "REGION", "WORKER", "IN", "OUT", "SPILLED", "STORED")
	for _, t := range j.Subtasks {
		cells := []any{fmt.Sprintf("%s[%d]", t.Operator, t.Index), t.Attempt, enum(t.State), t.Region, short(t.Worker), "-", "-", "-", "-"}
		if c := t.Counters; c != nil {
			copy(cells[5:], []any{amount(c.RecordsIn), amount(c.RecordsOut), size(c.SpilledBytes), size(c.StoredBytes)})
		}
		row(w, cells...)
	}
}

// states names the one state of all subtasks, or counts them.
func states(counts map[jobpb.SubtaskState]int) string {
	var parts []string
	for state := range jobpb.SubtaskState(len(jobpb.SubtaskState_name)) {
		n := counts[state]
		if n == 0 {
			continue
		}
		if len(counts) == 1 {
			return enum(state)
		}
		parts = append(parts, fmt.Sprintf("%d %s", n, enum(state)))
	}
	return strings.Join(parts, ", ")
}
