package schedule

import (
	"github.com/sluiceio/sluice/coordinator/checkpoint"
	"github.com/sluiceio/sluice/coordinator/recovery"
	"github.com/sluiceio/sluice/coordinator/schedule/glance"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/flow/setting"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/snapshot"
)

// checkpoints performs what the cycle of a job's checkpoints wants done.
func (l *Leader) checkpoints(j *job, facts *state.Job) {
	if facts.Plan() == nil || !facts.Checkpointed() {
		return
	}
	if j.cycle == nil {
		j.cycle = checkpoint.New(checkpoint.Configure(setting.Values(facts.Plan().Settings)))
	}
	for _, a := range j.cycle.Step(facts, checkpoint.World{Now: l.now, Busy: l.busy(checkpointLane + j.id), Session: l.sessionFor(j)}) {
		switch a := a.(type) {
		case checkpoint.Trigger:
			w := l.soft[a.Place.Worker]
			l.send(w, &controlpb.CoordinatorMessage{Message: &controlpb.CoordinatorMessage_Trigger{Trigger: &taskpb.Trigger{
				Job: j.id, JobEpoch: facts.Epoch(), Process: a.Place.Process, Checkpoint: uint64(a.ID), Kind: a.Kind, Regions: a.Regions,
				Targets: glance.Targets(l.v, w.id, a.Place.Process, l.reaches), Copies: int32(j.cycle.Config().Copies), Completed: facts.Newest().GetId(),
			}}})
		case checkpoint.Notice:
			l.send(l.soft[a.Place.Worker], &controlpb.CoordinatorMessage{Message: &controlpb.CoordinatorMessage_CheckpointNotice{CheckpointNotice: &taskpb.CheckpointNotice{
				Job: j.id, JobEpoch: facts.Epoch(), Process: a.Place.Process, Checkpoint: uint64(a.ID), Aborted: a.Aborted, Regions: a.Regions,
			}}})
		case checkpoint.Load:
			l.out = append(l.out, Fetch{Job: j.id, Checkpoint: a.ID, Object: a.Manifest, Stores: glance.Addresses(l.v, a.Manifest)})
		case checkpoint.Store:
			l.out = append(l.out, Publish{
				Job: j.id, Checkpoint: a.ID, Name: snapshot.Manifest(j.id, facts.Epoch(), uint64(a.ID), l.cfg.Term), Data: a.Data,
				Targets: glance.Targets(l.v, "", uint64(a.ID), l.reaches), Copies: j.cycle.Config().Copies,
			})
		case checkpoint.Wake:
			l.wakeAt(j, a.At)
		case checkpoint.Fail:
			l.failCheckpoints(j, facts, a.Cause)
		default:
			l.proposeCheckpoint(j, facts, a)
		}
	}
	l.sweep(j, facts)
}

// sessionFor finds the session of a process, by its serial; 0: it cannot be spoken to now.
func (l *Leader) sessionFor(j *job) func(checkpoint.Place) uint64 {
	return func(p checkpoint.Place) uint64 {
		if w := l.usable(p.Worker); w != nil && w.session.runs(processKey{j.id, p.Process}) {
			return w.session.serial
		}
		return 0
	}
}

// proposeCheckpoint puts a step of a checkpoint into the facts. One is under way at a time.
func (l *Leader) proposeCheckpoint(j *job, facts *state.Job, a checkpoint.Action) {
	cycle, c, f := j.cycle, &commandpb.Command{}, &flight{Job: j.id}
	switch a := a.(type) {
	case checkpoint.Start:
		c.Command = &commandpb.Command_StartCheckpoint{StartCheckpoint: &commandpb.StartCheckpoint{
			Job: j.id, JobEpoch: facts.Epoch(), Kind: a.Kind, Regions: a.Regions, RequestId: a.Request,
		}}
		f.Done = func(r state.Result) { cycle.Started(r.Status == state.Applied) }
	case checkpoint.Abort:
		c.Command = &commandpb.Command_AbortCheckpoint{AbortCheckpoint: &commandpb.AbortCheckpoint{
			Job: j.id, JobEpoch: facts.Epoch(), Checkpoint: uint64(a.ID), Cause: a.Cause,
		}}
	case checkpoint.Complete:
		c.Command = &commandpb.Command_CompleteCheckpoint{CompleteCheckpoint: a.Command}
		f.Done = func(r state.Result) {
			if r.Status != state.Applied {
				cycle.Completed(checkpoint.ID(a.Command.Checkpoint), r.String())
			}
		}
	}
	l.propose(checkpointLane+j.id, c, f)
}

