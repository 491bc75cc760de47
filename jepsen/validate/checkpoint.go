package validate

import (
	"cmp"
	"slices"

	"github.com/sluiceio/sluice/jepsen/history"
)

// The facts of checkpoints come from the auditor of the suite, from the reader of the output and from the cluster's own history. A run
// without checkpoints has none, and then nothing here is judged.

// readable is I5.
func readable(f *Facts, r *Result) {
	for _, c := range f.Checkpoints {
		switch c.Fact.What {
		case history.Readable:
			r.ok()
		case history.Unreadable:
			r.fail(c.Line, "job %s: checkpoint %d cannot be read: %s", c.Fact.Job, c.Fact.ID, c.Fact.Text)
		}
	}
}

// newest is I6. What was decided is looked at in the order in which the cluster decided it, which is not that in which it was seen.
func newest(f *Facts, r *Result) {
	decided := slices.Clone(f.Checkpoints)
	slices.SortStableFunc(decided, func(a, b seen[history.Checkpoint]) int { return cmp.Compare(a.Fact.Micros, b.Fact.Micros) })
	last := map[string]uint64{}
	for _, c := range decided {
		was := last[c.Fact.Job]
		switch c.Fact.What {
		case history.Completed:
			r.that(c.Fact.ID > was, c.Line, "job %s: checkpoint %d was completed after checkpoint %d", c.Fact.Job, c.Fact.ID, was)
			last[c.Fact.Job] = max(was, c.Fact.ID)
		case history.Restored:
			r.that(c.Fact.ID == was, c.Line, "job %s: restored from checkpoint %d, the newest completed one is %d", c.Fact.Job, c.Fact.ID, was)
		case history.Fresh:
			r.that(was == 0, c.Line, "job %s: started from nothing although checkpoint %d is completed", c.Fact.Job, was)
		}
	}
}

// onceOnly is I7: what a subtask has written for a checkpoint becomes visible by one attempt, and not before the checkpoint is complete.
// Both wall clocks are of one machine: that of the reader, and that of a coordinator, which tells the time before it decides.
func onceOnly(f *Facts, r *Result) {
	type commit struct {
		job, subtask string
		id           uint64
	}
	type checkpoint struct {
		job string
		id  uint64
	}
	at := map[checkpoint]int64{}
	for _, c := range f.Checkpoints {
		if c.Fact.What == history.Completed {
			at[checkpoint{c.Fact.Job, c.Fact.ID}] = c.Fact.Micros
		}
	}
	by := map[commit]uint64{}
	for _, c := range f.Checkpoints {
		if c.Fact.What != history.Committed {
			continue
		}
		k := commit{c.Fact.Job, c.Fact.Subtask, c.Fact.ID}
		was, ok := by[k]
		r.that(!ok || was == c.Fact.Epoch, c.Line, "job %s: %s: checkpoint %d was committed in epochs %d and %d", c.Fact.Job, c.Fact.Subtask, c.Fact.ID, was, c.Fact.Epoch)
		by[k] = c.Fact.Epoch
		done, ok := at[checkpoint{c.Fact.Job, c.Fact.ID}]
		r.that(ok, c.Line, "job %s: %s: output of checkpoint %d is visible, which was never completed", c.Fact.Job, c.Fact.Subtask, c.Fact.ID)
		r.that(!ok || c.Fact.Micros >= done, c.Line, "job %s: %s: output of checkpoint %d was visible %d µs before the checkpoint was complete", c.Fact.Job, c.Fact.Subtask, c.Fact.ID, done-c.Fact.Micros)
	}
}

// reread is I10: the attempts that brought a job to its end have read no record that the checkpoint contains from which they went on. What
// it contains is what has become visible with it and with those before.
func reread(f *Facts, r *Result) {
	for _, w := range f.Workloads {
		if !w.Checkpointed || !f.finished(w) {
			continue
		}
		from := seen[history.Checkpoint]{}
		for _, c := range f.Checkpoints {
			if c.Fact.Job == w.Job && (c.Fact.What == history.Restored || c.Fact.What == history.Fresh) {
				from = c
			}
		}
		left := w.Records - f.rowsUpTo(w.Job, from.Fact.ID)
		var last history.Progress
		for _, p := range f.Progress {
			if p.Fact.Job == w.Job {
				last = p.Fact
			}
		}
		r.that(last.Read <= left, from.Line, "job %s: %d records were read after checkpoint %d, which leaves %d", w.Job, last.Read, from.Fact.ID, left)
	}
}
