package worker

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// trigger passes the beginning of a checkpoint on to its process, and remembers it until the leader says what became of it.
func (a *agent) trigger(t *taskpb.Trigger) {
	key := processKey{t.Job, t.Process}
	p := a.table.find(key)
	if p == nil {
		a.tellAbsent(key, 0)
		return
	}
	p.mu.Lock()
	if p.mu.trigger == nil || p.mu.trigger.Checkpoint <= t.Checkpoint {
		p.mu.trigger = t
	}
	p.mu.Unlock()
	p.post(&taskpb.AgentMessage{Message: &taskpb.AgentMessage_Trigger{Trigger: t}})
}

// notice passes on what became of a checkpoint. A process that is gone needs no answer.
func (a *agent) notice(n *taskpb.CheckpointNotice) {
	p := a.table.find(processKey{n.Job, n.Process})
	if p == nil {
		return
	}
	p.mu.Lock()
	if p.mu.trigger.GetCheckpoint() <= n.Checkpoint {
		p.mu.trigger = nil
	}
	p.mu.Unlock()
	p.post(&taskpb.AgentMessage{Message: &taskpb.AgentMessage_CheckpointNotice{CheckpointNotice: n}})
}

// abandonCheckpoints has every process give up the checkpoint that is under way, because nobody leads it any more: subtasks that
// align hold channels back, and would hold them until there is a leader again (PROTOCOL 7). What was acknowledged is not
// taken back: if this very leader returns, it may still count.
func (a *agent) abandonCheckpoints() {
	for _, p := range a.table.list() {
		p.mu.Lock()
		t := p.mu.trigger
		p.mu.trigger = nil
		p.mu.Unlock()
		if t == nil {
			continue
		}
		p.log.Info("checkpoint abandoned, because the session with the leader has ended", "checkpoint", t.Checkpoint)
		p.post(&taskpb.AgentMessage{Message: &taskpb.AgentMessage_CheckpointNotice{CheckpointNotice: &taskpb.CheckpointNotice{
			Job: t.Job, JobEpoch: t.JobEpoch, Process: t.Process, Checkpoint: t.Checkpoint, Aborted: true, Regions: t.Regions,
		}}})
	}
}

// acked keeps an acknowledgement until a leader has taken it.
func (p *taskProcess) acked(ctx context.Context, a *snapshotpb.Ack) error {
	if a.Declined != nil {
		a = proto.CloneOf(a)
		a.Declined = a.Declined.Bounded()
		a.Declined.Worker = p.agent.id.ID
	}
	return p.report(ctx, &controlpb.Report{Fact: &controlpb.Report_Ack{Ack: a}}, func(uint64) {})
}