// failCheckpoints has the restart strategy decide about a job whose checkpoints come to nothing.
func (l *Leader) failCheckpoints(j *job, facts *state.Job, cause *jobpb.Failure) {
	now := max(l.now.UnixMicro(), l.v.TimeMicros())
	d := recovery.Decide(l.strategy(facts), facts.History(), recovery.Failed{Kind: recovery.KindOf(cause), At: now, Job: j.id, Restarts: facts.Head().Restarts})
	cause = recovery.Tell(cause, now)
	cycle := j.cycle
	f := &flight{Done: func(r state.Result) {
		if r.Status == state.Applied {
			cycle.Forgiven()
		}
	}}
	var broken []int32
	for r := range facts.Regions() {
		if facts.Plan().Regions[r.Index].Checkpointed && (r.Status == jobpb.RegionStatus_REGION_RUNNING || r.Status == jobpb.RegionStatus_REGION_SCHEDULED) {
			broken = append(broken, r.Index)
		}
	}
	if !d.Restart || len(broken) == 0 {
		l.proposeJob(j, &commandpb.Command{Command: &commandpb.Command_FailJob{FailJob: &commandpb.FailJob{
			Job: j.id, JobEpoch: facts.Epoch(), Cause: recovery.Explain(cause, d.Reason),
		}}}, f)
		return
	}
	at := int64(0)
	if d.Delay > 0 {
		at = now + d.Delay.Microseconds()
	}
	set := recovery.RestartSet(facts, broken, func(t *jobpb.Subtask, p *jobpb.Partition) bool { return l.missing(j, t, p) != "" })
	l.proposeJob(j, &commandpb.Command{Command: &commandpb.Command_RestartRegions{RestartRegions: &commandpb.RestartRegions{
		Job: j.id, JobEpoch: facts.Epoch(), Regions: glance.Epochs(facts, set.Regions), Cause: cause, RestartAtUs: at, Lost: set.Lost, Reordered: set.Reordered,
	}}}, f)
}

// acked takes what an attempt says of a checkpoint. It is in the leader's memory, which is all that it will ever be: a leader
// that is no more takes the whole checkpoint with it.
func (l *Leader) acked(j *job, facts *state.Job, a *snapshotpb.Ack, rc *receipt) {
	if j.cycle != nil {
		j.cycle.Ack(facts, a)
	}
	l.resolve(rc)
}

// published and fetched take the answers to Publish and Fetch.
func (l *Leader) published(e Published) {
	if j := l.jobs[e.Job]; j != nil {
		if j.adoption.Awaits(uint64(e.Checkpoint)) {
			j.adoption.Stored(e.Object, e.Err)
		} else if j.cycle != nil {
			j.cycle.Stored(e.Checkpoint, e.Object, e.Err)
		}
		l.mark(j)
	}
}

func (l *Leader) fetched(e Fetched) {
	if j := l.jobs[e.Job]; j != nil {
		if j.adoption.Awaits(uint64(e.Checkpoint)) {
			j.adoption.Fetched(e.Manifest, e.Err)
		}
		if j.cycle != nil {
			j.cycle.Loaded(e.Checkpoint, e.Manifest, e.Err)
		}
		l.mark(j)
	}
}
