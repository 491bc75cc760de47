package validate

// The facts of checkpoints come from the auditor of the suite and from the cluster's history. A run without checkpoints has
// none, and then nothing here is judged.
const (
	completed  = "completed"
	restored   = "restored"
	fresh      = "fresh"
	canRead    = "readable"
	cannotRead = "unreadable"
	committed  = "committed"
)

// readable is I5.
func readable(f *Facts, r *Result) {
	for _, c := range f.Checkpoints {
		switch c.Fact.What {
		case canRead:
			r.ok()
		case cannotRead:
			r.fail(c.Line, "job %s: checkpoint %d cannot be read: %s", c.Fact.Job, c.Fact.ID, c.Fact.Text)
		}
	}
}

// newest is I6.
func newest(f *Facts, r *Result) {
	last := map[string]uint64{}
	for _, c := range f.Checkpoints {
		was := last[c.Fact.Job]
		switch c.Fact.What {
		case completed:
			r.that(c.Fact.ID > was, c.Line, "job %s: checkpoint %d was completed after checkpoint %d", c.Fact.Job, c.Fact.ID, was)
			last[c.Fact.Job] = max(was, c.Fact.ID)
		case restored:
			r.that(c.Fact.ID == was, c.Line, "job %s: restored from checkpoint %d, the newest completed one is %d", c.Fact.Job, c.Fact.ID, was)
		case fresh:
			r.that(was == 0, c.Line, "job %s: started from nothing although checkpoint %d is completed", c.Fact.Job, was)
		}
	}
}

// onceOnly is I7.
func onceOnly(f *Facts, r *Result) {
	type commit struct {
		job, subtask string
		id           uint64
	}
	by := map[commit]uint32{}
	for _, c := range f.Checkpoints {
		if c.Fact.What != committed {
			continue
		}
		k := commit{c.Fact.Job, c.Fact.Subtask, c.Fact.ID}
		was, ok := by[k]
		r.that(!ok || was == c.Fact.Attempt, c.Line, "job %s: %s: checkpoint %d was committed by attempts %d and %d", c.Fact.Job, c.Fact.Subtask, c.Fact.ID, was, c.Fact.Attempt)
		by[k] = c.Fact.Attempt
	}
}

// reread is I10.
func reread(f *Facts, r *Result) {
	for _, c := range f.Checkpoints {
		if c.Fact.What == restored {
			r.that(c.Fact.Again <= c.Fact.Read, c.Line, "job %s: %d records were read again after a restore from checkpoint %d, %d had been read since", c.Fact.Job, c.Fact.Again, c.Fact.ID, c.Fact.Read)
		}
	}
}
