package suite

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluiceio/sluice/cmd/sluice/internal/ops"
	"github.com/sluiceio/sluice/jepsen/history"
	"github.com/sluiceio/sluice/jepsen/scenarios"
)

func session(f ops.Format) (*ops.Session, *bytes.Buffer) {
	var out bytes.Buffer
	return &ops.Session{Out: &out, Err: &out, Format: f, Now: time.Now}, &out
}

func TestTheListSaysWhatIsSkippedAndWhy(t *testing.T) {
	s, out := session(ops.Table)
	if err := List(s); err != nil || !strings.Contains(out.String(), "leader-storm") || !strings.Contains(out.String(), "skipped here: needs credentials") {
		t.Errorf("%v: %s", err, out)
	}
	s, out = session(ops.JSON)
	err := List(s)
	var all []listed
	if err = errors.Join(err, json.Unmarshal(out.Bytes(), &all)); err != nil || len(all) != len(scenarios.All()) {
		t.Errorf("%v: %d scenarios", err, len(all))
	}
}

func TestAScenarioThatIsNotThereIsAWrongCommandLine(t *testing.T) {
	s, _ := session(ops.Table)
	err := Run(t.Context(), s, Options{Report: t.TempDir()}, []string{"leader-storm", "no-such"})
	var f *ops.Fault
	if !errors.As(err, &f) || f.Exit != ops.ExitUsage {
		t.Errorf("%v", err)
	}
}

func TestASkippedScenarioSaysWhyAndFailsNothing(t *testing.T) {
	s, out := session(ops.Table)
	if err := Run(t.Context(), s, Options{Report: t.TempDir()}, []string{"40", "credentials"}); err != nil {
		t.Error(err)
	}
	if text := out.String(); strings.Count(text, "skipped") != 2 || !strings.Contains(text, "no credentials") {
		t.Error(text)
	}
}

func TestTheCommandHasTheRunAgain(t *testing.T) {
	x, err := scenarios.Find("1")
	if err != nil {
		t.Fatal(err)
	}
	got := command(Options{Seed: 7, Duration: time.Minute, Workers: 4, Coordinators: 5}, x)
	if want := "sluice jepsen run leader-storm --seed 7 --duration 1m0s --workers 4 --coordinators 5"; got != want {
		t.Errorf("%s", got)
	}
}

// The exit code of a replay is that of the verdict.
func TestAReplayEndsWithTheVerdict(t *testing.T) {
	for _, c := range []struct {
		name string
		rest func(r *history.Recorder)
		exit ops.Exit
	}{
		{"valid", func(r *history.Recorder) { r.Note(history.NoteCensus, history.Census{}) }, 0},
		{"invalid", func(r *history.Recorder) { r.Note(history.NoteCensus, history.Census{Slots: 1}) }, 1},
		{"unknown", func(*history.Recorder) {}, 2},
	} {
		dir := t.TempDir()
		f, err := os.Create(filepath.Join(dir, "history.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		r := history.New(f, time.Now)
		r.Note(history.NoteRun, history.Run{Scenario: "x", Judged: []string{"I13"}})
		c.rest(r)
		if err := errors.Join(r.Err(), f.Close()); err != nil {
			t.Fatal(err)
		}
		s, out := session(ops.Table)
		err = Replay(s, dir)
		var fault *ops.Fault
		if errors.As(err, &fault) != (c.exit != 0) || fault != nil && fault.Exit != c.exit {
			t.Errorf("%s: %v", c.name, err)
		}
		if !strings.HasPrefix(out.String(), c.name) {
			t.Errorf("%s: %s", c.name, out)
		}
		if _, err := os.Stat(filepath.Join(dir, "report.html")); err != nil {
			t.Error(err)
		}
	}
	s, _ := session(ops.Table)
	var fault *ops.Fault
	if err := Replay(s, t.TempDir()); !errors.As(err, &fault) || fault.Exit != 2 {
		t.Errorf("a directory without a history: %v", err)
	}
}
