package snapshot

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
)

// ComposeInput is what a manifest is made of, beside the one that it stands on.
type ComposeInput struct {
	Job        string
	JobEpoch   uint64
	Checkpoint uint64
	Kind       jobpb.CheckpointKind
	TimeUs     int64 // when the checkpoint was started
	Plan       *jobpb.Plan
	// Regions take part: each of their subtasks has acknowledged, or is finished in the base.
	Regions []int32
	// Acks of this checkpoint; stale attempts were refused before. One for each subtask.
	Acks []Acknowledged
	// Confirmed: every output up to this checkpoint is visible, so its committables are dropped.
	Confirmed uint64
	// Deleting are names in a planned deletion.
	Deleting []string
	// Sources are the facts of the sources of participating regions.
	Sources []*jobpb.SourceState
}

// Acknowledged is what one attempt says, and where it ran.
type Acknowledged struct {
	Process uint64 // of the attempt
	Ack     *snapshotpb.Ack
}

// Refused says that an acknowledgement cannot become part of the checkpoint.
type Refused struct {
	Chain, Index int32
	Cause        error
}

func (e *Refused) Error() string {
	return fmt.Sprintf("acknowledgement of chain %d, subtask %d is refused: %v", e.Chain, e.Index, e.Cause)
}

func (e *Refused) Unwrap() error { return e.Cause }

// Compose makes the manifest of a checkpoint: that of its base with what was acknowledged since. It is pure, and changes none of
// its arguments; the answer shares parts of them. base is nil if there is none.
//
// An acknowledgement may be based on an older checkpoint than base, if the attempt has not heard of base: it has all changes
// since then, and what the base has of them already is named once. One that is based on a newer checkpoint, or has forgotten what base
// has of it, is Refused.
func Compose(base *snapshotpb.Manifest, in ComposeInput) (*snapshotpb.Manifest, error) {
	l, err := newLayout(in.Plan)
	if err != nil {
		return nil, err
	}
	if err := checkBase(base, l, in); err != nil {
		return nil, err
	}
	c := &composer{in: in, l: l, base: base, objects: map[string]*jobpb.Object{}, deleting: map[string]bool{}, based: map[string]*jobpb.Object{}, written: map[uint64]map[string]*jobpb.Object{}}
	for _, n := range in.Deleting {
		c.deleting[n] = true
	}
	for _, o := range base.GetObjects() {
		c.based[o.Name] = o
	}
	acks, err := c.learn()
	if err != nil {
		return nil, err
	}
	m := &snapshotpb.Manifest{
		Version: ManifestVersion, Job: in.Job, JobEpoch: in.JobEpoch, Checkpoint: in.Checkpoint, Kind: in.Kind, Plan: in.Plan,
		TimeUs: in.TimeUs, Sources: in.Sources,
	}
	for i, at := range l.subtasks {
		var before *snapshotpb.SubtaskState
		if base != nil {
			before = base.Subtasks[i]
		}
		s, err := c.subtask(at, before, acks[at])
		if err != nil {
			return nil, err
		}
		m.Subtasks = append(m.Subtasks, s)
	}
	for _, name := range slices.Sorted(maps.Keys(c.objects)) {
		m.Objects = append(m.Objects, c.objects[name])
	}
	return m, Validate(m)
}

func checkBase(base *snapshotpb.Manifest, l *layout, in ComposeInput) error {
	if base == nil {
		return nil
	}
	if err := Validate(base); err != nil {
		return err
	}
	switch {
	case base.Job != in.Job:
		return unfit("the base is of job %s, not of %s", base.Job, in.Job)
	case base.Checkpoint >= in.Checkpoint:
		return unfit("checkpoint %d cannot stand on %d", in.Checkpoint, base.Checkpoint)
	case len(base.Subtasks) != len(l.subtasks):
		return unfit("the base has %d subtasks, the plan has %d", len(base.Subtasks), len(l.subtasks))
	}
	for i, c := range base.Plan.Chains {
		if c.Parallelism != l.plan.Chains[i].Parallelism {
			return unfit("the base has %d subtasks of chain %d, the plan has %d", c.Parallelism, i, l.plan.Chains[i].Parallelism)
		}
	}
	return nil
}

type composer struct {
	in       ComposeInput
	l        *layout
	base     *snapshotpb.Manifest
	based    map[string]*jobpb.Object            // of the base
	written  map[uint64]map[string]*jobpb.Object // by processes for acknowledgements
	objects  map[string]*jobpb.Object            // that parts of the new manifest name
	deleting map[string]bool
}

