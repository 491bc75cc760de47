package task

import (
	"time"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/snapshot"
	"github.com/sluiceio/sluice/worker/task/chain"
	"github.com/sluiceio/sluice/worker/task/fault"
	"github.com/sluiceio/sluice/worker/task/segment"
)

// How much of a snapshot is written between two steps of the loop: a share of what a batch has while there are records, more
// while there are none.
const (
	unitsBusy = 256
	unitsIdle = 4096
)

// cuts is what a loop knows about checkpoints.
type cuts struct {
	attempt *attempt
	base    element.CheckpointID // the newest one that is known to be completed and has this attempt, or its restore id
	cut     []cut                // frozen and undecided, ascending
	capture *capture             // that is being written; nil: none is
	more    bool                 // the capture can go on at once
	starved bool                 // the last step found no input
	// contained: a completed checkpoint has the end of the subtask.
	contained bool
}

type cut struct {
	id       element.CheckpointID
	sealed   bool // everything of it was handed over: it may complete
	finished bool // it has the end of the subtask
}

// capture is the state of one checkpoint on its way out of the subtask.
type capture struct {
	id     element.CheckpointID
	ack    *snapshotpb.Ack
	share  *segment.Share
	tables []frozenTable // left to write
	began  time.Time
}

type frozenTable struct {
	of     *snapshotpb.OperatorState
	s      *chain.Snapshot
	groups chain.KeyGroups
	done   bool
}

// freeze fixes the state for a checkpoint whose barrier has come through all channels, and sends the barrier on.
func (l *loop) freeze(id element.CheckpointID, since time.Time) error {
	l.drop() // what a lower one has not handed over by now can never be complete
	start := time.Now()
	frozen, err := l.chain.Freeze(id)
	if err != nil {
		return err
	}
	over := l.chain.Over()
	a := l.attempt
	s := &snapshotpb.SubtaskState{Chain: a.sub.Chain, Index: a.sub.Index, Status: snapshotpb.SubtaskStatus_RUNNING}
	if over {
		s.Status = snapshotpb.SubtaskStatus_FINISHED
	}
	c := &capture{id: id, began: start}
	for _, f := range frozen {
		s.Operators = append(s.Operators, f.State)
		for _, t := range f.Tables {
			c.tables = append(c.tables, frozenTable{of: f.State, s: t, groups: f.KeyGroups})
		}
	}
	if err := l.head.Save(id, s); err != nil {
		return err
	}
	if !over {
		if err := l.chain.Barrier(id); err != nil {
			return err
		}
	}
	c.ack = a.ack(id)
	c.ack.Base, c.ack.State, c.ack.FrozenUs = uint64(l.base), s, time.Since(start).Microseconds()
	if !since.IsZero() {
		c.ack.AlignedUs = start.Sub(since).Microseconds()
	}
	l.cut = append(l.cut, cut{id: id, finished: over})
	if c.share = a.proc.segments.Join(a.jobEpoch, uint64(id), a.member(), l.mail.Wake); c.share == nil {
		c.close()
		return nil
	}
	l.capture, l.more = c, true
	return nil
}

// write goes on with the snapshot for about so many units. It leaves behind whether there is more to do at once.
func (l *loop) write(units int) error {
	c := l.capture
	l.more = false
	if err := c.share.Err(); err != nil {
		if !segment.GivenUp(err) {
			d := l.attempt.ack(c.id)
			d.Declined = &jobpb.Failure{Kind: jobpb.FailureKind_FAILURE_USER, Code: snapshot.CodeWrite, Message: err.Error(), TimeUs: time.Now().UnixMicro()}
			l.attempt.proc.cfg.Host.Ack(d)
		}
		l.drop()
		return nil
	}
	if c.share.Busy() {
		return nil // it wakes the loop
	}
	for len(c.tables) > 0 {
		t := &c.tables[0]
		if p, ok := t.s.Take(); ok {
			h := t.s.Header()
			meta := &snapshotpb.Part{Table: h.Table, Scope: int32(h.Scope), First: int32(t.groups.First), End: int32(t.groups.End)}
			t.of.Parts = append(t.of.Parts, meta)
			c.share.Put(p, meta)
			return nil
		}
		if t.done {
			c.tables = c.tables[1:]
			continue
		}
		var err error
		if t.done, err = t.s.Step(units); err != nil {
			return fault.Of(err, fault.CodeUser, t.of.Operator)
		}
		if !t.done && !t.s.Waits() {
			l.more = true
			return nil
		}
	}
	c.ack.WrittenUs = time.Since(c.began).Microseconds()
	l.chain.Wrote(c.id, c.ack.State)
	l.cut[len(l.cut)-1].sealed = true
	l.capture = nil
	c.share.Seal(c.ack)
	return nil
}

// writeSome goes on with the snapshot between two steps.
func (l *loop) writeSome() error {
	units := unitsBusy
	if l.starved {
		units = unitsIdle
		if err := l.protected(l.flush); err != nil {
			return err
		}
	}
	return l.protected(func() error { return l.write(units) })
}

