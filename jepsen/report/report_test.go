package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluiceio/sluice/jepsen/history"
)

// run is a history of a leader's death, with a job that did or did not notice.
func run(t *testing.T, attempts ...uint32) []history.Op {
	t.Helper()
	var buf bytes.Buffer
	now := time.Unix(0, 0)
	r := history.New(&buf, func() time.Time { return now })
	r.Note(history.NoteRun, history.Run{Scenario: "leader", Number: 1, Seed: 7, Command: "sluice jepsen run leader --seed 7", Judged: []string{"I8", "I17"}})
	r.Note(history.NoteWorkload, history.Workload{Job: "j", Records: -1, Rate: 100, Partitions: 1, Keys: 1})
	call := r.Invoke("client-1", history.Submit, "<r1>")
	for i, a := range attempts {
		now = now.Add(1500 * time.Millisecond)
		if i == 1 {
			r.Fault("kill", "coordinator-1")
		}
		r.Note(history.NoteProgress, history.Progress{
			Job: "j", Status: "JOB_RUNNING", Revision: uint64(i), Term: uint64(1 + i/2), Read: int64(i) * 150, Attempts: map[string]uint32{"a[0]": a},
		})
	}
	call.OK("j")
	r.Fault("start", "coordinator-1")
	ops, err := history.Read(&buf)
	if err != nil {
		t.Fatal(err)
	}
	return ops
}

func TestAVerdictIsTheWorstOfWhatWasFound(t *testing.T) {
	judge := func(ops []history.Op, harness error) Results {
		r, err := Judge(ops, harness)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := judge(run(t, 1, 1, 1), nil); r.Verdict != Valid || r.Took["kill"] != 1 || r.Calls != 1 {
		t.Errorf("%+v", r)
	}
	if r := judge(run(t, 1, 1, 2), nil); r.Verdict != Invalid || !strings.Contains(r.Reason, "I17") {
		t.Errorf("%s: %s", r.Verdict, r.Reason)
	}
	if r := judge(run(t, 1, 1, 1), errors.New("no room")); r.Verdict != Unknown || r.Reason != "no room" {
		t.Errorf("%s: %s", r.Verdict, r.Reason)
	}
	if r := judge(run(t, 1, 1, 2), errors.New("no room")); r.Verdict != Invalid {
		t.Errorf("%s: %s", r.Verdict, r.Reason)
	}
	if r := judge(run(t), nil); r.Verdict != Unknown { // nothing was seen of what it must show
		t.Errorf("%s: %s", r.Verdict, r.Reason)
	}
	if Worse(Valid, Invalid) != Invalid || Worse(Unknown, Valid) != Unknown || Worse(Skipped, Valid) != Valid || Worse(Invalid, Unknown) != Invalid {
		t.Error("the worse verdict was lost")
	}
	for v, code := range map[Verdict]int{Valid: 0, Skipped: 0, Invalid: 1, Unknown: 2, "": 2} {
		if v.Exit() != code {
			t.Errorf("%s exits with %d", v, v.Exit())
		}
	}
}

func TestAReportStandsAloneAndEscapesWhatItShows(t *testing.T) {
	dir, ops := t.TempDir(), run(t, 1, 1, 2)
	r, err := Judge(ops, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, ops, r); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	for _, want := range []string{"sluice jepsen run leader --seed 7", "invalid", "a[0]", "coordinator-1", "attempt 2", "term 2", "polyline", "client-1", "I17"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not show %q", want)
		}
	}
	for _, never := range []string{"http://", "https://", "<script", "<r1>", "ZgotmplZ"} {
		if strings.Contains(page, never) {
			t.Errorf("the page has %q", never)
		}
	}
	raw, err = os.ReadFile(filepath.Join(dir, "results.json"))
	var back Results
	if err = errors.Join(err, json.Unmarshal(raw, &back)); err != nil || back.Version != 1 || back.Verdict != Invalid || len(back.Invariants) != 17 {
		t.Errorf("%v: %+v", err, back)
	}
}