// learn puts the acknowledgements at their places and collects the segments that they name.
func (c *composer) learn() (map[place]Acknowledged, error) {
	acks := map[place]Acknowledged{}
	for _, a := range c.in.Acks {
		at := place{a.Ack.GetChain(), a.Ack.GetIndex()}
		if _, twice := acks[at]; twice {
			return nil, refuse(a.Ack, "there are two")
		}
		if _, known := c.l.region[at]; !known {
			return nil, refuse(a.Ack, "there is no such subtask")
		}
		acks[at] = a
		if c.written[a.Process] == nil {
			c.written[a.Process] = map[string]*jobpb.Object{}
		}
		for _, s := range a.Ack.Segments {
			if err := c.segment(a, s.GetObject()); err != nil {
				return nil, err
			}
		}
	}
	return acks, nil
}

func (c *composer) segment(a Acknowledged, o *jobpb.Object) error {
	if err := CheckObject(o); err != nil {
		return refuse(a.Ack, "%w", err)
	}
	p, err := Name(o.Name).Parse()
	// An embedded job is one process, which has no number.
	if err != nil || p.Kind != KindSegment || p.Job != c.in.Job || p.JobEpoch != c.in.JobEpoch || p.Process != 0 && p.Process != a.Process {
		return refuse(a.Ack, "object %s is none that process %d of job %s, epoch %d, writes", o.Name, a.Process, c.in.Job, c.in.JobEpoch)
	}
	if p.Checkpoint > c.in.Checkpoint {
		return refuse(a.Ack, "object %s belongs to a later checkpoint", o.Name)
	}
	for _, known := range []*jobpb.Object{c.written[a.Process][o.Name], c.based[o.Name]} {
		if known != nil && (known.Size != o.Size || !bytes.Equal(known.Digest, o.Digest)) {
			return refuse(a.Ack, "object %s has two contents", o.Name)
		}
	}
	c.written[a.Process][o.Name] = o
	return nil
}

func refuse(a *snapshotpb.Ack, format string, args ...any) error {
	return &Refused{Chain: a.GetChain(), Index: a.GetIndex(), Cause: fmt.Errorf(format, args...)}
}

// subtask makes the entry of one.
func (c *composer) subtask(at place, before *snapshotpb.SubtaskState, a Acknowledged) (*snapshotpb.SubtaskState, error) {
	region, planned := c.l.region[at]
	if !planned || !c.l.checkpointed[region] {
		if a.Ack != nil {
			return nil, refuse(a.Ack, "its region takes no part in checkpoints")
		}
		return &snapshotpb.SubtaskState{Chain: at.chain, Index: at.index, Status: snapshotpb.SubtaskStatus_BOUNDED}, nil
	}
	finished := before.GetStatus() == snapshotpb.SubtaskStatus_FINISHED
	switch {
	case a.Ack != nil && finished && a.Ack.GetState().GetStatus() == snapshotpb.SubtaskStatus_RUNNING:
		return nil, refuse(a.Ack, "checkpoint %d says that it is finished", c.base.Checkpoint)
	case a.Ack != nil && !finished:
		return c.merge(before, a)
	case !finished && slices.Contains(c.in.Regions, region):
		return nil, unfit("chain %d, subtask %d has not acknowledged checkpoint %d", at.chain, at.index, c.in.Checkpoint)
	case before == nil || before.Status == snapshotpb.SubtaskStatus_BOUNDED:
		return &snapshotpb.SubtaskState{Chain: at.chain, Index: at.index, Status: snapshotpb.SubtaskStatus_NOT_STARTED}, nil
	}
	return c.carry(before)
}

// carry takes an entry of the base over, but for output that is visible meanwhile.
func (c *composer) carry(before *snapshotpb.SubtaskState) (*snapshotpb.SubtaskState, error) {
	s := proto.CloneOf(before)
	for _, o := range s.Operators {
		o.Committables = c.unconfirmed(o.Committables)
		for _, p := range o.Parts {
			if err := c.use(p, 0); err != nil {
				return nil, unfit("chain %d, subtask %d: %w", s.Chain, s.Index, err)
			}
		}
	}
	return s, nil
}

