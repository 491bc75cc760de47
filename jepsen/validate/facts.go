package validate

import (
	"time"

	"github.com/sluiceio/sluice/jepsen/history"
)

// seen is a fact with the place in the history where it was noted.
type seen[T any] struct {
	Fact T
	Line int
	Time time.Duration
}

// Facts are a history, sorted.
type Facts struct {
	Ops         []history.Op
	Run         history.Run
	Workloads   []history.Workload
	Faults      []history.Hurts
	Quiet       time.Duration // when the last fault was healed; 0: the history does not say
	End         time.Duration
	rows        []seen[history.Rows]
	vanished    []seen[history.Vanished]
	Progress    []seen[history.Progress]
	Events      []seen[history.Event]
	chains      []seen[history.Chain]
	clocks      []seen[history.Clock]
	census      []seen[history.Census]
	Checkpoints []seen[history.Checkpoint]
	answers     []seen[history.Answer]
	refusals    []seen[history.Refusal]
}

// Sort the facts of a history by what they are.
func Sort(ops []history.Op) (*Facts, error) {
	f := &Facts{Ops: ops, Faults: history.Faults(ops)}
	for _, op := range ops {
		f.End = max(f.End, op.Time)
		if op.Kind != history.Note {
			continue
		}
		if err := f.note(op); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (f *Facts) note(op history.Op) error {
	switch op.What {
	case history.NoteRun:
		_, err := op.Is(history.NoteRun, &f.Run)
		return err
	case history.NoteWorkload:
		var w history.Workload
		_, err := op.Is(history.NoteWorkload, &w)
		f.Workloads = append(f.Workloads, w)
		return err
	case history.NoteQuiet:
		f.Quiet = op.Time
		return nil
	case history.NoteRows:
		return add(&f.rows, op)
	case history.NoteVanished:
		return add(&f.vanished, op)
	case history.NoteProgress:
		return add(&f.Progress, op)
	case history.NoteEvent:
		return add(&f.Events, op)
	case history.NoteChain:
		return add(&f.chains, op)
	case history.NoteClock:
		return add(&f.clocks, op)
	case history.NoteCensus:
		return add(&f.census, op)
	case history.NoteCheckpoint:
		return add(&f.Checkpoints, op)
	case history.NoteAnswer:
		return add(&f.answers, op)
	case history.NoteRefusal:
		return add(&f.refusals, op)
	}
	return nil
}

func add[T any](to *[]seen[T], op history.Op) error {
	s := seen[T]{Line: op.Index, Time: op.Time}
	if _, err := op.Is(op.What, &s.Fact); err != nil {
		return err
	}
	*to = append(*to, s)
	return nil
}

// status that a job had when it was seen last; "": never.
func (f *Facts) status(job string) (status string) {
	for _, p := range f.Progress {
		if p.Fact.Job == job {
			status = p.Fact.Status
		}
	}
	return status
}
