package schedule

import (
	"fmt"

	"github.com/sluiceio/sluice/coordinator/split"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// source is what this leader knows of a source: what its enumerator found and is not in the facts yet, and the readers'
// questions.
type source struct {
	found []found
	desk  *split.Desk
}

type found struct {
	d       *taskpb.SplitsDiscovered
	receipt *receipt
}

func (j *job) source(operator int32) *source {
	s := j.sources[operator]
	if s == nil {
		s = &source{desk: split.NewDesk()}
		j.sources[operator] = s
	}
	return s
}

// discovered takes what an enumerator found.
func (l *Leader) discovered(j *job, facts *state.Job, d *taskpb.SplitsDiscovered, rc *receipt) {
	if facts.Source(d.GetOperator()) == nil {
		l.resolve(rc)
		return
	}
	s := j.source(d.Operator)
	s.found = append(s.found, found{d: d, receipt: rc})
}

// splitRequest takes a question of a reader.
func (l *Leader) splitRequest(w *worker, j *job, facts *state.Job, process uint64, q *taskpb.SplitRequest) {
	if src := facts.Source(q.GetOperator()); src == nil || q.Index < 0 || int(q.Index) >= src.Readers() {
		return
	}
	j.source(q.Operator).desk.Ask(split.Request{
		Worker: w.id, Process: process, Index: q.Index, Attempt: q.Attempt, Epoch: q.RegionEpoch, Have: int(q.Have), Read: int(q.Read),
	})
}

// splits brings discoveries into the facts and answers requests from them: an assignment is committed before the reader
// hears of it.
func (l *Leader) splits(j *job, facts *state.Job, src *state.Source) {
	s := j.sources[src.Operator()]
	if s == nil {
		return
	}
	l.addSplits(j, facts, src, s)
	if !s.desk.Asked() {
		return
	}
	key := splitKey(j, src.Operator())
	answers, assign := s.desk.Serve(facts, src, split.Settling(l.busy(key)))
	for _, a := range answers {
		l.sendSplits(j, src, a)
	}
	if len(assign) == 0 {
		return
	}
	l.propose(key, &commandpb.Command{Command: &commandpb.Command_AssignSplits{AssignSplits: &commandpb.AssignSplits{
		Job: j.id, JobEpoch: facts.Epoch(), Operator: src.Operator(), RegionEpoch: src.RegionEpoch(), Assignments: assign,
	}}}, &flight{Job: j.id})
}

func (l *Leader) sendSplits(j *job, src *state.Source, a split.Answer) {
	q := a.Request
	m := &taskpb.AssignSplits{
		Job: j.id, Process: q.Process, Operator: src.Operator(), Chain: src.Chain(), Index: q.Index, Attempt: q.Attempt, RegionEpoch: q.Epoch,
		Offset: int32(q.Have), End: a.End,
	}
	for _, i := range a.Splits {
		m.Splits = append(m.Splits, src.Split(int(i)))
	}
	if w := l.usable(q.Worker); w != nil {
		l.send(w, &controlpb.CoordinatorMessage{Message: &controlpb.CoordinatorMessage_AssignSplits{AssignSplits: m}})
	}
}

func splitKey(j *job, operator int32) string {
	return fmt.Sprintf("%s%s/%d", splitLane, j.id, operator)
}

// addSplits brings the oldest discovery into the facts.
func (l *Leader) addSplits(j *job, facts *state.Job, src *state.Source, s *source) {
	for len(s.found) > 0 && !l.busy(splitKey(j, src.Operator())) {
		f := s.found[0]
		f.d = beyond(f.d, int32(src.Len()))
		if f.d.RegionEpoch != src.RegionEpoch() || src.Complete() || len(f.d.Splits) == 0 && !f.d.End {
			l.resolve(f.receipt) // of an earlier attempt, or in the facts
			s.found = s.found[1:]
			continue
		}
		if code, err := l.checkSplits(f.d, src); err != nil {
			l.proposeJob(j, &commandpb.Command{Command: &commandpb.Command_FailJob{FailJob: &commandpb.FailJob{Job: j.id, JobEpoch: facts.Epoch(),
				Cause: (&jobpb.Failure{Code: code, Kind: jobpb.FailureKind_FAILURE_FATAL, TimeUs: l.now.UnixMicro(), Message: err.Error(),
					Operator: facts.Plan().Graph.Operators[src.Operator()].Id}).Bounded()}}}, &flight{})
			return
		}
		l.propose(splitKey(j, src.Operator()), &commandpb.Command{Command: &commandpb.Command_AddSplits{AddSplits: &commandpb.AddSplits{
			Job: j.id, JobEpoch: facts.Epoch(), Operator: src.Operator(), RegionEpoch: f.d.RegionEpoch, Offset: f.d.Offset, Splits: f.d.Splits, End: f.d.End, Enumerator: f.d.Enumerator,
		}}}, &flight{Job: j.id})
	}
}

// beyond is a discovery without the splits that are in the facts already.
func beyond(d *taskpb.SplitsDiscovered, known int32) *taskpb.SplitsDiscovered {
	if d.Offset >= known {
		return d
	}
	skip := min(int(known-d.Offset), len(d.Splits))
	return &taskpb.SplitsDiscovered{
		Operator: d.Operator, Region: d.Region, RegionEpoch: d.RegionEpoch, Offset: d.Offset + int32(skip), Splits: d.Splits[skip:], End: d.End,
	}
}

// checkSplits finds what the facts would refuse. Splits that cannot be kept must end the job: reading only some of them
// would look like success.
func (l *Leader) checkSplits(d *taskpb.SplitsDiscovered, src *state.Source) (code string, err error) {
	if int(d.Offset) > src.Len() {
		return CodeBadSplits, fmt.Errorf("the enumerator reported splits from %d on, but only %d are known", d.Offset, src.Len())
	}
	bytes := src.Bytes()
	for _, x := range d.Splits {
		if err := x.Validate(); err != nil {
			return CodeBadSplits, err
		}
		bytes += len(x.Data) + len(x.Id)
	}
	if n := src.Len() + len(d.Splits); n > state.MaxSplits || bytes > state.MaxSourceBytes || len(d.Splits) > commandpb.MaxList {
		return CodeTooMany, fmt.Errorf("the source has %d splits with %d bytes; at most %d with %d bytes can be kept: use fewer, larger splits", n, bytes, state.MaxSplits, state.MaxSourceBytes)
	}
	return "", nil
}