// merge puts an acknowledgement on top of what the base has of the subtask.
func (c *composer) merge(before *snapshotpb.SubtaskState, a Acknowledged) (*snapshotpb.SubtaskState, error) {
	ack := a.Ack
	if err := checkAck(ack, c.l, func(*snapshotpb.Part) error { return nil }); err != nil {
		return nil, refuse(ack, "%w", err)
	}
	has := before.GetStatus() == snapshotpb.SubtaskStatus_RUNNING
	switch {
	case ack.Checkpoint != c.in.Checkpoint:
		return nil, refuse(ack, "it is of checkpoint %d, not of %d", ack.Checkpoint, c.in.Checkpoint)
	case ack.Base > c.base.GetCheckpoint():
		return nil, refuse(ack, "it is based on checkpoint %d, the manifest on %d", ack.Base, c.base.GetCheckpoint())
	case ack.Base == 0 && has:
		return nil, refuse(ack, "it begins from nothing, and checkpoint %d has state of it", c.base.Checkpoint)
	}
	s := proto.CloneOf(ack.State)
	old := map[string]*snapshotpb.OperatorState{}
	for _, o := range before.GetOperators() {
		old[o.Operator] = o
	}
	for _, o := range s.Operators {
		if err := c.operator(old[o.Operator], o, a); err != nil {
			return nil, err
		}
		delete(old, o.Operator)
	}
	for _, o := range before.GetOperators() {
		if old[o.Operator] == nil {
			continue
		}
		if o.Source != nil || len(o.Writer) > 0 {
			return nil, refuse(ack, "it has nothing of operator %s, which is a source or has a writer", o.Operator)
		}
		kept := &snapshotpb.OperatorState{Operator: o.Operator, Committables: o.Committables}
		if err := c.operator(o, kept, a); err != nil {
			return nil, err
		}
		s.Operators = append(s.Operators, kept)
	}
	c.inChainOrder(s)
	return s, nil
}

// inChainOrder restores the order of operators after some were kept from the base.
func (c *composer) inChainOrder(s *snapshotpb.SubtaskState) {
	at := map[string]int{}
	for i, op := range c.l.plan.Chains[s.Chain].Operators {
		at[c.l.plan.Graph.Operators[op].GetId()] = i
	}
	slices.SortStableFunc(s.Operators, func(a, b *snapshotpb.OperatorState) int { return cmp.Compare(at[a.Operator], at[b.Operator]) })
}

type chunkPlace struct {
	segment string
	offset  int64
}

// operator makes the whole chains of now, which comes from an acknowledgement, from those of before, which may be nil.
func (c *composer) operator(before, now *snapshotpb.OperatorState, a Acknowledged) error {
	again := map[chunkPlace]bool{}
	for _, p := range now.Parts {
		k := chunkPlace{p.Segment, p.Offset}
		if again[k] {
			return refuse(a.Ack, "operator %s names the part at %d of %s twice", now.Operator, p.Offset, p.Segment)
		}
		again[k] = true
	}
	var parts []*snapshotpb.Part
	for _, p := range before.GetParts() {
		if !slices.Contains(now.Replaced, p.Table) && !again[chunkPlace{p.Segment, p.Offset}] {
			parts = append(parts, p)
		}
	}
	parts = append(parts, now.Parts...)
	for _, p := range parts {
		if err := c.use(p, a.Process); err != nil {
			return refuse(a.Ack, "operator %s: %w", now.Operator, err)
		}
	}
	for _, k := range now.Committables {
		if k.Checkpoint > c.in.Checkpoint {
			return refuse(a.Ack, "operator %s: output of checkpoint %d", now.Operator, k.Checkpoint)
		}
	}
	now.Parts, now.Replaced = parts, nil
	now.Committables = c.unconfirmed(slices.Concat(before.GetCommittables(), now.Committables))
	return nil
}

// use notes the object of a part, which is one of the base or one that the process has written.
func (c *composer) use(p *snapshotpb.Part, process uint64) error {
	o := c.written[process][p.Segment]
	if o == nil {
		o = c.based[p.Segment]
	}
	switch {
	case o == nil:
		return fmt.Errorf("part of table %q names object %.300q, which is neither of the base nor written for this", p.Table, p.Segment)
	case c.deleting[o.Name]:
		return fmt.Errorf("part of table %q names object %s, which is being deleted", p.Table, o.Name)
	}
	c.objects[o.Name] = o
	return checkPart(p, o, c.l.groups)
}

// unconfirmed drops what is visible and what is named twice, and puts the rest in the order of commitment.
func (c *composer) unconfirmed(list []*jobpb.Committable) []*jobpb.Committable {
	list = slices.Clone(list)
	list = slices.DeleteFunc(list, func(k *jobpb.Committable) bool { return k.Checkpoint <= c.in.Confirmed })
	slices.SortStableFunc(list, compareCommittables)
	return slices.CompactFunc(list, func(a, b *jobpb.Committable) bool { return compareCommittables(a, b) == 0 })
}

func compareCommittables(a, b *jobpb.Committable) int {
	return cmp.Or(cmp.Compare(a.Checkpoint, b.Checkpoint), cmp.Compare(a.Sink, b.Sink), cmp.Compare(a.Subtask, b.Subtask), cmp.Compare(a.N, b.N))
}
