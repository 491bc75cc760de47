package schedule

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/coordinator/schedule/glance"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/coordinator/tally"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// report is what an attempt says of itself, waiting to be folded into the facts.
type report struct {
	update   *taskpb.SubtaskUpdate
	receipts []*receipt
}

// Bounds of one UpdateSubtasks.
const (
	maxBatch      = 1000
	maxBatchBytes = 1 << 20
)

// reported takes one report of a worker. It is acknowledged when what it says is in the facts, or void for ever.
func (l *Leader) reported(w *worker, r *controlpb.Report) {
	rc, fresh := l.receive(w, r.Sequence)
	if !fresh {
		return
	}
	j, facts := l.jobs[r.Job], l.v.Job(r.Job)
	if j == nil || facts == nil || state.Terminal(facts.Status()) {
		l.void(w, r, rc)
		return
	}
	switch f := r.Fact.(type) {
	case *controlpb.Report_Subtask:
		if facts.Plan() != nil {
			l.lose(j, facts, f.Subtask.GetFailure())
		}
		l.addReport(j, facts, f.Subtask, rc)
	case *controlpb.Report_Exit:
		l.exited(w, j, facts, r, f.Exit, rc)
	case *controlpb.Report_Commit:
		l.committed(w, j, facts, f.Commit, rc)
	case *controlpb.Report_Ack:
		l.acked(j, facts, f.Ack, rc)
	case *controlpb.Report_Splits:
		l.discovered(j, facts, f.Splits, rc)
	case *controlpb.Report_SplitRequest:
		l.resolve(rc)
		l.splitRequest(w, j, facts, r.Process, f.SplitRequest)
	default:
		l.resolve(rc)
	}
	l.mark(j)
}

// receive checks the number of a report. Numbers of one session have no gaps: one means that something between here and
// the worker is broken, and a fresh session sorts it out.
func (l *Leader) receive(w *worker, sequence uint64) (rc *receipt, fresh bool) {
	s := w.session
	switch {
	case sequence == 0: // never kept by the worker, never acknowledged
		return nil, true
	case s.last != 0 && sequence <= s.last:
		l.unacked[w.id] = w // repeated: say again what may be forgotten
		return nil, false
	case s.last != 0 && sequence != s.last+1:
		l.drop(w, fmt.Sprintf("report %d follows report %d", sequence, s.last))
		return nil, false
	}
	if s.last == 0 {
		s.acked = sequence - 1
	}
	s.last = sequence
	rc = &receipt{w: w, s: s, sequence: sequence, open: 1}
	s.receipts = append(s.receipts, rc)
	return rc, true
}

// void answers a report about a job that has ended or was never known.
func (l *Leader) void(w *worker, r *controlpb.Report, rc *receipt) {
	l.resolve(rc)
	k := processKey{r.Job, r.Process}
	if _, exit := r.Fact.(*controlpb.Report_Exit); exit {
		delete(w.session.processes, k)
		return
	}
	if w.session.processes[k] == nil {
		w.session.processes[k] = &process{}
	}
	if w.session.welcomed {
		l.release(w, k, "the job is not known or has ended")
	}
}

// addReport queues a report for the next UpdateSubtasks, unless it cannot change anything any more.
func (l *Leader) addReport(j *job, facts *state.Job, u *taskpb.SubtaskUpdate, rc *receipt) {
	if glance.Void(facts, u) {
		l.resolve(rc)
		return
	}
	var rcs []*receipt
	if rc != nil {
		rcs = []*receipt{rc}
	}
	j.reports = append(j.reports, report{update: glance.WellFormed(u), receipts: rcs})
}

// reportGone queues the end of attempts that nobody else will report. They are found again as long as they matter, so a
// busy queue is left alone.
func (l *Leader) reportGone(j *job, gone []*taskpb.SubtaskUpdate) {
	if len(gone) == 0 {
		return
	}
	if l.busy(reportLane+j.id) || len(j.reports) > 0 {
		j.scan = true // the lane's end marks the job
		return
	}
	for _, u := range gone {
		j.reports = append(j.reports, report{update: u})
	}
	l.mark(j)
}

// flushReports proposes what waits, in order, in one command.
func (l *Leader) flushReports(j *job, facts *state.Job) {
	key := reportLane + j.id
	if len(j.reports) == 0 || l.busy(key) {
		return
	}
	c := &commandpb.UpdateSubtasks{Job: j.id, JobEpoch: facts.Epoch()}
	var batch []report
	n, bytes := 0, 0
	for _, r := range j.reports {
		if glance.Void(facts, r.update) {
			l.resolveAll(r)
			n++
			continue
		}
		size := proto.Size(r.update)
		if len(batch) > 0 && (len(batch) >= maxBatch || bytes+size > maxBatchBytes || j.single) {
			break
		}
		c.Updates = append(c.Updates, r.update)
		batch = append(batch, r)
		bytes += size
		n++
	}
	if j.reports = j.reports[n:]; len(j.reports) == 0 {
		j.reports, j.single = nil, false
	}
	if len(batch) == 0 {
		return
	}
	l.propose(key, &commandpb.Command{Command: &commandpb.Command_UpdateSubtasks{UpdateSubtasks: c}}, &flight{
		Job: j.id,
		Done: func(r state.Result) {
			if r.Status == state.Refused && len(batch) > 1 {
				// One of them cannot be taken; it must not take the others down with it.
				j.single = true
				l.requeue(j, batch)
				return
			}
			l.resolveAll(batch...)
		},
		Failed: func() { l.requeue(j, batch) },
	})
}

// requeue puts reports back in front of the others, unless the job has ended meanwhile: nobody would take them again.
func (l *Leader) requeue(j *job, batch []report) {
	if l.jobs[j.id] == j {
		j.reports = append(batch, j.reports...)
		return
	}
	l.resolveAll(batch...)
}

func (l *Leader) resolveAll(rs ...report) {
	for _, r := range rs {
		for _, rc := range r.receipts {
			l.resolve(rc)
		}
	}
}

// exited takes the end of a task process: every attempt in it that may act has ended with it.
func (l *Leader) exited(w *worker, j *job, facts *state.Job, r *controlpb.Report, x *controlpb.ProcessExit, rc *receipt) {
	delete(w.session.processes, processKey{j.id, r.Process})
	j.scan = true
	if c := facts.Head().Committer; c != nil && c.Process == r.Process {
		j.committer = r.Process
	}
	if j.commit.process == r.Process {
		j.commit.lost()
	}
	first := true
	for t := range facts.Subtasks() {
		if t.Process != r.Process || t.Worker != w.id || !tally.Acts(t.State) {
			continue
		}
		u := glance.UpdateOf(t, facts.Region(t.Region), jobpb.SubtaskState_SUBTASK_FAILED, nil)
		switch {
		case x.GetKind() == jobpb.FailureKind_FAILURE_UNSPECIFIED:
			u.State = jobpb.SubtaskState_SUBTASK_CANCELLED // it was asked to end
		case first:
			u.Failure = glance.ExitFailure(x)
		default:
			// The story is told once; thousands of copies of a stack would not fit the log.
			u.Failure = &jobpb.Failure{Kind: jobpb.FailureKind_FAILURE_LOSS, Code: glance.ExitFailure(x).Code, Message: "its task process ended"}
		}
		first = false
		if rc != nil {
			rc.open++
		}
		l.addReport(j, facts, u, rc)
	}
	l.resolve(rc)
}
