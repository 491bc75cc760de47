package adopt

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/flow/graph"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/snapshot/chunk"
)

// Codes of what cannot be adopted.
const (
	CodeType     = "E061" // a state has another type
	CodeOperator = "E155" // state of an operator that the plan lacks
	CodeGroups   = "E156" // another number of key groups
	CodeResults  = "E158" // positions in stored results
)

// Error says why a checkpoint cannot be adopted.
type Error struct {
	Code  string
	Where string // operator and state
	What  string
	Hint  string // the way out
}

func (e *Error) Error() string {
	if e.Where == "" {
		return e.What
	}
	return e.Where + ": " + e.What
}

// Input of Translate.
type Input struct {
	Job        string
	JobEpoch   uint64
	Checkpoint uint64      // the id that the adopted checkpoint has in this job
	Plan       *jobpb.Plan // that goes on
	Ignore     []string    // operators whose state may be left behind
	// Fits reports why state of schema old cannot be read as schema new; nil: it can.
	Fits func(old, new string) error
}

// Translate is the manifest that the plan of in starts from: from, seen by it. from is valid and not changed.
func Translate(from *snapshotpb.Manifest, in Input) (*snapshotpb.Manifest, error) {
	t, err := newTranslation(from, in)
	if err != nil {
		return nil, err
	}
	if err := t.check(); err != nil {
		return nil, err
	}
	out := &snapshotpb.Manifest{
		Version: from.Version, Job: in.Job, JobEpoch: in.JobEpoch, Checkpoint: in.Checkpoint, Kind: from.Kind, Plan: in.Plan, TimeUs: from.TimeUs,
	}
	for _, c := range in.Plan.Chains {
		for i := range c.Parallelism {
			out.Subtasks = append(out.Subtasks, t.subtask(c, i))
		}
	}
	out.Sources = t.sources(out.Subtasks)
	out.Objects = t.objects(out.Subtasks)
	return out, nil
}

// translation is the work of one Translate.
type translation struct {
	from *snapshotpb.Manifest
	in   Input
	old  map[string]*former // by operator id
}

// former is what an operator has in the old manifest.
type former struct {
	op     *jobpb.Operator
	index  int32 // in the old graph
	states []held
}

// held is the state of one old subtask of an operator, with where its chain stood.
type held struct {
	index int32
	state *snapshotpb.OperatorState
	entry *snapshotpb.SubtaskState
}

func newTranslation(from *snapshotpb.Manifest, in Input) (*translation, error) {
	t := &translation{from: from, in: in, old: map[string]*former{}}
	for i, o := range from.Plan.GetGraph().GetOperators() {
		t.old[o.Id] = &former{op: o, index: int32(i)}
	}
	for _, s := range from.Subtasks {
		if s.Chain < 0 || int(s.Chain) >= len(from.Plan.Chains) {
			return nil, &Error{Code: "E154", What: fmt.Sprintf("the manifest has a subtask of chain %d, its plan %d chains", s.Chain, len(from.Plan.Chains))}
		}
		states := map[string]*snapshotpb.OperatorState{}
		for _, o := range s.Operators {
			states[o.Operator] = o
		}
		for _, op := range from.Plan.Chains[s.Chain].Operators {
			id := from.Plan.Graph.Operators[op].Id
			t.old[id].states = append(t.old[id].states, held{s.Index, states[id], s})
		}
	}
	return t, nil
}

// check finds what cannot be adopted, the gravest first.
func (t *translation) check() error {
	old, now := t.from.Plan.Graph, t.in.Plan.Graph
	if graph.KeyGroups(old) != graph.KeyGroups(now) {
		return &Error{
			Code: CodeGroups, What: fmt.Sprintf("the snapshot has %d key groups (max parallelism), the job %d", graph.KeyGroups(old), graph.KeyGroups(now)),
			Hint: fmt.Sprintf("set the job's max parallelism to %d: it is fixed for the life of the state", graph.KeyGroups(old)),
		}
	}
	operators := map[string]*jobpb.Operator{}
	for _, o := range now.Operators {
		operators[o.Id] = o
	}
	for _, id := range slices.Sorted(maps.Keys(t.old)) {
		f := t.old[id]
		o := operators[id]
		switch {
		case slices.Contains(t.in.Ignore, id):
			f.states = nil
		case !f.stateful():
		case o == nil:
			return &Error{
				Code: CodeOperator, Where: id, What: "the snapshot has state of this operator, and the job has no such operator",
				Hint: "give an operator this id, or leave the state behind: --ignore-state " + id,
			}
		default:
			if err := t.fits(f.op, o); err != nil {
				return err
			}
		}
	}
	for _, s := range t.from.Subtasks {
		if len(s.Positions) > 0 || s.Status == snapshotpb.SubtaskStatus_BOUNDED {
			return &Error{
				Code: CodeResults, Where: t.from.Plan.Chains[s.Chain].Name, What: "it reads stored results, which belong to the plan that made them",
				Hint: "start the job anew, or restore it in the job that made the snapshot",
			}
		}
	}
	return nil
}

// stateful reports whether there is anything to lose.
func (f *former) stateful() bool {
	return slices.ContainsFunc(f.states, func(h held) bool { return h.state != nil })
}

