package task

import (
	"context"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/worker/task/chain"
	"github.com/sluiceio/sluice/worker/task/mail"
	"github.com/sluiceio/sluice/worker/task/restore"
	"github.com/sluiceio/sluice/worker/task/segment"
)

// Trigger begins a checkpoint: every attempt here takes part that runs in one of the regions named, under the epoch named. What is
// for another epoch is dropped. Idempotent; the answers are reported through Host.Ack.
func (p *Process) Trigger(t *taskpb.Trigger) {
	if err := t.Validate(); err != nil || t.Job != p.cfg.Job || !p.cfg.here(t.Process) {
		p.log.Warn("trigger refused", "for", t.GetJob(), "error", err)
		return
	}
	told := p.meant(t.JobEpoch, t.Regions)
	if len(told) == 0 {
		p.log.Debug("stale trigger dropped", "checkpoint", t.Checkpoint)
		return
	}
	members := make([]segment.Member, len(told))
	for i, a := range told {
		members[i] = a.member()
	}
	p.segments.Trigger(t, members)
	for _, a := range told {
		if !a.mail.Post(mail.Letter{Trigger: t}) {
			p.log.Warn("mailbox full, trigger dropped", "task", a.name(), "checkpoint", t.Checkpoint) // it will be given up
		}
	}
}

// Notice says what became of a checkpoint. Idempotent; what is for another epoch is dropped.
func (p *Process) Notice(n *taskpb.CheckpointNotice) {
	if err := n.Validate(); err != nil || n.Job != p.cfg.Job || !p.cfg.here(n.Process) {
		p.log.Warn("checkpoint notice refused", "for", n.GetJob(), "error", err)
		return
	}
	told := p.meant(n.JobEpoch, n.Regions)
	if n.Aborted && len(told) > 0 {
		p.segments.Abort(n.Checkpoint)
	}
	for _, a := range told {
		if !a.mail.Post(mail.Letter{Notice: n}) {
			p.log.Warn("mailbox full, checkpoint notice dropped", "task", a.name(), "checkpoint", n.Checkpoint) // the next one says it, too
		}
	}
}

// meant are the attempts that take part in checkpoints and run under exactly these epochs.
func (p *Process) meant(jobEpoch uint64, regions []*taskpb.RegionEpoch) (told []*attempt) {
	epochs := map[int32]uint64{}
	for _, r := range regions {
		epochs[r.Region] = r.Epoch
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for a := range p.mu.running {
		epoch, named := epochs[a.sub.Region]
		if named && a.sub.RegionEpoch == epoch && a.jobEpoch == jobEpoch && a.sub.Checkpointed && a.cause == nil {
			told = append(told, a)
		}
	}
	return told
}

// goes starts a goroutine of the process; nothing starts before Run and behind it.
func (p *Process) goes(name string, f func(context.Context) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.group != nil && !p.mu.closed {
		p.mu.group.Go(name, f)
	}
}

// restoredState is what a checkpoint has of one operator beside its tables.
type restoredState struct {
	chain.Restored
	source *snapshotpb.SourceState
}

// restoreSource is a checkpoint that attempts of this process start from, for as long as one of them reads it.
type restoreSource struct {
	*restore.Checkpoint
	users int // guarded by Process.mu
}

// restoring is the checkpoint of a deployment, which all of its attempts share. The lock is held.
func (p *Process) restoring(d *taskpb.Deployment) *restoreSource {
	name := d.Restore.GetManifest().GetObject().GetName()
	s := p.mu.restores[name]
	if s == nil {
		s = &restoreSource{Checkpoint: restore.New(p.cfg.Stores, d.Restore)}
		p.mu.restores[name] = s
	}
	s.users++
	return s
}

// restored: the attempt reads nothing more of its checkpoint.
func (p *Process) restored(a *attempt) {
	if a.restoring == nil {
		return
	}
	p.mu.Lock()
	s := a.restoring
	a.restoring = nil
	s.users--
	last := s.users == 0
	if last {
		for name, x := range p.mu.restores {
			if x == s {
				delete(p.mu.restores, name)
			}
		}
	}
	p.mu.Unlock()
	if last {
		a.quietly("close checkpoint", s.Close())
	}
}

// started is what the checkpoint has of this subtask; nil: it starts from nothing.
func (a *attempt) started(ctx context.Context) error {
	if a.sub.Restore == 0 {
		return nil
	}
	from, err := a.restoring.Subtask(ctx, a.sub.Chain, a.sub.Index)
	if err == nil && from.Status != snapshotpb.SubtaskStatus_NOT_STARTED {
		a.from = from
	}
	return err
}

// restoredOf is what the checkpoint has of one operator beside its tables.
func (a *attempt) restoredOf(operator string) (r restoredState) {
	r.Checkpoint = element.CheckpointID(a.sub.Restore)
	for _, o := range a.from.GetOperators() {
		if o.Operator == operator {
			r.source = o.Source
			if len(o.Writer) > 0 {
				r.Writers = append([][]byte{o.Writer}, o.Writers...)
			}
		}
	}
	return r
}

// kept are the committables of a sink that the checkpoint has: they will be committed, whatever became of their attempt.
func (a *attempt) kept(ctx context.Context, sink string) ([]connector.Committable, error) {
	if a.sub.Restore == 0 {
		return nil, nil
	}
	cs, err := a.restoring.Committables(ctx, sink)
	out := make([]connector.Committable, len(cs))
	for i, c := range cs {
		out[i] = connector.Committable{Subtask: int(c.Subtask), Checkpoint: element.CheckpointID(c.Checkpoint), N: int(c.N), Data: c.Data}
	}
	return out, err
}

// hasEnded reports that the input has ended, and no completed checkpoint has that yet.
func (a *attempt) hasEnded() {
	a.finishing = true
	a.announce()
}
