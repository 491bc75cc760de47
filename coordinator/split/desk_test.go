package split

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/coordinator/plan"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

const digest = "00000000000000000000000000000000000000000000000000000000000000aa"

type failer interface {
	Helper()
	Fatalf(string, ...any)
}

// source is the facts of a job that consists of one source, whose readers run.
type source struct {
	t     failer
	s     *state.State
	index uint64
	job   string
	desk  *Desk
}

func (s *source) apply(c *commandpb.Command) state.Result {
	s.index++
	c.Version, c.TimeUs = state.Version, int64(s.index)
	return s.s.Apply(s.index, 1, c)
}

func (s *source) must(c *commandpb.Command) state.Result {
	s.t.Helper()
	r := s.apply(c)
	if r.Status != state.Applied {
		s.t.Fatalf("%T: %s", c.Command, r)
	}
	return r
}

type extent int

const (
	bounded extent = iota
	endless
)

func newSource(t failer, x extent, readers int32) *source {
	s := &source{t: t, s: state.New(), desk: NewDesk()}
	s.must(&commandpb.Command{Command: &commandpb.Command_PutArtifact{PutArtifact: &commandpb.PutArtifact{Digest: digest, Size: 1}}})
	s.must(&commandpb.Command{Command: &commandpb.Command_RegisterWorker{RegisterWorker: &commandpb.RegisterWorker{Worker: &commandpb.Worker{
		Id: "w", Incarnation: 1, Address: "a:1", DataAddress: "a:2", Slots: 9, ProtocolMin: 1, ProtocolMax: 1, Os: "linux", Arch: "amd64",
		Health: commandpb.WorkerHealth_WORKER_ALIVE,
	}}}})
	s.job = s.must(&commandpb.Command{RequestId: "r", Command: &commandpb.Command_SubmitJob{SubmitJob: &commandpb.SubmitJob{Spec: &jobpb.JobSpec{Name: "j", Artifact: digest}}}}).Job
	s.must(&commandpb.Command{Command: &commandpb.Command_StartPlanning{StartPlanning: &commandpb.StartPlanning{Job: s.job, Attempt: 1, Worker: "w"}}})
	p, ds := plan.Make(&jobpb.Graph{Name: "g", Operators: []*jobpb.Operator{{Id: "in", Kind: "source", Bounded: x == bounded, Parallelism: readers}}}, plan.Options{})
	if p == nil {
		t.Fatalf("plan: %v", ds)
	}
	s.must(&commandpb.Command{Command: &commandpb.Command_PlanJob{PlanJob: &commandpb.PlanJob{Job: s.job, Attempt: 1, Plan: p}}})
	for r := range s.facts().Regions() {
		s.schedule(r.Index)
	}
	return s
}

func (s *source) facts() *state.Job     { return s.s.View().Job(s.job) }
func (s *source) source() *state.Source { return s.facts().Source(0) }

func (s *source) schedule(region int32) {
	j := s.facts()
	c := &commandpb.ScheduleRegions{Job: s.job, JobEpoch: 1, Regions: []*taskpb.RegionEpoch{{Region: region, Epoch: j.Region(region).Epoch}}}
	for t := range j.Subtasks() {
		if t.Region == region {
			c.Assignments = append(c.Assignments, &commandpb.Assignment{Chain: t.Chain, Index: t.Index, Worker: "w", Incarnation: 1})
		}
	}
	s.must(&commandpb.Command{Command: &commandpb.Command_ScheduleRegions{ScheduleRegions: c}})
}

// find adds splits of the given phases, and perhaps the end.
func (s *source) find(end bool, phases ...int32) {
	src := s.source()
	c := &commandpb.AddSplits{Job: s.job, JobEpoch: 1, RegionEpoch: src.RegionEpoch(), Offset: int32(src.Len()), End: end}
	for i, p := range phases {
		c.Splits = append(c.Splits, &jobpb.Split{Id: fmt.Sprint("s", src.Len()+i), Phase: p})
	}
	s.must(&commandpb.Command{Command: &commandpb.Command_AddSplits{AddSplits: c}})
}

