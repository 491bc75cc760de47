package worker

import (
	"errors"
	"fmt"

	"github.com/sluiceio/sluice/flow/setting"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// obey acts on one message of the leader. It does not block: what takes time is done by the supervisor of the process
// concerned. Nothing here needs to happen twice, and everything may: the leader repeats what it gets no answer to.
func (a *agent) obey(m *controlpb.CoordinatorMessage) {
	switch m := m.Message.(type) {
	case *controlpb.CoordinatorMessage_Welcome:
		if err := a.connection.welcomed(m.Welcome); err != nil {
			a.log.Error("second welcome of a session refused", "error", err)
		}
	case *controlpb.CoordinatorMessage_Ack:
		a.outbox.Ack(m.Ack.Sequence)
		a.table.acknowledged(m.Ack.Sequence)
	case *controlpb.CoordinatorMessage_Build:
		if err := m.Build.Spec.Validate(); err != nil {
			a.log.Error("build refused", "job", m.Build.Job, "error", err)
			a.builds.refuse(m.Build, err)
			return
		}
		a.builds.request(a.work, m.Build)
	case *controlpb.CoordinatorMessage_AbandonBuild:
		a.builds.abandon(buildKey{m.AbandonBuild.Job, m.AbandonBuild.Build})
	case *controlpb.CoordinatorMessage_Deploy:
		a.deploy(m.Deploy.Deployment)
	case *controlpb.CoordinatorMessage_Cancel:
		a.table.cancel(m.Cancel)
	case *controlpb.CoordinatorMessage_Commit:
		c := m.Commit
		a.forward(processKey{c.Job, c.Process}, &taskpb.AgentMessage{Message: &taskpb.AgentMessage_Commit{Commit: c}})
	case *controlpb.CoordinatorMessage_AssignSplits:
		s := m.AssignSplits
		a.forward(processKey{s.Job, s.Process}, &taskpb.AgentMessage{Message: &taskpb.AgentMessage_AssignSplits{AssignSplits: s}})
	case *controlpb.CoordinatorMessage_OpenGate:
		o := m.OpenGate
		a.forward(processKey{o.Job, o.Process}, &taskpb.AgentMessage{Message: &taskpb.AgentMessage_OpenGate{OpenGate: o}})
	case *controlpb.CoordinatorMessage_GroupClocks:
		g := m.GroupClocks
		if p := a.table.find(processKey{g.Job, g.Process}); p != nil { // one that is gone needs no answer
			p.post(&taskpb.AgentMessage{Message: &taskpb.AgentMessage_GroupClocks{GroupClocks: g}})
		}
	case *controlpb.CoordinatorMessage_DropPartitions:
		a.results.Drop(m.DropPartitions)
	case *controlpb.CoordinatorMessage_DeleteObjects:
		a.objects.Delete(m.DeleteObjects)
	case *controlpb.CoordinatorMessage_CopyObjects:
		a.objects.Copy(m.CopyObjects)
	case *controlpb.CoordinatorMessage_Release:
		key := processKey{m.Release.Job, m.Release.Process}
		if p := a.table.find(key); p != nil {
			p.stop(order{reason: "released: " + m.Release.Reason})
			return
		}
		a.tellAbsent(key, 0)
	}
}

// deploy starts the process if it is new here, and passes the deployment on.
func (a *agent) deploy(d *taskpb.Deployment) {
	if err := errors.Join(d.Validate(), d.Spec.Validate()); err != nil || d.Process == 0 {
		a.log.Error("deployment refused", "job", d.Job, "process", d.Process, "error", err)
		a.tell(processKey{d.Job, d.Process}, d.JobEpoch, &jobpb.Failure{
			Code: codeRefused, Kind: jobpb.FailureKind_FAILURE_FATAL, Worker: a.id.ID,
			Message: fmt.Sprintf("the worker cannot carry out the deployment: %v", err),
		})
		return
	}
	d.Settings = setting.Merge(d.Settings, a.cfg.Settings) // what the job says goes before what the worker says
	key := processKey{d.Job, d.Process}
	p, at := a.table.ensure(key, func() *taskProcess { return newTaskProcess(a, d) })
	switch at {
	case placeGone:
		a.tellAbsent(key, d.JobEpoch)
	case placeNew:
		p.deploy(d)
		a.work.Go("process", p.run)
	case placeLive:
		p.deploy(d)
	case placeClosed:
		// The leader knows that this worker drains, and sees the end of its session.
	}
}

// forward passes a message on to a process that is here.
func (a *agent) forward(key processKey, m *taskpb.AgentMessage) {
	if p := a.table.find(key); p != nil {
		p.post(m)
		return
	}
	a.tellAbsent(key, 0)
}

// tellAbsent answers a message for a process that is not here (any more), so that no leader waits for it.
func (a *agent) tellAbsent(key processKey, epoch uint64) {
	a.tell(key, epoch, &jobpb.Failure{
		Code: codeAbsent, Kind: jobpb.FailureKind_FAILURE_LOSS, Worker: a.id.ID, Message: "no such task process on this worker",
	})
}

// tell reports the end of a process that does not exist.
func (a *agent) tell(key processKey, epoch uint64, f *jobpb.Failure) {
	f = f.Bounded()
	r := &controlpb.Report{Job: key.job, JobEpoch: epoch, Process: key.number, Fact: &controlpb.Report_Exit{
		Exit: &controlpb.ProcessExit{Code: -1, Reason: f.Message, Kind: f.Kind, Failure: f},
	}}
	if !a.outbox.Offer(r) {
		a.log.Warn("outbox is full; the leader will ask again", "job", key.job, "process", key.number)
	}
}

// request passes a question of a task process on, if there is a leader to ask. The process asks again.
func (a *agent) request(r *controlpb.Report) {
	if open, _, _ := a.connection.registered(); !open {
		return
	}
	select {
	case a.requests <- r:
	default:
	}
}
