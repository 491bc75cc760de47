package recovery

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/sluiceio/sluice/coordinator/region"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// TestScripts plays testdata/scripts. The command plan has a line per chain and per edge:
//
//	NAME PARALLELISM [whole]
//	NAME -> NAME PARTITIONER EXCHANGE [PROPERTY...]
//
// An edge is reproducible and ordered unless it is said to be irreproducible, unordered or order-dependent. The command
// restart failed=(SUBTASK,...) gone=(WORKER,...) has a line for each thing that is so, the later ones win:
//
//	SUBTASK created|running|finished|failed [on WORKER]
//	SUBTASK -> NAME lost|released
//	SUBTASK waits|reordered
//
// SUBTASK is NAME, NAME[I] or NAME[I-J]; waits and reordered speak of the regions. All begin created, and finish on
// worker w. The answer lists what runs again. Rewrite with -rewrite and read the difference.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		var p *jobpb.Plan
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "plan":
				p = parsePlan(t, d.Input)
				return showRegions(newJob(t, p).l)
			case "restart":
				return playRestart(t, newJob(t, p), d)
			}
			t.Fatalf("%s: no such command", d.Pos)
			return ""
		})
	})
}

// job is facts that a test writes.
type job struct {
	l       *region.Layout
	regions []*jobpb.RegionState
	tasks   []*jobpb.Subtask
}

func (j *job) Layout() *region.Layout            { return j.l }
func (j *job) Region(i int32) *jobpb.RegionState { return j.regions[i] }
func (j *job) At(position int) *jobpb.Subtask    { return j.tasks[position] }
func (j *job) waits(t *jobpb.Subtask) bool       { return waiting(j.regions[t.Region]) }
func waiting(r *jobpb.RegionState) bool          { return r.Status != jobpb.RegionStatus_REGION_RUNNING }
func (j *job) store(t *jobpb.Subtask) *job       { t.Partitions = stored(j.l, t); return j }
func stored(l *region.Layout, t *jobpb.Subtask) (ps []*jobpb.Partition) {
	for _, e := range l.Out(t.Chain) {
		ps = append(ps, &jobpb.Partition{Edge: e, State: jobpb.PartitionState_PARTITION_STORED, Attempt: t.Attempt})
	}
	return ps
}

type fataler interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// newJob has not begun.
func newJob(t fataler, p *jobpb.Plan) *job {
	t.Helper()
	l, err := region.NewLayout(p)
	if err != nil {
		t.Fatal(err)
	}
	j := &job{l: l}
	for i := range p.Regions {
		j.regions = append(j.regions, &jobpb.RegionState{Index: int32(i), Epoch: 1, Status: jobpb.RegionStatus_REGION_CREATED})
	}
	for _, c := range p.Chains {
		for i := range c.Parallelism {
			j.tasks = append(j.tasks, &jobpb.Subtask{Chain: c.Index, Index: i, Region: l.Of(len(j.tasks)), State: jobpb.SubtaskState_SUBTASK_CREATED})
		}
	}
	return j
}

func parsePlan(t fataler, text string) *jobpb.Plan {
	t.Helper()
	p := &jobpb.Plan{Graph: &jobpb.Graph{Name: "script"}}
	number := map[string]int32{}
	var whole []bool
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) >= 5 && f[1] == "->" {
			op := p.Graph.Operators[number[f[2]]]
			e := &jobpb.Edge{
				Index: int32(len(p.Edges)), FromOperator: number[f[0]], ToOperator: number[f[2]], Input: int32(len(op.Inputs)),
				FromChain: number[f[0]], ToChain: number[f[2]],
				Partitioner:  jobpb.Partitioner(jobpb.Partitioner_value["PARTITIONER_"+strings.ToUpper(f[3])]),
				Exchange:     jobpb.ExchangeKind(jobpb.ExchangeKind_value["EXCHANGE_"+strings.ToUpper(f[4])]),
				Reproducible: !slices.Contains(f, "irreproducible"), Ordered: !slices.Contains(f, "unordered") && !slices.Contains(f, "irreproducible"),
				OrderDependent: slices.Contains(f, "order-dependent") || slices.Contains(f, "irreproducible"),
			}
			p.Edges = append(p.Edges, e)
			op.Inputs = append(op.Inputs, &jobpb.Input{Operator: e.FromOperator, Partitioner: e.Partitioner})
			continue
		}
		n, err := strconv.ParseInt(f[1], 10, 32)
		if err != nil {
			t.Fatalf("chain %q: %v", line, err)
		}
		c := int32(len(p.Chains))
		number[f[0]] = c
		p.Chains = append(p.Chains, &jobpb.Chain{Index: c, Operators: []int32{c}, Parallelism: int32(n), Name: f[0]})
		p.Graph.Operators = append(p.Graph.Operators, &jobpb.Operator{Id: f[0], Kind: "map", Bounded: true})
		whole = append(whole, slices.Contains(f, "whole"))
	}
	p.Regions = region.Build(p.Chains, p.Edges, whole)
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	return p
}

