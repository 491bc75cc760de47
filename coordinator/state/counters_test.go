package state

import (
	"bytes"
	"testing"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

func TestCountersOfEndedAttemptsAreFacts(t *testing.T) {
	l := newLog(t)
	l.must(Applied, l.do("", register("w1", 1, 4)))
	id := l.running(twoStage(2), on("w1"))
	counted := func(u *taskpb.SubtaskUpdate) {
		u.Counters = &taskpb.Counters{Chain: u.Chain, Index: u.Index, Attempt: u.Attempt, RecordsIn: 7 + int64(u.Index)}
	}
	failed := report(l.job(id), jobpb.SubtaskState_SUBTASK_FAILED, func(u *taskpb.SubtaskUpdate) {
		counted(u)
		u.Failure = &jobpb.Failure{Code: "E050", Message: "boom"}
	})
	failed.GetUpdateSubtasks().Updates = failed.GetUpdateSubtasks().Updates[:1]
	l.must(Applied, l.do("", failed))
	if c := l.job(id).Subtask(0, 0).Counters; c.GetRecordsIn() != 7 {
		t.Fatalf("after a failure: %v", c)
	}
	l.must(Applied, l.do("", restart(l.job(id), jobpb.FailureKind_FAILURE_LOSS, 0)))
	if c := l.job(id).Subtask(0, 0).Counters; c != nil {
		t.Fatalf("an attempt that has not begun has counted %v", c)
	}
	l.must(Applied, l.do("", report(l.job(id), jobpb.SubtaskState_SUBTASK_CANCELLED, counted)))
	l.must(Applied, l.do("", scheduleAll(l.s.View(), id, on("w1"))))
	l.must(Applied, l.do("", report(l.job(id), jobpb.SubtaskState_SUBTASK_RUNNING, nil)))
	l.must(Applied, l.do("", report(l.job(id), jobpb.SubtaskState_SUBTASK_FINISHED, counted)))
	l.must(Applied, l.do("", endJob(l.job(id), "")))
	var saved bytes.Buffer
	if err := l.s.View().Save(&saved); err != nil {
		t.Fatal(err)
	}
	loaded, err := Load(&saved)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []*View{l.s.View(), loaded.View()} {
		for s := range v.Job(id).Subtasks() {
			if c := s.Counters; c.GetAttempt() != 2 || c.GetRecordsIn() != 7+int64(s.Index) {
				t.Errorf("chain %d, subtask %d: %v", s.Chain, s.Index, c)
			}
		}
	}
}
