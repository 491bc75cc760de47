package snapshot

import (
	"errors"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
)

// Validate checks that a manifest is complete and agrees with itself: an entry for every planned subtask, parts that lie inside of
// objects that are listed, states of operators that are in the chain. The error is a *FormatError.
func Validate(m *snapshotpb.Manifest) error {
	switch {
	case m == nil:
		return unfit("no manifest")
	case m.Version != ManifestVersion:
		return unfit("manifest version %d, this program reads %d", m.Version, ManifestVersion)
	case ValidateJob(m.Job) != nil:
		return unfit("%.300q is no job id", m.Job)
	case m.Checkpoint == 0:
		return unfit("checkpoint 0")
	case m.Plan == nil || m.Plan.Graph == nil:
		return unfit("checkpoint %d has no plan", m.Checkpoint)
	}
	l, err := newLayout(m.Plan)
	if err != nil {
		return err
	}
	objects, err := checkObjects(m.Objects)
	if err != nil {
		return err
	}
	if len(m.Subtasks) != len(l.subtasks) {
		return unfit("checkpoint %d has entries of %d subtasks, the plan has %d", m.Checkpoint, len(m.Subtasks), len(l.subtasks))
	}
	for i, s := range m.Subtasks {
		if want := l.subtasks[i]; s == nil || s.Chain != want.chain || s.Index != want.index {
			return unfit("checkpoint %d has no entry of subtask %d of chain %d", m.Checkpoint, want.index, want.chain)
		}
		if err := checkSubtask(s, l, objects); err != nil {
			return unfit("checkpoint %d: chain %d, subtask %d: %w", m.Checkpoint, s.Chain, s.Index, err)
		}
	}
	return nil
}

// CheckAck checks what one attempt acknowledges against the plan; whether it fits the checkpoint is decided by Compose.
func CheckAck(a *snapshotpb.Ack, plan *jobpb.Plan) error {
	l, err := newLayout(plan)
	if err != nil {
		return err
	}
	objects := map[string]*jobpb.Object{}
	for _, s := range a.GetSegments() {
		objects[s.GetObject().GetName()] = s.GetObject()
	}
	return checkAck(a, l, func(p *snapshotpb.Part) error {
		if o := objects[p.Segment]; o != nil {
			return checkPart(p, o, l.groups)
		}
		return nil // of the base
	})
}

type place struct{ chain, index int32 }

// layout is what a plan says about its subtasks.
type layout struct {
	plan         *jobpb.Plan
	groups       int32
	subtasks     []place // by chain and index
	region       map[place]int32
	checkpointed map[int32]bool              // regions
	operators    map[int32]map[string]bool // of chains, by id
}

func newLayout(p *jobpb.Plan) (*layout, error) {
	if p.GetGraph() == nil {
		return nil, unfit("no plan")
	}
	l := &layout{plan: p, groups: p.Graph.MaxParallelism, region: map[place]int32{}, checkpointed: map[int32]bool{}, operators: map[int32]map[string]bool{}}
	if l.groups == 0 {
		l.groups = jobpb.MaxParallelism
	}
	for i, c := range p.Chains {
		if c == nil || int(c.Index) != i || c.Parallelism < 1 || c.Parallelism > jobpb.MaxParallelism || len(l.subtasks)+int(c.Parallelism) > jobpb.MaxSubtasks {
			return nil, unfit("chain %d of the plan cannot be read", i)
		}
		ids := map[string]bool{}
		for _, op := range c.Operators {
			if op < 0 || int(op) >= len(p.Graph.Operators) {
				return nil, unfit("chain %d of the plan has operator %d of %d", i, op, len(p.Graph.Operators))
			}
			ids[p.Graph.Operators[op].GetId()] = true
		}
		l.operators[c.Index] = ids
		for k := range c.Parallelism {
			l.subtasks = append(l.subtasks, place{c.Index, k})
		}
	}
	for _, r := range p.Regions {
		l.checkpointed[r.GetIndex()] = r.GetCheckpointed()
		for _, s := range r.GetSubtasks() {
			if s == nil || s.Count < 0 || s.Count > jobpb.MaxParallelism {
				return nil, unfit("region %d of the plan cannot be read", r.GetIndex())
			}
			for k := range s.Count {
				l.region[place{s.Chain, s.First + k}] = r.GetIndex()
			}
		}
	}
	return l, nil
}