// fits compares the states that two versions of an operator declare. One that is gone would be lost; a new one begins empty.
func (t *translation) fits(old, now *jobpb.Operator) error {
	declared := map[string]*jobpb.StateDeclaration{}
	for _, s := range now.States {
		declared[s.Name] = s
	}
	for _, s := range old.States {
		where := old.Id + ", state " + s.Name
		n := declared[s.Name]
		if n == nil {
			return &Error{
				Code: CodeOperator, Where: where, What: "the snapshot has this state, and the operator does not declare it",
				Hint: "declare it, or leave the state of the operator behind: --ignore-state " + old.Id,
			}
		}
		if n.Kind != s.Kind {
			return &Error{Code: CodeType, Where: where, What: fmt.Sprintf("it was %s state, and is %s state now", s.Kind, n.Kind), Hint: "give the new state another name"}
		}
		if s.Schema == n.Schema {
			continue
		}
		if err := t.in.Fits(s.Schema, n.Schema); err != nil {
			return &Error{
				Code: CodeType, Where: where, What: fmt.Sprintf("it was of type %s, and is of type %s now: %v", s.Schema, n.Schema, err),
				Hint: "give the new state another name, or keep the type",
			}
		}
	}
	return t.keys(old, now)
}

// keys compares the types of the keys.
func (t *translation) keys(old, now *jobpb.Operator) error {
	for i, in := range old.Inputs {
		if in.Partitioner != jobpb.Partitioner_PARTITIONER_HASH || i >= len(now.Inputs) || now.Inputs[i].Partitioner != in.Partitioner {
			continue
		}
		if a, b := in.KeySchema, now.Inputs[i].KeySchema; a != b { // a key is found by its bytes: there is no reading it as something else
			return &Error{
				Code: CodeType, Where: old.Id, What: fmt.Sprintf("its keys were of type %s, and are of type %s now", a, b),
				Hint: "keep the type of the keys: they decide which key group a key belongs to",
			}
		}
	}
	return nil
}

// subtask is the entry of subtask i of a chain.
func (t *translation) subtask(c *jobpb.Chain, i int32) *snapshotpb.SubtaskState {
	s := &snapshotpb.SubtaskState{Chain: c.Index, Index: i, Status: snapshotpb.SubtaskStatus_RUNNING, WatermarkUs: math.MinInt64}
	first, end := KeyGroups(i, c.Parallelism, int32(graph.KeyGroups(t.in.Plan.Graph)))
	for _, op := range c.Operators {
		o := t.in.Plan.Graph.Operators[op]
		f := t.old[o.Id]
		if f == nil {
			continue
		}
		if st := f.part(o.Id, i, c.Parallelism, first, end); st != nil {
			s.Operators = append(s.Operators, st)
		}
	}
	head := t.in.Plan.Graph.Operators[c.Operators[0]]
	if f := t.old[head.Id]; f != nil {
		s.Clocks, s.WatermarkUs, s.Loaded = f.clocks()
	}
	return s
}

// part is the share of subtask i of n in the state of the operator.
func (f *former) part(id string, i, n, first, end int32) *snapshotpb.OperatorState {
	out := &snapshotpb.OperatorState{Operator: id}
	for _, h := range f.states {
		if h.state == nil {
			continue
		}
		for _, p := range h.state.Parts {
			a, b := max(p.First, first), min(p.End, end)
			if chunk.Scope(p.Scope) == chunk.Broadcast { // it is the same everywhere, and subtask 0 writes it
				a, b = first, end
				if first > 0 {
					continue
				}
			}
			if a >= b {
				continue
			}
			q := proto.CloneOf(p)
			q.First, q.End = a, b
			out.Parts = append(out.Parts, q)
		}
		if h.index%n != i {
			continue
		}
		for _, w := range append([][]byte{h.state.Writer}, h.state.Writers...) {
			switch {
			case len(w) == 0:
			case len(out.Writer) == 0:
				out.Writer = w
			default:
				out.Writers = append(out.Writers, w)
			}
		}
	}
	if len(out.Parts) == 0 && len(out.Writer) == 0 {
		return nil
	}
	return out
}

// clocks are the lowest that any old subtask had, by input. An input counts as ended, or idle, only where it was for all.
func (f *former) clocks() (out []*snapshotpb.InputClock, said int64, loaded bool) {
	lowest := map[int32]*snapshotpb.InputClock{}
	said, loaded = math.MinInt64, len(f.states) > 0
	for i, h := range f.states {
		loaded = loaded && h.entry.Loaded
		if i == 0 || h.entry.WatermarkUs < said {
			said = h.entry.WatermarkUs
		}
		for _, c := range h.entry.Clocks {
			l := lowest[c.Input]
			if l == nil {
				lowest[c.Input] = &snapshotpb.InputClock{Input: c.Input, WatermarkUs: c.WatermarkUs, Idle: c.Idle, Ended: c.Ended}
				continue
			}
			l.WatermarkUs, l.Idle, l.Ended = min(l.WatermarkUs, c.WatermarkUs), l.Idle && c.Idle, l.Ended && c.Ended
		}
	}
	for _, input := range slices.Sorted(maps.Keys(lowest)) {
		out = append(out, lowest[input])
	}
	return out, said, loaded
}

// objects are those that parts name, ordered.
func (t *translation) objects(subtasks []*snapshotpb.SubtaskState) (out []*jobpb.Object) {
	named := map[string]bool{}
	for _, s := range subtasks {
		for _, o := range s.Operators {
			for _, p := range o.Parts {
				named[p.Segment] = true
			}
		}
	}
	for _, o := range t.from.Objects {
		if named[o.Name] {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b *jobpb.Object) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// KeyGroups are those of subtask i of n: the ranges of flow/codec.Subtask.
func KeyGroups(i, n, groups int32) (first, end int32) {
	ceil := func(a int32) int32 { return int32((int64(a)*int64(groups) + int64(n) - 1) / int64(n)) }
	return ceil(i), ceil(i + 1)
}
