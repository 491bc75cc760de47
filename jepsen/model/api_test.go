package model

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/sluiceio/sluice/jepsen/history"
)

// told records calls of clients and reads the history back.
func told(t *testing.T, calls func(r *history.Recorder)) []history.Op {
	t.Helper()
	var buf bytes.Buffer
	r := history.New(&buf, time.Now)
	calls(r)
	ops, err := history.Read(&buf)
	if err != nil {
		t.Fatal(err)
	}
	return ops
}

func TestAnswersThatNoOrderExplainsAreFound(t *testing.T) {
	ask := history.Ask{Job: "j1", Request: "r1"}
	lost := errors.New("connection lost")
	for _, c := range []struct {
		name  string
		calls func(r *history.Recorder)
		want  Verdict
	}{
		{"a retry after a lost answer is the same job", func(r *history.Recorder) {
			r.Invoke("a", history.Submit, "r1").Unknown(lost)
			r.Invoke("b", history.Submit, "r1").OK("j1")
			r.Invoke("a", history.Submit, "r1").OK("j1")
			r.Invoke("a", history.List, nil).OK([]string{"j1"})
		}, Linearizable},
		{"a retry makes a second job", func(r *history.Recorder) {
			r.Invoke("a", history.Submit, "r1").OK("j1")
			r.Invoke("b", history.Submit, "r1").OK("j2")
		}, Violated},
		{"an acknowledged job is not listed", func(r *history.Recorder) {
			r.Invoke("a", history.Submit, "r1").OK("j1")
			r.Invoke("b", history.List, nil).OK([]string{})
		}, Violated},
		{"a list beside the submit may miss it", func(r *history.Recorder) {
			list := r.Invoke("b", history.List, nil)
			r.Invoke("a", history.Submit, "r1").OK("j1")
			list.OK([]string{})
		}, Linearizable},
		{"an acknowledged job is not found", func(r *history.Recorder) {
			r.Invoke("a", history.Submit, "r1").OK("j1")
			r.Invoke("b", history.Status, ask).OK("")
		}, Violated},
		{"an ended job runs again", func(r *history.Recorder) {
			r.Invoke("a", history.Submit, "r1").OK("j1")
			r.Invoke("b", history.Status, ask).OK("JOB_FINISHED")
			r.Invoke("b", history.Status, ask).OK("JOB_RUNNING")
		}, Violated},
		{"an ended job ends otherwise", func(r *history.Recorder) {
			r.Invoke("a", history.Submit, "r1").OK("j1")
			r.Invoke("a", history.Cancel, ask).OK("JOB_CANCELLED")
			r.Invoke("b", history.Status, ask).OK("JOB_FINISHED")
		}, Violated},
		{"a cancelled job runs on", func(r *history.Recorder) {
			r.Invoke("a", history.Submit, "r1").OK("j1")
			r.Invoke("a", history.Cancel, ask).OK("JOB_CANCELLING")
			r.Invoke("b", history.Status, ask).OK("JOB_RUNNING")
		}, Violated},
		{"a cancel whose answer was lost may take effect later, or never", func(r *history.Recorder) {
			r.Invoke("a", history.Submit, "r1").OK("j1")
			r.Invoke("a", history.Cancel, ask).Unknown(lost)
			r.Invoke("b", history.Status, ask).OK("JOB_RUNNING")
			r.Invoke("b", history.Status, ask).OK("JOB_CANCELLED")
		}, Linearizable},
		{"a call that failed for certain does not count", func(r *history.Recorder) {
			r.Invoke("a", history.Submit, "r1").OK("j1")
			r.Invoke("b", history.Submit, "r1").Fail(errors.New("bad"))
			r.Invoke("b", history.Status, ask).OK("JOB_RESTARTING")
			r.Invoke("b", history.Status, ask).OK("JOB_RUNNING")
		}, Linearizable},
	} {
		v, calls, about, err := Linearize(told(t, c.calls), time.Minute)
		if err != nil || v != c.want || calls == 0 || v == Violated && about != "r1" {
			t.Errorf("%s: %s (%d calls, request %q), %v; want %s", c.name, v, calls, about, err, c.want)
		}
	}
}

func TestAHistoryThatCannotBeReadIsAnError(t *testing.T) {
	ops := told(t, func(r *history.Recorder) { r.Invoke("a", history.Submit, 7).OK("j1") })
	if _, _, _, err := Linearize(ops, time.Minute); err == nil {
		t.Error("a submit of a number passed")
	}
}
