package checkpoint

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// flight is a checkpoint under way.
type flight struct {
	id       ID
	kind     jobpb.CheckpointKind
	deadline time.Time
	regions  []*taskpb.RegionEpoch
	epochs   map[int32]uint64
	// missing are the attempts whose acknowledgement is not here, by the position of their subtask. None is ever added: an
	// attempt that replaces one of them has another epoch, with which the facts give the checkpoint up.
	missing   map[int]uint32
	places    map[Place][]*taskpb.RegionEpoch
	triggered map[Place]uint64 // sessions that were told of it
	acks      map[int]*snapshotpb.Ack
	stage     stage
	manifest  *snapshotpb.Manifest
	stored    *jobpb.StoredObject // the manifest, durable
	void      string              // Complete led to nothing, for this reason
	cause     *jobpb.Failure      // it is to be given up, or was
	foreign   bool                // another leader began it
}

// stage of a checkpoint under way. It only grows.
type stage uint8

const (
	collecting stage = iota // acknowledgements
	storing                 // the manifest
	completing              // the manifest is durable: the facts decide
)

func newFlight(job *state.Job, s *jobpb.CheckpointStart, deadline time.Time) *flight {
	f := &flight{
		id: ID(s.Id), kind: s.Kind, deadline: deadline, epochs: map[int32]uint64{}, missing: map[int]uint32{},
		places: map[Place][]*taskpb.RegionEpoch{}, triggered: map[Place]uint64{}, acks: map[int]*snapshotpb.Ack{},
	}
	for _, r := range s.Regions {
		f.epochs[r.Region] = r.Epoch
		f.regions = append(f.regions, &taskpb.RegionEpoch{Region: r.Region, Epoch: r.Epoch})
	}
	for pos := range job.Size() {
		t := job.At(pos)
		epoch, in := f.epochs[t.Region]
		if !in || t.State == jobpb.SubtaskState_SUBTASK_FINISHED {
			continue
		}
		f.missing[pos] = t.Attempt
		p := Place{t.Worker, t.Process}
		if n := f.places[p]; !slices.ContainsFunc(n, func(e *taskpb.RegionEpoch) bool { return e.Region == t.Region }) {
			f.places[p] = append(n, &taskpb.RegionEpoch{Region: t.Region, Epoch: epoch})
		}
	}
	return f
}

// advance brings the checkpoint under way on.
func (c *Cycle) advance() {
	f := c.flight
	switch {
	case f.cause == nil && f.stage == collecting && !c.w.Now.Before(f.deadline):
		f.cause = &jobpb.Failure{Code: CodeGivenUp, Message: fmt.Sprintf("checkpoint %d is not done after %s: it waits for %s", f.id, c.cfg.Timeout, c.waitsFor())}
	case f.cause == nil && f.stage == collecting:
		c.trigger()
		c.load()
		if len(f.missing) == 0 {
			c.compose()
		} else {
			c.add(Wake{At: f.deadline})
		}
	case f.cause == nil && f.void != "":
		f.cause = &jobpb.Failure{Code: CodeGivenUp, Message: fmt.Sprintf("checkpoint %d does not count: %s", f.id, f.void)}
	case f.cause == nil && f.stage == completing:
		c.add(Complete{Command: c.completion()})
	}
	if f.cause != nil {
		cause := proto.CloneOf(f.cause)
		cause.TimeUs = c.w.Now.UnixMicro()
		if cause.Kind = jobpb.FailureKind_FAILURE_USER; f.foreign {
			cause.Kind = jobpb.FailureKind_FAILURE_LOSS
		}
		c.add(Abort{ID: f.id, Cause: cause.Bounded()})
	}
}

// trigger tells processes of the checkpoint: each once in a session, which is in order and loses nothing while it lasts.
func (c *Cycle) trigger() {
	f := c.flight
	if len(f.triggered) == len(f.places) && !c.look {
		return
	}
	for _, p := range sortedPlaces(f.places) {
		s := c.w.Session(p)
		if s == 0 || f.triggered[p] == s {
			continue
		}
		f.triggered[p] = s
		c.add(Trigger{Place: p, ID: f.id, Kind: f.kind, Regions: f.places[p]})
	}
}

