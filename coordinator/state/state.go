package state

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/coordinator/state/answer"
	"github.com/sluiceio/sluice/coordinator/state/ledger"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// Version is the command language that this binary speaks. A command above it halts the node.
const Version = 1

// Bounds of what is kept. What does not fit is refused with a code; histories drop their oldest entries.
const (
	MaxEvents   = 1000
	MaxFailures = 20      // of one job
	MaxHistory  = 128     // restarts of one job after failures of user code, and as many after losses
	MaxRequests = 500_000 // request ids
	// RequestMemoryMicros is how long a request id is remembered, in committed time.
	RequestMemoryMicros = 24 * 3600 * 1_000_000
	// LostWorkerMicros is how long a lost worker is remembered, in committed time.
	LostWorkerMicros = 24 * 3600 * 1_000_000
	MaxOutputBytes   = 32 << 20 // prepared output of one job
)

// State applies commands to the facts.
type State struct {
	cur    atomic.Pointer[View]
	halted *Result // once set, nothing is applied any more
	recent answer.Window
	sum    hash.Hash // scratch of the hash chain
	buf    []byte    // scratch of encodings
}

// New is the state before the first command.
func New() *State { return from(&View{}) }

func from(v *View) *State {
	s := &State{sum: sha256.New()}
	s.cur.Store(v)
	s.recent.Add(v.index, v.chain)
	return s
}

// View is the facts as of the last applied command.
func (s *State) View() *View { return s.cur.Load() }

// Chain is the hash chain after the last applied command.
func (s *State) Chain() Chain { return s.View().chain }

// ChainAt is the hash chain after the newest command at or below index. It is false if no command above or at index has
// been applied yet, or if the value is no longer remembered.
func (s *State) ChainAt(index uint64) (Chain, bool) { return s.recent.At(index) }

// Apply applies one command, as if it had been read from the log.
func (s *State) Apply(index, term uint64, cmd *commandpb.Command) Result {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(cmd)
	if err != nil {
		return s.record(index, term, nil, refused(CodeMalformed, "the command cannot be encoded"))
	}
	return s.apply(index, term, data, cmd)
}

// ApplyBytes decodes and applies one log entry. An entry that cannot be decoded is refused, with the same result on
// every node.
func (s *State) ApplyBytes(index, term uint64, data []byte) Result {
	cmd := &commandpb.Command{}
	if err := proto.Unmarshal(data, cmd); err != nil {
		// The decoder's own text is not part of the result: it may differ between versions of the library.
		return s.record(index, term, data, refused(CodeMalformed, "the entry is no command"))
	}
	return s.apply(index, term, data, cmd)
}

func (s *State) apply(index, term uint64, data []byte, cmd *commandpb.Command) Result {
	if newer(cmd) {
		r := Result{Status: Halt, Code: CodeNewer, Index: index,
			Message: fmt.Sprintf("entry %d has command version %d, this binary speaks %d: upgrade this coordinator", index, cmd.Version, Version)}
		s.halted = &r
		return r
	}
	if err := cmd.Validate(); err != nil {
		return s.record(index, term, data, refused(CodeMalformed, "%v", err))
	}
	v := s.View()
	if s.halted != nil || index <= v.index {
		return s.record(index, term, data, Result{})
	}
	t := &tx{View: *v, was: v, term: term, sum: s.sum, buf: s.buf}
	t.index = index
	t.now = max(t.now, cmd.TimeUs)
	t.sum.Reset()
	r := t.dispatch(cmd)
	s.buf = t.buf
	if r.Status != Applied {
		// Nothing of a command that did not apply may show, except its time and index.
		keep := *v
		keep.index, keep.now = t.index, t.now
		t.View = keep
		t.sum.Reset()
	}
	return s.publish(t, data, r)
}

// newer reports whether a command comes from a later command language: by its version, or by a kind of command that
// this binary does not know.
func newer(c *commandpb.Command) bool {
	return c.Version > Version || c.Command == nil && len(c.ProtoReflect().GetUnknown()) > 0
}

// record notes an entry that changed nothing.
func (s *State) record(index, term uint64, data []byte, r Result) Result {
	v := s.View()
	if s.halted != nil {
		return *s.halted
	}
	if index <= v.index {
		return Result{Status: Stale, Index: index, Message: fmt.Sprintf("entry %d was applied before", index)}
	}
	t := &tx{View: *v, was: v, term: term, sum: s.sum, buf: s.buf}
	t.index = index
	t.sum.Reset()
	return s.publish(t, data, r)
}

