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

// onceOnly is I7: what a subtask has written in an epoch of its region becomes visible by a checkpoint that was completed in that epoch, at
// the number of the file or above it, and not before. Of what was written behind the last one of an epoch the next epoch has its own copy, so that
// no other commit may have effect. Both wall clocks are of one machine: that of the reader, and that of a coordinator, which tells the time
// before it decides.
func onceOnly(f *Facts, r *Result) {
	by := map[string]*epochs{}
	for _, c := range f.Checkpoints {
		if by[c.Fact.Job] == nil {
			by[c.Fact.Job] = f.epochs(c.Fact.Job)
		}
		if c.Fact.What != history.Committed {
			continue
		}
		done, ok := by[c.Fact.Job].first(c.Fact.Epoch, c.Fact.ID)
		if !ok && !history.Terminal(f.status(c.Fact.Job)) {
			continue // nobody has looked since
		}
		r.that(ok, c.Line, "job %s: %s: output number %d of epoch %d is visible, and no checkpoint of that epoch has completed since it was written", c.Fact.Job, c.Fact.Subtask, c.Fact.ID, c.Fact.Epoch)
		r.that(!ok || c.Fact.Micros >= done, c.Line, "job %s: %s: output number %d was visible %d µs before a checkpoint was complete", c.Fact.Job, c.Fact.Subtask, c.Fact.ID, done-c.Fact.Micros)
	}
}

// epochs of the one region of a job: each restart begins another one.
type epochs struct {
	begun     []int64 // from the second one on, in order
	completed []seen[history.Checkpoint]
}

func (f *Facts) epochs(job string) *epochs {
	e := &epochs{}
	for _, c := range f.Checkpoints {
		switch {
		case c.Fact.Job != job:
		case c.Fact.What == history.Completed:
			e.completed = append(e.completed, c)
		case c.Fact.What == history.Restored || c.Fact.What == history.Fresh:
			e.begun = append(e.begun, c.Fact.Micros)
		}
	}
	slices.Sort(e.begun)
	slices.SortFunc(e.completed, func(a, b seen[history.Checkpoint]) int { return cmp.Compare(a.Fact.ID, b.Fact.ID) })
	return e
}

// first is when the first checkpoint of an epoch was completed that has an id or a higher one.
func (e *epochs) first(epoch, id uint64) (micros int64, ok bool) {
	for _, c := range e.completed {
		// What is decided at the moment of a restart was decided before it: a checkpoint of interrupted attempts cannot complete.
		before, _ := slices.BinarySearch(e.begun, c.Fact.Micros)
		if 1+uint64(before) == epoch && c.Fact.ID >= id {
			return c.Fact.Micros, true
		}
	}
	return 0, false
}

// reread is I10: the attempts that brought a job to its end have read no record that the checkpoint contains from which they went on. What
// it contains is what has become visible of the epochs before theirs.
func reread(f *Facts, r *Result) {
	for _, w := range f.Workloads {
		if !w.Checkpointed || !f.finished(w) {
			continue
		}
		epoch := 1 + uint64(len(f.epochs(w.Job).begun))
		left := w.Records - f.rowsBefore(w.Job, epoch)
		var last seen[history.Progress]
		for _, p := range f.Progress {
			if p.Fact.Job == w.Job {
				last = p
			}
		}
		r.that(last.Fact.Read <= left, last.Line, "job %s: %d records were read in epoch %d, to which those before have left %d", w.Job, last.Fact.Read, epoch, left)
	}
}