func (s *source) ask(index int32, have, read int) {
	j := s.facts()
	t := j.Subtask(0, index)
	s.desk.Ask(Request{Worker: "w", Index: index, Attempt: t.Attempt, Epoch: j.Region(t.Region).Epoch, Have: have, Read: read})
}

// serve has the desk look once, and brings what it assigns into the facts.
func (s *source) serve() (answers []Answer, assigned []int32) {
	answers, assign := s.desk.Serve(s.facts(), s.source(), false)
	if len(assign) > 0 {
		s.must(&commandpb.Command{Command: &commandpb.Command_AssignSplits{AssignSplits: &commandpb.AssignSplits{
			Job: s.job, JobEpoch: 1, RegionEpoch: s.source().RegionEpoch(), Assignments: assign}}})
	}
	for _, a := range assign {
		assigned = append(assigned, a.Split)
	}
	return answers, assigned
}

func TestBoundedSplitsAreGivenOutWhenAllAreKnown(t *testing.T) {
	s := newSource(t, bounded, 2)
	s.find(false, 0, 0)
	s.ask(0, 0, 0)
	s.ask(1, 0, 0)
	if answers, assigned := s.serve(); len(answers)+len(assigned) > 0 {
		t.Fatalf("answers %v, assigned %v while the list is incomplete", answers, assigned)
	}
	s.find(true, 0)
	if _, assigned := s.serve(); !slices.Equal(assigned, []int32{0, 1}) {
		t.Fatalf("assigned %v: one to each that asked", assigned)
	}
	answers, _ := s.serve()
	if len(answers) != 2 || !slices.Equal(answers[0].Splits, []int32{0}) || !slices.Equal(answers[1].Splits, []int32{1}) || answers[0].End || s.desk.Asked() {
		t.Fatalf("answers %v", answers)
	}
	s.ask(1, 1, 1)
	s.serve()
	if answers, _ := s.serve(); len(answers) != 1 || !slices.Equal(answers[0].Splits, []int32{2}) || !answers[0].End {
		t.Fatalf("answers %v: the last split, and the end", answers)
	}
	s.ask(0, 1, 1)
	if answers, _ := s.serve(); len(answers) != 1 || len(answers[0].Splits) > 0 || !answers[0].End {
		t.Fatalf("answers %v: the end", answers)
	}
}

func TestAnEndlessSourceIsDividedEvenlyAndTellsWhoGetsNothing(t *testing.T) {
	s := newSource(t, endless, 3)
	for i := range int32(3) {
		s.ask(i, 0, 0)
	}
	if answers, assigned := s.serve(); len(answers)+len(assigned) > 0 {
		t.Fatalf("answers %v, assigned %v before anything was found", answers, assigned)
	}
	s.find(false, 0, 0, 0, 0)
	s.serve()
	if n := []int{len(s.source().Of(0)), len(s.source().Of(1)), len(s.source().Of(2))}; !slices.Equal(n, []int{2, 2, 0}) {
		t.Fatalf("splits by reader: %v", n)
	}
	answers, _ := s.serve()
	if len(answers) != 2 {
		t.Fatalf("answers %v", answers)
	}
	s.ask(2, 0, 0)
	answers, _ = s.serve()
	if len(answers) != 1 || answers[0].Request.Index != 2 || len(answers[0].Splits) > 0 || answers[0].End {
		t.Fatalf("answers %v: nothing for reader 2", answers)
	}
	if answers, _ := s.serve(); len(answers) > 0 {
		t.Fatalf("it was told twice without having asked: %v", answers)
	}
	s.find(false, 0, 0)
	s.serve()
	if answers, _ = s.serve(); len(answers) != 1 || !slices.Equal(answers[0].Splits, []int32{4, 5}) {
		t.Fatalf("answers %v: what came since it asked", answers)
	}
}

func TestNothingIsSaidWhileAnAssignmentIsOnItsWay(t *testing.T) {
	s := newSource(t, endless, 2)
	s.find(false, 0)
	s.ask(0, 0, 0)
	s.ask(1, 0, 0)
	if answers, assign := s.desk.Serve(s.facts(), s.source(), true); len(answers)+len(assign) > 0 {
		t.Fatalf("answers %v, assigned %v", answers, assign)
	}
}