// drop gives up the snapshot that is being written. Its checkpoint cannot complete, since this attempt has not acknowledged it:
// what it would have had is for the next one.
func (l *loop) drop() {
	c := l.capture
	if c == nil {
		return
	}
	l.capture, l.more = nil, false
	c.close()
	for i, x := range l.cut {
		if x.id == c.id {
			l.cut = append(l.cut[:i], l.cut[i+1:]...)
			break
		}
	}
	l.chain.Aborted(c.id)
}

func (c *capture) close() {
	for _, t := range c.tables {
		_ = t.s.Close() // memory, or a file without a name
	}
}

// triggered takes the beginning of a checkpoint. It says what became of those before it, too.
func (l *loop) triggered(t *taskpb.Trigger) error {
	if t.Completed > 0 {
		l.completed(element.CheckpointID(t.Completed))
		kept := l.cut[:0]
		for _, x := range l.cut {
			if x.id < element.CheckpointID(t.Checkpoint) && (l.capture == nil || l.capture.id != x.id) {
				l.chain.Aborted(x.id)
				continue
			}
			kept = append(kept, x)
		}
		l.cut = kept
	}
	if d, ok := l.head.(drainer); ok && t.Kind == jobpb.CheckpointKind_CHECKPOINT_DRAIN && !l.chain.Over() {
		d.Drain()
		l.drain = element.CheckpointID(t.Checkpoint)
		return nil
	}
	return l.head.Trigger(element.CheckpointID(t.Checkpoint))
}

// drainer is a head that can end its input by itself.
type drainer interface{ Drain() }

// noticed takes what became of a checkpoint. One that was acknowledged and is said to be given up stays undecided: an agent that
// has lost its leader says so of a checkpoint that may be completed all the same. The next trigger, or completion, decides it.
func (l *loop) noticed(n *taskpb.CheckpointNotice) {
	id := element.CheckpointID(n.Checkpoint)
	if !n.Aborted {
		l.completed(id)
		return
	}
	l.head.Abort(id)
	if l.capture != nil && l.capture.id == id {
		l.drop()
	}
}

// completed: a checkpoint is what a restart goes back to. It concerns those in which this attempt took part.
func (l *loop) completed(id element.CheckpointID) {
	n, mine := 0, false
	for _, x := range l.cut {
		if x.id > id {
			break
		}
		n++
		if x.id == id && x.sealed {
			mine, l.contained = true, l.contained || x.finished
		}
	}
	if !mine {
		return
	}
	l.cut = append(l.cut[:0], l.cut[n:]...)
	l.base = id
	l.chain.Completed(id)
	l.head.Completed(id)
}

// finish waits, behind the end of the input, until a completed checkpoint has it.
func (l *loop) finish() error {
	l.attempt.hasEnded()
	if l.drain != 0 {
		if err := l.protected(func() error { return l.head.Trigger(l.drain) }); err != nil {
			return err
		}
	}
	for !l.contained {
		if err := l.ctx.Err(); err != nil {
			return err
		}
		if l.mail.Pending() {
			if err := l.protected(l.letters); err != nil {
				return err
			}
			continue
		}
		if l.capture != nil {
			if err := l.protected(func() error { return l.write(unitsIdle) }); err != nil {
				return err
			}
		}
		if l.more {
			continue
		}
		if err := l.sleep(); err != nil {
			return err
		}
	}
	return nil
}

// restore gives the operators what the checkpoint has of them, before the first record.
func (l *loop) restore() error {
	a := l.attempt
	id := element.CheckpointID(a.sub.Restore)
	l.base = id
	err := l.chain.Restore(func(rt *Runtime, reloads bool) error {
		tables := rt.Tables()
		if reloads && a.reload {
			rt.Replace()
		} else if len(tables) > 0 {
			if err := a.restoring.Tables(l.ctx, rt.Task.Operator, rt.KeyGroups.First, rt.KeyGroups.End, tables); err != nil {
				return err
			}
		}
		for _, t := range tables {
			t.Restored(id)
		}
		return rt.TableErr()
	})
	if err != nil {
		return err
	}
	return l.head.Restore()
}

// ack is an acknowledgement of this attempt.
func (a *attempt) ack(id element.CheckpointID) *snapshotpb.Ack {
	return &snapshotpb.Ack{
		Checkpoint: uint64(id), Chain: a.sub.Chain, Index: a.sub.Index, Attempt: a.sub.Attempt,
		Region: a.sub.Region, RegionEpoch: a.sub.RegionEpoch,
	}
}

func (a *attempt) member() segment.Member {
	return segment.Member{Chain: a.sub.Chain, Index: a.sub.Index, Attempt: a.sub.Attempt}
}

// checkpointed: the attempt takes part in checkpoints; nil, in tests of the loop alone, does not.
func (a *attempt) checkpointed() bool { return a != nil && a.sub.Checkpointed }