// publish folds the entry, its result and the changed records into the chain and makes the new facts visible.
func (s *State) publish(t *tx, data []byte, r Result) Result {
	r.Index = t.index
	changes := t.sum.Sum(nil)
	b := s.buf[:0]
	b = binary.BigEndian.AppendUint64(b, t.index)
	b = binary.BigEndian.AppendUint64(b, t.term)
	b = append(b, changes...)
	b = r.Canonical(b)
	s.sum.Reset()
	s.sum.Write(t.was.chain[:])
	s.sum.Write(b)
	s.sum.Write(data)
	s.sum.Sum(t.View.chain[:0])
	s.buf = b
	v := t.View
	s.recent.Add(v.index, v.chain)
	s.cur.Store(&v)
	return r
}

// tx is one command at work on a copy of the facts.
type tx struct {
	View
	was  *View
	term uint64
	sum  hash.Hash // of the changed records
	buf  []byte
}

// kinds of changed records in the hash chain.
const (
	changeNode byte = iota + 1
	changeWorker
	changeArtifact
	changeJob
	changeSubtask
	changeRegion
	changePlan
	changeFailure
	changeRestart
	changeOutput
	changeSource
	changeSplit
	changeAssignment
	changeRequest
	changeEvent
	changeSlot
	changeRemoved
	changeCheckpoints
	changeObject
)

// note folds a changed record into the chain.
func (t *tx) note(kind byte, m proto.Message) {
	b := append(t.buf[:0], kind, 0, 0, 0, 0)
	b, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(b, m)
	if err != nil {
		// Every text was checked to be UTF-8 before it came here; only that can fail.
		panic(fmt.Sprintf("state: record of kind %d cannot be encoded: %v", kind, err))
	}
	binary.BigEndian.PutUint32(b[1:], uint32(len(b)-5))
	t.sum.Write(b)
	t.buf = b
}

// gone folds the removal of a record into the chain.
func (t *tx) gone(kind byte, id string) {
	b := append(t.buf[:0], changeRemoved, kind)
	b = binary.BigEndian.AppendUint32(b, uint32(len(id)))
	t.buf = append(b, id...)
	t.sum.Write(t.buf)
}

// event adds one line to the bounded history.
func (t *tx) event(e *jobpb.Event) {
	e.Index, e.TimeUs, e.Term = t.index, t.now, t.term
	t.nextEvent++
	t.events = t.events.Put(t.nextEvent, e)
	if t.events.Len() > MaxEvents {
		k, _, _ := t.events.First()
		t.events = t.events.Del(k)
	}
	t.note(changeEvent, e)
}

func (t *tx) dispatch(c *commandpb.Command) Result {
	switch b := c.Command.(type) {
	case *commandpb.Command_InitCluster:
		return t.initCluster(b.InitCluster)
	case *commandpb.Command_PutNode:
		return t.putNode(b.PutNode.GetNode())
	case *commandpb.Command_RemoveNode:
		return t.removeNode(b.RemoveNode.GetId())
	case *commandpb.Command_LeaderElected:
		return t.leaderElected(b.LeaderElected)
	case *commandpb.Command_RegisterWorker:
		return t.registerWorker(b.RegisterWorker.GetWorker())
	case *commandpb.Command_LoseWorker:
		return t.loseWorker(b.LoseWorker)
	case *commandpb.Command_SetDrain:
		return t.setDrain(b.SetDrain)
	case *commandpb.Command_PutArtifact:
		return t.putArtifact(b.PutArtifact)
	case *commandpb.Command_RemoveArtifact:
		return t.removeArtifact(b.RemoveArtifact.GetDigest())
	case *commandpb.Command_SubmitJob:
		return t.submitJob(b.SubmitJob.GetSpec(), c.RequestId)
	case *commandpb.Command_CancelJob:
		return t.cancelJob(b.CancelJob.GetJob(), c.RequestId)
	case *commandpb.Command_RequestSavepoint:
		return t.requestSavepoint(b.RequestSavepoint, c.RequestId)
	case *commandpb.Command_RequestRescale:
		return t.once(c.RequestId, "rescale", b.RequestRescale, func() Result {
			return t.edit(b.RequestRescale.GetJob(), func(e *jobEdit) Result { return e.requestRescale(b.RequestRescale, c.RequestId) })
		})
	case *commandpb.Command_ForgetJobs:
		return t.forgetJobs(b.ForgetJobs.GetJobs())
	}
	return t.dispatchJob(c)
}

