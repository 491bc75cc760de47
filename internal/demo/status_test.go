package main

import "testing"

func TestOnlyAFirstStartIsNoRestart(t *testing.T) {
	type seen struct {
		attempt int
		worker  string
	}
	for _, c := range []struct {
		before, after seen
		same          bool
	}{
		{seen{1, "w-a"}, seen{1, "w-a"}, true},
		{seen{0, ""}, seen{0, ""}, true},
		{seen{0, ""}, seen{1, "w-a"}, true}, // its region waited for another one
		{seen{0, ""}, seen{2, "w-a"}, false},
		{seen{1, "w-a"}, seen{2, "w-a"}, false},
		{seen{1, "w-a"}, seen{1, "w-b"}, false},
		{seen{1, "w-a"}, seen{0, ""}, false},
	} {
		if err := sameAttempts(statusOf(c.before.attempt, c.before.worker), statusOf(c.after.attempt, c.after.worker)); (err == nil) != c.same {
			t.Errorf("%v, then %v: %v", c.before, c.after, err)
		}
	}
	if sameAttempts(statusOf(1, "w-a"), &jobStatus{}) == nil {
		t.Error("a subtask that is gone was not missed")
	}
}

func statusOf(attempt int, worker string) *jobStatus {
	return &jobStatus{Subtasks: []subtask{{Operator: "op", Attempt: attempt, Worker: worker}}}
}