// waitsFor names the subtasks that have not acknowledged: the first one, and how many more.
func (c *Cycle) waitsFor() string {
	first := -1
	for pos := range c.flight.missing { // any order: the least is taken
		if first < 0 || pos < first {
			first = pos
		}
	}
	if first < 0 {
		return "a store"
	}
	t := c.job.At(first)
	s := fmt.Sprintf("%s[%d]", c.job.Plan().Chains[t.Chain].Name, t.Index)
	if c.w.Session(Place{t.Worker, t.Process}) == 0 {
		s += ", whose worker " + t.Worker + " has no connection,"
	}
	if n := len(c.flight.missing) - 1; n > 0 {
		s += fmt.Sprintf(" and %d more", n)
	}
	return s
}

// Ack takes an acknowledgement. It reports whether it counts: it may be late, doubled, or of an attempt that is no more.
func (c *Cycle) Ack(job *state.Job, a *snapshotpb.Ack) bool {
	f := c.flight
	if f == nil || f.id != ID(a.GetCheckpoint()) || f.stage != collecting || f.cause != nil {
		return false
	}
	pos, ok := job.Position(a.Chain, a.Index)
	if !ok {
		return false
	}
	t := job.At(pos)
	attempt, missing := f.missing[pos]
	if !missing || attempt != a.Attempt || t.Attempt != a.Attempt || a.Region != t.Region || f.epochs[t.Region] != a.RegionEpoch {
		return false
	}
	if a.Declined != nil {
		f.cause = c.declined(job, t, a.Declined)
		return true
	}
	if err := checkAck(job, a); err != nil {
		f.cause = c.declined(job, t, &jobpb.Failure{Code: CodeGivenUp, Message: "its acknowledgement cannot be taken: " + err.Error()})
		return true
	}
	delete(f.missing, pos)
	f.acks[pos] = a
	return true
}

// declined is why a checkpoint is given up that a subtask does not take part in.
func (c *Cycle) declined(job *state.Job, t *jobpb.Subtask, why *jobpb.Failure) *jobpb.Failure {
	code := why.Code
	if code == "" {
		code = CodeGivenUp
	}
	return &jobpb.Failure{
		Code: code, Operator: why.Operator, Chain: t.Chain, Index: t.Index, Attempt: t.Attempt, Worker: t.Worker,
		Message: fmt.Sprintf("checkpoint %d was declined by %s[%d]: %s", c.flight.id, job.Plan().Chains[t.Chain].Name, t.Index, why.Message),
	}
}

// checkAck finds what an acknowledgement must not say.
//
// It carries all changes since its base. What is older is taken from the newest completed checkpoint, which contains every
// older one: so any completed base that is kept will do, and one that the attempt began with. Another one would lose what was
// changed between the two, without a word.
func checkAck(job *state.Job, a *snapshotpb.Ack) error {
	k := job.Checkpoints()
	if from := job.Region(a.Region).Restore; a.Base != from {
		known := slices.ContainsFunc(k.GetCompleted(), func(d *jobpb.CheckpointDone) bool { return d.Id == a.Base })
		if !known || a.Base < from {
			return fmt.Errorf("its base %d is no completed checkpoint that is kept", a.Base)
		}
	}
	if a.State == nil || a.State.Chain != a.Chain || a.State.Index != a.Index {
		return fmt.Errorf("it is of another subtask's state")
	}
	if s := a.State.Status; s != snapshotpb.SubtaskStatus_RUNNING && s != snapshotpb.SubtaskStatus_FINISHED {
		return fmt.Errorf("its state is %s", s)
	}
	written := map[string]bool{}
	for _, o := range a.Segments {
		if o.GetObject().GetName() == "" || len(o.Stores) == 0 {
			return fmt.Errorf("object %q is in no store", o.GetObject().GetName())
		}
		written[o.Object.Name] = true
	}
	for _, o := range a.State.Operators {
		for _, p := range o.Parts {
			if _, deleting := slices.BinarySearch(k.GetDeleting(), p.Segment); deleting {
				return fmt.Errorf("%s is being deleted", p.Segment)
			}
			if !written[p.Segment] && placed(k, p.Segment) == nil {
				return fmt.Errorf("%s was not written", p.Segment)
			}
		}
	}
	return nil
}