// dispatchJob serves the commands that carry a job and change what runs of it.
func (t *tx) dispatchJob(c *commandpb.Command) Result {
	switch b := c.Command.(type) {
	case *commandpb.Command_StartPlanning:
		return t.edit(b.StartPlanning.GetJob(), func(e *jobEdit) Result { return e.startPlanning(b.StartPlanning) })
	case *commandpb.Command_PlanJob:
		return t.edit(b.PlanJob.GetJob(), func(e *jobEdit) Result { return e.planJob(b.PlanJob) })
	case *commandpb.Command_RejectPlan:
		return t.edit(b.RejectPlan.GetJob(), func(e *jobEdit) Result { return e.rejectPlan(b.RejectPlan) })
	case *commandpb.Command_HoldJob:
		return t.edit(b.HoldJob.GetJob(), func(e *jobEdit) Result { return e.hold(b.HoldJob) })
	case *commandpb.Command_ScheduleRegions:
		return t.edit(b.ScheduleRegions.GetJob(), func(e *jobEdit) Result { return e.schedule(b.ScheduleRegions) })
	case *commandpb.Command_UpdateSubtasks:
		return t.edit(b.UpdateSubtasks.GetJob(), func(e *jobEdit) Result { return e.update(b.UpdateSubtasks) })
	case *commandpb.Command_RestartRegions:
		return t.edit(b.RestartRegions.GetJob(), func(e *jobEdit) Result { return e.restart(b.RestartRegions) })
	case *commandpb.Command_FailJob:
		return t.edit(b.FailJob.GetJob(), func(e *jobEdit) Result { return e.fail(b.FailJob) })
	case *commandpb.Command_DeployCommitter:
		return t.edit(b.DeployCommitter.GetJob(), func(e *jobEdit) Result { return e.deployCommitter(b.DeployCommitter) })
	case *commandpb.Command_ConfirmCommits:
		return t.edit(b.ConfirmCommits.GetJob(), func(e *jobEdit) Result { return e.confirm(b.ConfirmCommits) })
	case *commandpb.Command_EndJob:
		return t.edit(b.EndJob.GetJob(), func(e *jobEdit) Result { return e.end(b.EndJob) })
	case *commandpb.Command_AddSplits:
		return t.edit(b.AddSplits.GetJob(), func(e *jobEdit) Result { return e.addSplits(b.AddSplits) })
	case *commandpb.Command_ReleasePartitions:
		return t.edit(b.ReleasePartitions.GetJob(), func(e *jobEdit) Result { return e.releasePartitions(b.ReleasePartitions) })
	case *commandpb.Command_ReleaseSlots:
		return t.edit(b.ReleaseSlots.GetJob(), func(e *jobEdit) Result { return e.releaseSlots(b.ReleaseSlots) })
	case *commandpb.Command_AssignSplits:
		return t.edit(b.AssignSplits.GetJob(), func(e *jobEdit) Result { return e.assignSplits(b.AssignSplits) })
	}
	return t.dispatchCheckpoint(c)
}

// dispatchCheckpoint serves the commands about the checkpoints of one job.
func (t *tx) dispatchCheckpoint(c *commandpb.Command) Result {
	switch b := c.Command.(type) {
	case *commandpb.Command_StartCheckpoint:
		return t.edit(b.StartCheckpoint.GetJob(), func(e *jobEdit) Result { return e.startCheckpoint(b.StartCheckpoint) })
	case *commandpb.Command_CompleteCheckpoint:
		return t.edit(b.CompleteCheckpoint.GetJob(), func(e *jobEdit) Result { return e.completeCheckpoint(b.CompleteCheckpoint) })
	case *commandpb.Command_AbortCheckpoint:
		return t.edit(b.AbortCheckpoint.GetJob(), func(e *jobEdit) Result { return e.abortCheckpoint(b.AbortCheckpoint) })
	case *commandpb.Command_DeleteSavepoint:
		return t.edit(b.DeleteSavepoint.GetJob(), func(e *jobEdit) Result {
			return e.took(ledger.Drop(e.j.checkpoints, b.DeleteSavepoint.Checkpoint, !Terminal(e.j.head.Status)))
		})
	case *commandpb.Command_RescaleJob:
		return t.edit(b.RescaleJob.GetJob(), func(e *jobEdit) Result { return e.rescale(b.RescaleJob) })
	case *commandpb.Command_AbandonRescale:
		return t.edit(b.AbandonRescale.GetJob(), func(e *jobEdit) Result { return e.abandonRescale(b.AbandonRescale) })
	case *commandpb.Command_PlaceObjects:
		return t.edit(b.PlaceObjects.GetJob(), func(e *jobEdit) Result { return e.placeObjects(b.PlaceObjects) })
	case *commandpb.Command_DeleteObjects:
		return t.edit(b.DeleteObjects.GetJob(), func(e *jobEdit) Result { return e.deleteObjects(b.DeleteObjects) })
	case *commandpb.Command_ForgetObjects:
		return t.edit(b.ForgetObjects.GetJob(), func(e *jobEdit) Result { return e.forgetObjects(b.ForgetObjects) })
	}
	return refused(CodeMalformed, "no such command")
}
