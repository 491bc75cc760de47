package snapshot

import (
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
)

// ComposeInput is what a manifest is made of.
type ComposeInput struct {
	Job        string
	JobEpoch   uint64
	Checkpoint uint64
	Kind       jobpb.CheckpointKind
	TimeUs     int64
	Plan       *jobpb.Plan
	// Acks of all subtasks that take part.
	Acks []*snapshotpb.Ack
	// Bounded tells of a subtask that has not acknowledged whether its region takes no part in checkpoints.
	Bounded func(chain, index int32) bool
	// Output is what was prepared for earlier checkpoints and is not confirmed yet.
	Output []*jobpb.Committable
	// Sources are the facts of the sources.
	Sources []*jobpb.SourceState
	// Deleting reports objects that a committed plan deletes; nil: none.
	Deleting func(name string) bool
}

// RefusedError is an acknowledgement that does not fit the checkpoint.
type RefusedError struct {
	Chain, Index int32
	What         string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("the acknowledgement of subtask %d of chain %d is refused: %s", e.Index, e.Chain, e.What)
}

// Compose is manifest(id) = manifest(base) + acknowledgements. base is nil before the first checkpoint. An acknowledgement whose base is another
// one, or that names a part which neither the base has nor its process has written, is a *RefusedError: with it the
// checkpoint fails, since what it stands for is not known to be durable.
func Compose(base *snapshotpb.Manifest, in ComposeInput) (*snapshotpb.Manifest, error) {
	c := composition{in: in, acks: map[[2]int32]*snapshotpb.Ack{}, old: map[[2]int32]*snapshotpb.SubtaskState{}, objects: map[string]*jobpb.Object{}}
	for _, s := range base.GetSubtasks() {
		c.old[[2]int32{s.Chain, s.Index}] = s
	}
	for _, o := range base.GetObjects() {
		c.objects[o.Name] = o
	}
	for _, a := range in.Acks {
		if a.Base != base.GetCheckpoint() {
			return nil, &RefusedError{a.Chain, a.Index, fmt.Sprintf("it holds what changed since %d, the base is %d", a.Base, base.GetCheckpoint())}
		}
		c.acks[[2]int32{a.Chain, a.Index}] = a
		for _, s := range a.Segments {
			c.objects[s.Object.GetName()] = s.Object
		}
	}
	m := &snapshotpb.Manifest{
		Version: ManifestVersion, Job: in.Job, JobEpoch: in.JobEpoch, Checkpoint: in.Checkpoint, Kind: in.Kind, Plan: in.Plan, TimeUs: in.TimeUs, Sources: in.Sources,
	}
	for _, ch := range in.Plan.Chains {
		for i := range ch.Parallelism {
			s, err := c.subtask(ch, i)
			if err != nil {
				return nil, err
			}
			m.Subtasks = append(m.Subtasks, s)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(namesOf(m.Subtasks))) {
		if in.Deleting != nil && in.Deleting(name) {
			return nil, &RefusedError{-1, -1, "it names " + name + ", which is being deleted"}
		}
		m.Objects = append(m.Objects, c.objects[name])
	}
	return m, ValidateManifest(m)
}

type composition struct {
	in      ComposeInput
	acks    map[[2]int32]*snapshotpb.Ack
	old     map[[2]int32]*snapshotpb.SubtaskState
	objects map[string]*jobpb.Object
}

// subtask is the entry of one subtask.
func (c *composition) subtask(ch *jobpb.Chain, i int32) (*snapshotpb.SubtaskState, error) {
	at := [2]int32{ch.Index, i}
	a, old := c.acks[at], c.old[at]
	if a == nil {
		switch {
		case c.in.Bounded != nil && c.in.Bounded(ch.Index, i):
			return &snapshotpb.SubtaskState{Chain: ch.Index, Index: i, Status: snapshotpb.SubtaskStatus_BOUNDED}, nil
		case old.GetStatus() == snapshotpb.SubtaskStatus_FINISHED:
			return c.withOutput(ch, proto.CloneOf(old)), nil
		}
		return &snapshotpb.SubtaskState{Chain: ch.Index, Index: i, Status: snapshotpb.SubtaskStatus_NOT_STARTED}, nil
	}
	s := proto.CloneOf(a.State)
	s.Chain, s.Index = ch.Index, i
	before := map[string]*snapshotpb.OperatorState{}
	for _, o := range old.GetOperators() {
		before[o.Operator] = o
	}
	for _, o := range s.Operators {
		if err := c.check(a, o); err != nil {
			return nil, err
		}
		o.Parts = chain(before[o.Operator], o)
		o.Replaced = nil
		delete(before, o.Operator)
	}
	for _, id := range operatorsOf(c.in.Plan, ch) { // that have not changed
		if o := before[id]; o != nil && len(o.Parts) > 0 {
			s.Operators = append(s.Operators, &snapshotpb.OperatorState{Operator: id, Parts: o.Parts})
		}
	}
	order := operatorsOf(c.in.Plan, ch)
	s = c.withOutput(ch, s)
	slices.SortStableFunc(s.Operators, func(x, y *snapshotpb.OperatorState) int {
		return slices.Index(order, x.Operator) - slices.Index(order, y.Operator)
	})
	return s, nil
}

// check that what an acknowledgement names is there.
func (c *composition) check(a *snapshotpb.Ack, o *snapshotpb.OperatorState) error {
	for _, p := range o.Parts {
		if c.objects[p.Segment] == nil {
			return &RefusedError{a.Chain, a.Index, "it names " + p.Segment + ", which nobody has written for it"}
		}
	}
	return nil
}

// chain is the parts of an operator: those of the base, of tables that were not replaced, and then the new ones.
func chain(before, o *snapshotpb.OperatorState) []*snapshotpb.Part {
	var out []*snapshotpb.Part
	for _, p := range before.GetParts() {
		if !slices.Contains(o.Replaced, p.Table) {
			out = append(out, p)
		}
	}
	return append(out, o.Parts...)
}

// withOutput adds to the sinks of a subtask what they had prepared before and nobody has confirmed yet.
func (c *composition) withOutput(ch *jobpb.Chain, s *snapshotpb.SubtaskState) *snapshotpb.SubtaskState {
	states := map[string]*snapshotpb.OperatorState{}
	for _, o := range s.Operators {
		states[o.Operator] = o
	}
	mine := operatorsOf(c.in.Plan, ch)
	earlier := map[string][]*jobpb.Committable{}
	for _, k := range c.in.Output {
		if k.Subtask == s.Index && slices.Contains(mine, k.Sink) {
			earlier[k.Sink] = append(earlier[k.Sink], k)
		}
	}
	if _, acked := c.acks[[2]int32{s.Chain, s.Index}]; !acked {
		for _, o := range s.Operators {
			o.Committables = nil // of a finished subtask: what counts of it is what is not confirmed
		}
	}
	for _, sink := range slices.Sorted(maps.Keys(earlier)) {
		o := states[sink]
		if o == nil {
			o = &snapshotpb.OperatorState{Operator: sink}
			s.Operators = append(s.Operators, o)
		}
		have := map[[2]uint64]bool{}
		for _, k := range o.Committables {
			have[[2]uint64{k.Checkpoint, uint64(k.N)}] = true
		}
		var all []*jobpb.Committable
		for _, k := range earlier[sink] {
			if !have[[2]uint64{k.Checkpoint, uint64(k.N)}] {
				all = append(all, k)
			}
		}
		o.Committables = append(all, o.Committables...)
	}
	return s
}

func operatorsOf(p *jobpb.Plan, ch *jobpb.Chain) []string {
	out := make([]string, len(ch.Operators))
	for i, op := range ch.Operators {
		out[i] = p.Graph.Operators[op].Id
	}
	return out
}

// namesOf are the segments that parts name.
func namesOf(subtasks []*snapshotpb.SubtaskState) map[string]bool {
	named := map[string]bool{}
	for _, s := range subtasks {
		for _, o := range s.Operators {
			for _, p := range o.Parts {
				named[p.Segment] = true
			}
		}
	}
	return named
}

// Find is the entry of a subtask, nil if there is none.
func Find(m *snapshotpb.Manifest, chain, index int32) *snapshotpb.SubtaskState {
	i, ok := slices.BinarySearchFunc(m.GetSubtasks(), [2]int32{chain, index}, func(s *snapshotpb.SubtaskState, at [2]int32) int {
		if s.Chain != at[0] {
			return int(s.Chain) - int(at[0])
		}
		return int(s.Index) - int(at[1])
	})
	if !ok {
		return nil
	}
	return m.Subtasks[i]
}

// StateBytes is the size of all parts.
func StateBytes(m *snapshotpb.Manifest) (n int64) {
	for _, s := range m.GetSubtasks() {
		for _, o := range s.Operators {
			for _, p := range o.Parts {
				n += p.Size
			}
		}
	}
	return n
}