func checkObjects(list []*jobpb.Object) (map[string]*jobpb.Object, error) {
	objects := make(map[string]*jobpb.Object, len(list))
	last := ""
	for _, o := range list {
		if err := CheckObject(o); err != nil {
			return nil, unfit("%w", err)
		}
		if p, err := Name(o.Name).Parse(); err != nil || p.Kind != KindSegment {
			return nil, unfit("%.300q is no name of a segment", o.Name)
		}
		if o.Name <= last {
			return nil, unfit("objects %s and %s are not in order", last, o.Name)
		}
		last = o.Name
		objects[o.Name] = o
	}
	return objects, nil
}

// CheckObject reports whether something is not the full description of an object.
func CheckObject(o *jobpb.Object) error {
	switch {
	case o == nil:
		return errors.New("object: missing")
	case Name(o.Name).Validate() != nil:
		return Name(o.Name).Validate()
	case o.Size < 0:
		return unfit("object %s has %d bytes", o.Name, o.Size)
	case len(o.Digest) != jobpb.DigestBytes:
		return unfit("object %s has a digest of %d bytes", o.Name, len(o.Digest))
	}
	return nil
}

func checkSubtask(s *snapshotpb.SubtaskState, l *layout, objects map[string]*jobpb.Object) error {
	switch s.Status {
	case snapshotpb.SubtaskStatus_NOT_STARTED, snapshotpb.SubtaskStatus_BOUNDED:
		if len(s.Operators)+len(s.Clocks)+len(s.Positions) > 0 {
			return unfit("has state and status %s", s.Status)
		}
		return nil
	case snapshotpb.SubtaskStatus_RUNNING, snapshotpb.SubtaskStatus_FINISHED:
	default:
		return unfit("status %d", s.Status)
	}
	return checkOperators(s.Operators, l.operators[s.Chain], func(p *snapshotpb.Part) error {
		o := objects[p.Segment]
		if o == nil {
			return unfit("part of table %q names object %.300q, which is not listed", p.Table, p.Segment)
		}
		return checkPart(p, o, l.groups)
	})
}

func checkOperators(list []*snapshotpb.OperatorState, ids map[string]bool, part func(*snapshotpb.Part) error) error {
	seen := map[string]bool{}
	for _, o := range list {
		if o == nil || !ids[o.Operator] || seen[o.Operator] {
			return unfit("state of operator %.200q, which the chain does not have, or twice", o.GetOperator())
		}
		seen[o.Operator] = true
		for _, p := range o.Parts {
			if p == nil {
				return unfit("operator %s: empty part", o.Operator)
			}
			if err := part(p); err != nil {
				return unfit("operator %s: %w", o.Operator, err)
			}
		}
		for _, c := range o.Committables {
			if err := c.Validate(); err != nil {
				return unfit("operator %s: %w", o.Operator, err)
			}
		}
		for _, s := range o.GetSource().GetSplits() {
			if s == nil || s.Index < 0 {
				return unfit("operator %s: split %d", o.Operator, s.GetIndex())
			}
			if err := s.Split.Validate(); err != nil {
				return unfit("operator %s: %w", o.Operator, err)
			}
		}
	}
	return nil
}

func checkPart(p *snapshotpb.Part, o *jobpb.Object, groups int32) error {
	if p.Offset < 0 || p.Size <= 0 || p.Offset > o.Size || p.Size > o.Size-p.Offset {
		return unfit("part of table %q at %d, %d bytes, is outside of object %s of %d bytes", p.Table, p.Offset, p.Size, o.Name, o.Size)
	}
	if p.First < 0 || p.End < p.First || p.End > groups {
		return unfit("part of table %q has key groups %d to %d of %d", p.Table, p.First, p.End, groups)
	}
	return nil
}

func checkAck(a *snapshotpb.Ack, l *layout, part func(*snapshotpb.Part) error) error {
	s := a.GetState()
	switch {
	case a == nil || a.Checkpoint == 0:
		return unfit("acknowledgement of no checkpoint")
	case a.Declined != nil:
		return unfit("a declined checkpoint has no state")
	case s == nil || s.Chain != a.Chain || s.Index != a.Index:
		return unfit("acknowledgement of chain %d, subtask %d without its state", a.Chain, a.Index)
	case s.Status != snapshotpb.SubtaskStatus_RUNNING && s.Status != snapshotpb.SubtaskStatus_FINISHED:
		return unfit("acknowledgement with status %s", s.Status)
	}
	return checkOperators(s.Operators, l.operators[s.Chain], part)
}