// placed finds an object among those that the facts know.
func placed(k *jobpb.Checkpoints, name string) *jobpb.StoredObject {
	i, ok := slices.BinarySearchFunc(k.GetObjects(), name, func(o *jobpb.StoredObject, n string) int { return cmp.Compare(o.Object.Name, n) })
	if !ok {
		return nil
	}
	return k.Objects[i]
}

// load asks for the manifest that the next one builds on, if it is not here.
func (c *Cycle) load() {
	newest := c.job.Newest()
	if newest == nil || c.manifest.GetCheckpoint() == newest.Id || c.loading == ID(newest.Id) {
		return
	}
	c.loading = ID(newest.Id)
	c.add(Load{ID: c.loading, Manifest: Placed(c.job, newest)})
}

// Placed is the manifest of a completed checkpoint with the stores that hold it.
func Placed(job *state.Job, d *jobpb.CheckpointDone) *jobpb.StoredObject {
	if o := placed(job.Checkpoints(), d.Manifest.GetName()); o != nil {
		return &jobpb.StoredObject{Object: d.Manifest, Stores: o.Stores}
	}
	return &jobpb.StoredObject{Object: d.Manifest}
}

// completion is the command that completes the checkpoint under way.
func (c *Cycle) completion() *commandpb.CompleteCheckpoint {
	f, newest := c.flight, c.job.Newest().GetId()
	m := &commandpb.CompleteCheckpoint{
		Job: c.job.ID(), JobEpoch: c.job.Epoch(), Checkpoint: uint64(f.id), Manifest: f.stored, Retain: int32(c.cfg.Retain), Copies: int32(c.cfg.Copies),
		Settled: c.settled(),
	}
	known := map[string]bool{}
	for _, pos := range positions(f.acks) {
		a := f.acks[pos]
		m.AlignedUs, m.FrozenUs = max(m.AlignedUs, a.AlignedUs), max(m.FrozenUs, a.FrozenUs)
		if a.State.Status == snapshotpb.SubtaskStatus_FINISHED {
			m.Finished = append(m.Finished, &commandpb.SubtaskRef{Chain: a.Chain, Index: a.Index, Attempt: a.Attempt})
		}
		for _, o := range a.Segments {
			if !known[o.Object.Name] && placed(c.job.Checkpoints(), o.Object.Name) == nil && names(f.manifest, o.Object.Name) {
				known[o.Object.Name] = true
				m.Segments = append(m.Segments, o)
				m.Bytes += o.Object.Size
			}
		}
		for _, o := range a.State.Operators {
			for _, x := range o.Committables {
				if x.Checkpoint > newest { // what is older, the newest completed one has listed
					m.Committables = append(m.Committables, x)
				}
			}
		}
	}
	slices.SortStableFunc(m.Committables, func(a, b *jobpb.Committable) int { return cmp.Compare(a.Checkpoint, b.Checkpoint) })
	slices.SortFunc(m.Segments, func(a, b *jobpb.StoredObject) int { return cmp.Compare(a.Object.Name, b.Object.Name) })
	for _, o := range f.manifest.Objects {
		m.Objects = append(m.Objects, o.Name)
		m.StateBytes += o.Size
	}
	m.Objects = append(m.Objects, f.stored.Object.Name)
	m.Bytes += f.stored.Object.Size
	slices.Sort(m.Objects)
	return m
}

// names reports whether a manifest needs an object.
func names(m *snapshotpb.Manifest, object string) bool {
	_, ok := slices.BinarySearchFunc(m.Objects, object, func(o *jobpb.Object, n string) int { return cmp.Compare(o.Name, n) })
	return ok
}

func positions(acks map[int]*snapshotpb.Ack) []int {
	ps := make([]int, 0, len(acks))
	for p := range acks { // any order: sorted below
		ps = append(ps, p)
	}
	slices.Sort(ps)
	return ps
}
