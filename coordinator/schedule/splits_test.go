package schedule

import (
	"strings"
	"testing"

	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// Splits that cannot be taken must end the job: reading only some of them would look like success.
func TestSplitsThatCannotBeTakenFailTheJob(t *testing.T) {
	many := make([]*jobpb.Split, 600)
	for i := range many {
		many[i] = &jobpb.Split{Data: make([]byte, jobpb.MaxSplitBytes)}
	}
	for name, c := range map[string]struct {
		d    *taskpb.SplitsDiscovered
		code string
	}{
		"too large":       {&taskpb.SplitsDiscovered{Offset: 2, Splits: []*jobpb.Split{{Data: make([]byte, jobpb.MaxSplitBytes+1)}}}, CodeBadSplits},
		"after a gap":     {&taskpb.SplitsDiscovered{Offset: 7, Splits: []*jobpb.Split{{Id: "x"}}}, CodeBadSplits},
		"id that is none": {&taskpb.SplitsDiscovered{Offset: 2, Splits: []*jobpb.Split{{Id: "\xff"}}}, CodeBadSplits},
		"too many":        {&taskpb.SplitsDiscovered{Offset: 2, Splits: many}, CodeTooMany},
	} {
		s := newSim(t)
		a := s.start("w1", 2)
		a.noFinish = true
		id := s.submit("j", "endless 1", nil)
		s.settle()
		if n := s.job(id).Source(0).Len(); n != 2 {
			t.Fatalf("%d splits", n)
		}
		c.d.RegionEpoch = 1
		a.report(a.procs[0], &controlpb.Report{Fact: &controlpb.Report_Splits{Splits: c.d}})
		s.settle()
		h := s.job(id).Head()
		if h.Status != jobpb.JobStatus_JOB_FAILED || h.Failure.Code != c.code || h.Failure.Operator != "in" {
			t.Errorf("%s: the job is %s: %v", name, state.StatusName(h.Status), h.Failure)
		}
		if len(a.outbox) > 0 {
			t.Errorf("%s: %d reports are never acknowledged", name, len(a.outbox))
		}
	}
}

// A reader that asks again, or for what it has, gets the same answer; an endless source is divided evenly.
func TestReadersShareAnEndlessSourceEvenly(t *testing.T) {
	s := newSim(t)
	a := s.start("w1", 3)
	id := s.submit("j", "endless 3", nil)
	s.settle()
	src := s.job(id).Source(0)
	for i := range int32(3) {
		if n := len(src.Of(i)); n != 2 {
			t.Errorf("reader %d has %d of %d splits", i, n, src.Len())
		}
	}
	var got []string
	for _, task := range a.running(id) {
		got = append(got, task.splits...)
	}
	if len(got) != 6 || strings.Count(strings.Join(got, ","), "s0") != 1 {
		t.Errorf("readers hold %v", got)
	}
}
