package schedule

import (
	"fmt"
	"maps"
	"slices"

	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// source is what this leader knows of a source: what its enumerator found and is not in the facts yet, and who asked for
// splits and has no answer.
type source struct {
	found    []found
	requests map[int32]request // by subtask
}

type found struct {
	d       *taskpb.SplitsDiscovered
	receipt *receipt
}

type request struct {
	worker  string
	process uint64
	attempt uint32
	epoch   uint64 // of the region
	have    int
}

func (j *job) source(operator int32) *source {
	s := j.sources[operator]
	if s == nil {
		s = &source{requests: map[int32]request{}}
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

// splitRequest takes a question of a reader. The newest one counts: it knows best what it has.
func (l *Leader) splitRequest(w *worker, j *job, facts *state.Job, process uint64, q *taskpb.SplitRequest) {
	if src := facts.Source(q.GetOperator()); src == nil || q.Index < 0 || int(q.Index) >= src.Readers() {
		return
	}
	j.source(q.Operator).requests[q.Index] = request{worker: w.id, process: process, attempt: q.Attempt, epoch: q.RegionEpoch, have: int(q.Have)}
}

// splits brings discoveries into the facts and answers requests from them: an assignment is committed before the reader
// hears of it.
func (l *Leader) splits(j *job, facts *state.Job, src *state.Source) {
	s := j.sources[src.Operator()]
	if s == nil {
		return
	}
	l.addSplits(j, facts, src, s)
	if len(s.requests) == 0 {
		return
	}
	var assign []*jobpb.SplitAssignment
	next := src.Assigned()
	for _, index := range slices.Sorted(maps.Keys(s.requests)) {
		q := s.requests[index]
		t := facts.Subtask(src.Chain(), index)
		if t.Attempt != q.attempt || src.RegionEpoch() != q.epoch || !acts(t.State) {
			delete(s.requests, index)
			continue
		}
		if l.answer(j, src, index, q) {
			delete(s.requests, index)
			continue
		}
		for range share(facts, src, index, src.Len()-next) {
			assign = append(assign, &jobpb.SplitAssignment{Subtask: index, Attempt: t.Attempt, Split: int32(next)})
			next++
		}
	}
	key := splitKey(j, src.Operator())
	if len(assign) == 0 || l.busy(key) {
		return
	}
	l.propose(key, &commandpb.Command{Command: &commandpb.Command_AssignSplits{AssignSplits: &commandpb.AssignSplits{
		Job: j.id, JobEpoch: facts.Epoch(), Operator: src.Operator(), RegionEpoch: src.RegionEpoch(), Assignments: assign,
	}}}, &flight{job: j.id})
}

func splitKey(j *job, operator int32) string {
	return fmt.Sprintf("%s%s/%d", splitLane, j.id, operator)
}

// answer sends a reader what it does not have yet, or the end. It reports false if there is nothing to say.
func (l *Leader) answer(j *job, src *state.Source, index int32, q request) bool {
	mine := src.Of(index)
	end := src.Complete() && src.Assigned() == src.Len()
	if q.have > len(mine) {
		return true // it claims more than it was given; whatever it is, it is not for this leader to answer
	}
	if q.have == len(mine) && !end {
		return false
	}
	m := &taskpb.AssignSplits{
		Job: j.id, Process: q.process, Operator: src.Operator(), Chain: src.Chain(), Index: index, Attempt: q.attempt,
		RegionEpoch: src.RegionEpoch(), Offset: int32(q.have), End: end,
	}
	for _, i := range mine[q.have:] {
		m.Splits = append(m.Splits, src.Split(int(i)))
	}
	if w := l.usable(q.worker); w != nil {
		l.send(w, &controlpb.CoordinatorMessage{Message: &controlpb.CoordinatorMessage_AssignSplits{AssignSplits: m}})
	}
	return true
}

// share is how many of the free splits a reader gets at once. Of a bounded input a few, so that whoever is fast gets
// more; fewer round trips while there are many. Of an endless one its fair part for good.
func share(facts *state.Job, src *state.Source, index int32, free int) int {
	readers := src.Readers()
	if facts.Plan().Graph.Operators[src.Operator()].Bounded {
		const most = 64
		return min(free, max(1, min(most, free/(4*readers))))
	}
	fair := (src.Len() + readers - 1) / readers
	return max(0, min(free, fair-len(src.Of(index))))
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
			Job: j.id, JobEpoch: facts.Epoch(), Operator: src.Operator(), RegionEpoch: f.d.RegionEpoch, Offset: f.d.Offset, Splits: f.d.Splits, End: f.d.End,
		}}}, &flight{job: j.id})
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