func showRegions(l *region.Layout) string {
	var b strings.Builder
	for _, r := range l.Plan().Regions {
		fmt.Fprintf(&b, "%d: %s\n", r.Index, l.SubtaskNames([]int32{r.Index}))
	}
	return b.String()
}

// find are the subtasks of NAME, NAME[I] or NAME[I-J].
func (j *job) find(t fataler, text string) (found []*jobpb.Subtask) {
	name, span, part := strings.Cut(strings.TrimSuffix(text, "]"), "[")
	first, last, _ := strings.Cut(span, "-")
	if last == "" {
		last = first
	}
	lo, _ := strconv.Atoi(first)
	hi, _ := strconv.Atoi(last)
	for _, s := range j.tasks {
		if j.l.Plan().Chains[s.Chain].Name == name && (!part || int(s.Index) >= lo && int(s.Index) <= hi) {
			found = append(found, s)
		}
	}
	if len(found) == 0 {
		t.Fatalf("no subtask %q", text)
	}
	return found
}

func (j *job) say(t fataler, line string) {
	f := strings.Fields(line)
	for _, s := range j.find(t, f[0]) {
		r := j.regions[s.Region]
		switch {
		case f[1] == "->":
			for _, p := range s.Partitions {
				if j.l.Plan().Chains[j.l.Plan().Edges[p.Edge].ToChain].Name == f[2] {
					p.State = jobpb.PartitionState(jobpb.PartitionState_value["PARTITION_"+strings.ToUpper(f[3])])
				}
			}
		case f[1] == "waits":
			r.Status = jobpb.RegionStatus_REGION_RESTARTING
		case f[1] == "reordered":
			r.Reordered = true
		default:
			state, ok := jobpb.SubtaskState_value["SUBTASK_"+strings.ToUpper(f[1])]
			if !ok {
				t.Fatalf("%q", line)
			}
			s.State, s.Worker, s.Attempt, s.Partitions = jobpb.SubtaskState(state), "w", 1, nil
			if len(f) == 4 {
				s.Worker = f[3]
			}
			if s.State == jobpb.SubtaskState_SUBTASK_FINISHED {
				j.store(s)
			}
			if r.Status = jobpb.RegionStatus_REGION_RUNNING; s.State == jobpb.SubtaskState_SUBTASK_CREATED {
				r.Status = jobpb.RegionStatus_REGION_CREATED
			}
		}
	}
}

func playRestart(t fataler, j *job, d *datadriven.TestData) string {
	for line := range strings.Lines(d.Input) {
		j.say(t, line)
	}
	var failed []int32
	gone := map[string]bool{}
	for _, a := range d.CmdArgs {
		for _, v := range a.Vals {
			if a.Key == "gone" {
				gone[v] = true
				continue
			}
			for _, s := range j.find(t, v) {
				failed = append(failed, s.Region)
			}
		}
	}
	set := RestartSet(j, failed, func(s *jobpb.Subtask, _ *jobpb.Partition) bool { return gone[s.Worker] })
	if len(set.Regions) == 0 {
		return "nothing runs again\n"
	}
	text := "again: " + j.l.SubtaskNames(set.Regions) + "\n"
	if len(set.Lost) > 0 {
		text += "lost: " + j.l.ResultNames(set.Lost) + "\n"
	}
	if len(set.Reordered) > 0 {
		text += "reordered: " + j.l.SubtaskNames(set.Reordered) + "\n"
	}
	return text
}
