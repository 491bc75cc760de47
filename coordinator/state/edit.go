package state

import (
	"cmp"
	"slices"

	"github.com/sluiceio/sluice/coordinator/state/status"
	"github.com/sluiceio/sluice/coordinator/state/vector"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// jobEdit is one command at work on a copy of one job. Nothing of it shows unless the command applies.
type jobEdit struct {
	t        *tx
	j        Job // subtasks, regions and slots are those of before; the edits below have the new ones
	subtasks vector.Edit[*jobpb.Subtask]
	regions  vector.Edit[regionRecord]
	slots    vector.Edit[slot]
	counting bool // the counts of results are this edit's own
	lost     []*jobpb.PartitionRef
	err      error // an illegal transition
}

// edit runs f on a copy of a job and keeps the copy if f applied.
func (t *tx) edit(id string, f func(*jobEdit) Result) Result {
	j := t.Job(id)
	if j == nil {
		return refused(CodeNoJob, "no job %.100q", id)
	}
	e := &jobEdit{t: t, j: *j, subtasks: j.subtasks.Edit(), regions: j.regions.Edit(), slots: j.slots.Edit()}
	e.j.head = copyHead(j.head)
	r := f(e)
	if e.err != nil {
		return Result{Status: Refused, Code: CodeWrongStatus, Job: id, Message: e.err.Error()}
	}
	if r.Status == Applied {
		e.j.subtasks, e.j.regions, e.j.slots = e.subtasks.Vec(), e.regions.Vec(), e.slots.Vec()
		t.putJob(&e.j)
	}
	return r
}

// in reports whether the job is in one of these statuses.
func (e *jobEdit) in(statuses ...jobpb.JobStatus) bool {
	return slices.Contains(statuses, e.j.head.Status)
}

func (e *jobEdit) stale(format string, args ...any) Result { return stale(e.j.ID(), format, args...) }

// wrongStatus is the answer to a command that has come too late or too early for the job's status.
func (e *jobEdit) wrongStatus() Result { return e.stale("the job is %s", StatusName(e.j.head.Status)) }

// become moves the job; an illegal transition refuses the whole command.
func (e *jobEdit) become(s jobpb.JobStatus) {
	if e.j.head.Status == s {
		return
	}
	if err := status.Move(e.j.head.Status, s); err != nil && e.err == nil {
		e.err = err
	}
	e.j.head.Status = s
}

func (e *jobEdit) event(kind, message string) {
	e.t.event(&jobpb.Event{Kind: kind, Job: e.j.ID(), Message: message, Epoch: e.j.head.Epoch})
}

// replace puts the next record of a subtask in its place and keeps all counters in step.
func (e *jobEdit) replace(pos int, s *jobpb.Subtask) {
	old := e.subtasks.At(pos)
	e.subtasks.Set(pos, s)
	e.t.note(changeSubtask, s)
	e.j.counts[old.State]--
	e.j.counts[s.State]++
	e.recount(old, s)
	if active(old.State) != active(s.State) {
		i := e.j.SlotOf(s.Chain, s.Index)
		sl := e.slots.At(i)
		if active(s.State) {
			sl.active++
		} else {
			sl.active--
		}
		e.slots.Set(i, sl)
	}
}

// recount keeps what is counted of a region and of results in step.
func (e *jobEdit) recount(old, s *jobpb.Subtask) {
	if old.State != s.State {
		r := e.regions.At(int(s.Region))
		r.count(old.State, -1)
		r.count(s.State, +1)
		e.regions.Set(int(s.Region), r)
	}
	if len(old.Partitions)+len(s.Partitions) == 0 {
		return
	}
	if !e.counting {
		e.counting = true
		e.j.results = slices.Clone(e.j.results)
	}
	e.j.count(old, -1)
	e.j.count(s, +1)
}

func (r *regionRecord) count(s jobpb.SubtaskState, delta int32) {
	switch s {
	case jobpb.SubtaskState_SUBTASK_RUNNING, jobpb.SubtaskState_SUBTASK_FINISHING:
		r.running += delta
	case jobpb.SubtaskState_SUBTASK_FINISHED:
		r.finished += delta
	}
}

// setRegion replaces the state of a region.
func (e *jobEdit) setRegion(i int, s jobpb.RegionStatus, epoch uint64) {
	old := e.regions.At(i).state
	e.putRegion(&jobpb.RegionState{Index: int32(i), Epoch: epoch, Status: s, Reordered: old.Reordered && old.Epoch == epoch, Restore: old.Restore})
}

func (e *jobEdit) putRegion(s *jobpb.RegionState) {
	r := e.regions.At(int(s.Index))
	r.state = s
	e.regions.Set(int(s.Index), r)
	e.t.note(changeRegion, s)
}

// grant gives slot i of the job a place on a worker.
func (e *jobEdit) grant(i int, worker string, incarnation uint64) {
	sl := e.slots.At(i)
	if sl.granted && sl.worker == worker && sl.incarnation == incarnation {
		return
	}
	if sl.granted {
		e.t.use(sl.worker, sl.incarnation, -1)
	}
	sl.worker, sl.incarnation, sl.granted = worker, incarnation, true
	e.t.use(worker, incarnation, +1)
	e.slots.Set(i, sl)
	e.t.note(changeSlot, &jobpb.SlotGrant{Slot: int32(i), Worker: worker, Incarnation: incarnation})
}

// release gives slot i back, if the job holds it and nothing acts in it.
func (e *jobEdit) release(i int) {
	sl := e.slots.At(i)
	if !sl.granted || sl.active > 0 {
		return
	}
	e.t.use(sl.worker, sl.incarnation, -1)
	sl.worker, sl.incarnation, sl.granted = "", 0, false
	e.slots.Set(i, sl)
	e.t.note(changeSlot, &jobpb.SlotGrant{Slot: int32(i)})
}

func (e *jobEdit) releaseIdle() {
	for i := range e.slots.Len() {
		e.release(i)
	}
}

// addFailure appends to the bounded history, unless the same failure of the same attempt is there already.
func (e *jobEdit) addFailure(f *jobpb.Failure) {
	for _, old := range e.j.failures {
		if old.Chain == f.Chain && old.Index == f.Index && old.Attempt == f.Attempt && old.Code == f.Code && old.Message == f.Message {
			return
		}
	}
	if len(e.j.failures) >= MaxFailures {
		e.j.failures = withoutEcho(e.j.failures)
	}
	e.j.failures = appendBounded(e.j.failures, f, MaxFailures)
	e.t.note(changeFailure, f)
}

// withoutEcho makes room in a full history: the oldest loss goes first. Thousands of links break when one subtask fails,
// and must not drive out what it said of itself.
func withoutEcho(list []*jobpb.Failure) []*jobpb.Failure {
	i := slices.IndexFunc(list, func(f *jobpb.Failure) bool { return f.Kind == jobpb.FailureKind_FAILURE_LOSS })
	if i < 0 {
		return list
	}
	return slices.Delete(slices.Clone(list), i, i+1)
}

// appendBounded appends without changing what list shares with older records.
func appendBounded[T any](list []T, x T, most int) []T {
	if len(list) >= most {
		list = list[len(list)-most+1:]
	}
	return append(append(make([]T, 0, len(list)+1), list...), x)
}

// setSource replaces the record of a source.
func (e *jobEdit) setSource(s *Source) {
	sources := append([]*Source(nil), e.j.sources...)
	i, found := slices.BinarySearchFunc(sources, s.Operator(), func(s *Source, op int32) int { return cmp.Compare(s.Operator(), op) })
	if found {
		sources[i] = s
	} else {
		sources = slices.Insert(sources, i, s)
	}
	e.j.sources = sources
	e.t.note(changeSource, s.Head())
}

// dropOutput forgets prepared output for which gone is true.
func (e *jobEdit) dropOutput(gone func(*jobpb.Committable) bool) (dropped int) {
	var kept []*jobpb.Committable
	bytes := 0
	for _, c := range e.j.output {
		if gone(c) {
			dropped++
			continue
		}
		kept = append(kept, c)
		bytes += outputSize(c)
	}
	if dropped > 0 {
		e.j.output, e.j.outputBytes = kept, bytes
		e.noteOutput()
	}
	return dropped
}

func outputSize(c *jobpb.Committable) int { return len(c.Data) + len(c.Sink) + 32 }

// noteOutput folds the number of waiting committables into the chain; the committables themselves were folded when they came.
func (e *jobEdit) noteOutput() {
	e.t.note(changeOutput, &jobpb.Committable{N: int32(len(e.j.output))})
}

// isolate stops the job: no attempt starts any more, and idle slots go back. Those that act still hold theirs.
func (e *jobEdit) isolate() {
	e.j.head.RestartAtUs, e.j.head.Message = 0, ""
	e.releaseIdle()
}