func TestRequestsOfAttemptsThatAreOverAreForgotten(t *testing.T) {
	s := newSource(t, bounded, 1)
	s.find(true, 0, 0)
	for name, change := range map[string]func(*Request){
		"another attempt": func(r *Request) { r.Attempt++ },
		"another epoch":   func(r *Request) { r.Epoch++ },
		"claims too much": func(r *Request) { r.Have = 7 },
	} {
		r := Request{Worker: "w", Attempt: 1, Epoch: 1}
		change(&r)
		s.desk.Ask(r)
		if answers, assigned := s.serve(); len(answers)+len(assigned) > 0 || s.desk.Asked() {
			t.Errorf("%s: answers %v, assigned %v", name, answers, assigned)
		}
	}
}

// reader is one of the model: it holds what it was given and reads it in order.
type reader struct{ have, read int }

// No split of a phase is given out before all those of lower phases were read to their end; every split has one owner;
// in the end a bounded source tells everybody so.
func TestPhasesFollowEachOther(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		x := rapid.SampledFrom([]extent{bounded, endless}).Draw(r, "extent")
		readers := make([]reader, rapid.IntRange(1, 4).Draw(r, "readers"))
		s := newSource(r, x, int32(len(readers)))
		var phases []int32
		for p := range rapid.Int32Range(1, 3).Draw(r, "phases") {
			for range rapid.IntRange(1, 8).Draw(r, "splits") {
				phases = append(phases, p)
			}
		}
		s.find(x == bounded, phases...)
		ended := map[int32]bool{}
		for step := 0; s.source().Assigned() < len(phases) || len(ended) < len(readers) && x == bounded; step++ {
			if step > 10_000 {
				r.Fatalf("%d of %d splits are assigned, %d readers have ended", s.source().Assigned(), len(phases), len(ended))
			}
			i := rapid.IntRange(0, len(readers)-1).Draw(r, "reader")
			if d := &readers[i]; d.read < d.have {
				d.read += rapid.IntRange(1, d.have-d.read).Draw(r, "read")
			}
			if rapid.IntRange(0, 9).Draw(r, "leader") == 0 {
				s.desk = NewDesk() // a new leader: readers ask again
			}
			s.ask(int32(i), readers[i].have, readers[i].read)
			answers, assigned := s.serve()
			for _, split := range assigned {
				for k := range readers {
					for n, mine := range s.source().Of(int32(k)) {
						if phases[mine] < phases[split] && n >= readers[k].read {
							r.Fatalf("split %d of phase %d was given out while reader %d has read %d splits", split, phases[split], k, readers[k].read)
						}
					}
				}
			}
			for _, a := range answers {
				readers[a.Request.Index].have += len(a.Splits)
				ended[a.Request.Index] = ended[a.Request.Index] || a.End
			}
		}
	})
}

func TestAReaderThatHasFinishedHasReadAll(t *testing.T) {
	s := newSource(t, bounded, 2)
	s.find(true, 0, 0, 1, 1)
	s.ask(0, 0, 0)
	s.ask(1, 0, 0)
	s.serve()
	s.serve()
	s.ask(0, 1, 1)
	if _, assigned := s.serve(); len(assigned) > 0 {
		t.Fatalf("assigned %v, reader 1 reads still", assigned)
	}
	j := s.facts()
	task := j.Subtask(0, 1)
	s.must(&commandpb.Command{Command: &commandpb.Command_UpdateSubtasks{UpdateSubtasks: &commandpb.UpdateSubtasks{Job: s.job, JobEpoch: 1, Updates: []*taskpb.SubtaskUpdate{
		{Index: 1, Attempt: task.Attempt, Region: task.Region, RegionEpoch: 1, State: jobpb.SubtaskState_SUBTASK_FINISHED}}}}})
	if _, assigned := s.serve(); len(assigned) == 0 {
		t.Fatal("nothing is assigned although everybody has read what it has")
	}
}
