package commit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/worker/task/fault"
)

var errTest = errors.New("test failure")

// world is what committers act upon: a log of calls, and how each sink behaves.
type world struct {
	log    []string
	sinks  map[string]*sink
	opened map[string]int
}

type sink struct {
	results []connector.CommitResult // nil: all are committed
	err     error
	openErr error
	close   error
	panics  bool
}

func (w *world) Committer(name string) (Opener, *connector.Task) {
	s, ok := w.sinks[name]
	if !ok {
		return nil, nil
	}
	return func(context.Context, *connector.Task) (connector.Committer, error) {
		if s.openErr != nil {
			return nil, s.openErr
		}
		w.opened[name]++
		return &committer{w: w, s: s, name: name}, nil
	}, &connector.Task{Operator: name}
}

type committer struct {
	w    *world
	s    *sink
	name string
}

func (c *committer) note(verb string, cs []connector.Committable) {
	for _, x := range cs {
		c.w.log = append(c.w.log, fmt.Sprintf("%s %s %d/%d/%d", verb, c.name, x.Subtask, x.Checkpoint, x.N))
	}
}

func (c *committer) Commit(_ context.Context, cs []connector.Committable) ([]connector.CommitResult, error) {
	c.note("commit", cs)
	if c.s.panics {
		panic("boom")
	}
	if c.s.results != nil || c.s.err != nil {
		return c.s.results, c.s.err
	}
	return make([]connector.CommitResult, len(cs)), nil
}

func (c *committer) Abort(_ context.Context, cs []connector.Committable) error {
	c.note("abort", cs)
	return c.s.err
}

func (c *committer) AbortUnknown(_ context.Context, keep []connector.Committable) error {
	c.w.log = append(c.w.log, fmt.Sprintf("abort unknown but %d", len(keep)))
	return c.s.err
}

func (c *committer) Close() error {
	c.w.opened[c.name]--
	return c.s.close
}

func message(abort bool, cs ...string) *taskpb.Commit {
	m := &taskpb.Commit{Job: "j", JobEpoch: 3, Process: 2, Checkpoint: 1, Abort: abort}
	for i, s := range cs {
		m.Committables = append(m.Committables, &jobpb.Committable{Sink: s, Subtask: int32(i), Checkpoint: 1, N: 7, Data: []byte{1}})
	}
	return m
}

func run(w *world, m *taskpb.Commit) *taskpb.CommitResult {
	w.opened = map[string]int{}
	return Run(context.Background(), m, w)
}

func TestEachSinkGetsItsOutputInOrder(t *testing.T) {
	w := &world{sinks: map[string]*sink{"a": {}, "b": {}}}
	r := run(w, message(false, "b", "a", "b"))
	if r.Failure != nil || r.Retry || r.Job != "j" || r.JobEpoch != 3 || r.Process != 2 || r.Checkpoint != 1 {
		t.Errorf("result %v", r)
	}
	if want := []string{"commit b 0/1/7", "commit b 2/1/7", "commit a 1/1/7"}; !slices.Equal(w.log, want) {
		t.Errorf("calls %v, want %v", w.log, want)
	}
	w.log = nil
	if r := run(w, message(true, "a")); r.Failure != nil || r.Retry || !slices.Equal(w.log, []string{"abort a 0/1/7"}) {
		t.Errorf("abort: %v, calls %v", r, w.log)
	}
	if r := run(w, message(false)); r.Failure != nil || r.Retry {
		t.Errorf("nothing to commit: %v", r)
	}
}

func TestOutcomes(t *testing.T) {
	later := []connector.CommitResult{connector.RetryLater}
	lost := []connector.CommitResult{connector.Lost}
	for name, x := range map[string]struct {
		sinks map[string]*sink
		abort bool
		retry bool
		code  string
		text  string
	}{
		"AlreadyCommitted": {map[string]*sink{"a": {results: []connector.CommitResult{connector.AlreadyCommitted}}, "b": {}}, false, false, "", ""},
		"RetryLater":       {map[string]*sink{"a": {results: later}, "b": {}}, false, true, "", ""},
		"Lost":             {map[string]*sink{"a": {results: lost}, "b": {}}, false, false, fault.CodeLost, "cannot commit what it had prepared"},
		"LostBeatsRetry":   {map[string]*sink{"a": {results: later}, "b": {results: lost}}, false, false, fault.CodeLost, "cannot commit"},
		"LostBeatsError":   {map[string]*sink{"a": {err: errTest}, "b": {results: lost}}, false, false, fault.CodeLost, "cannot commit"},
		"ErrorBeatsRetry":  {map[string]*sink{"a": {results: later}, "b": {err: errTest}}, false, true, fault.CodeCommit, "commit: test failure"},
		"Unknown":          {map[string]*sink{"a": {results: []connector.CommitResult{99}}, "b": {}}, false, false, fault.CodeLost, "cannot commit"},
		"NoSuchSink":       {map[string]*sink{"a": {}}, false, false, fault.CodeLost, "no such committing sink"},
		"TooFewResults":    {map[string]*sink{"a": {results: []connector.CommitResult{}}, "b": {}}, false, true, fault.CodeCommit, "0 results for 1 committables"},
		"OpenFails":        {map[string]*sink{"a": {openErr: errTest}, "b": {}}, false, true, fault.CodeCommit, "open committer: test failure"},
		"CloseFails":       {map[string]*sink{"a": {close: errTest}, "b": {}}, false, true, fault.CodeCommit, "close committer: test failure"},
		"Panics":           {map[string]*sink{"a": {panics: true}, "b": {}}, false, true, fault.CodePanic, "panic: boom"},
		"Fatal":            {map[string]*sink{"a": {err: connector.Fatal(errTest)}, "b": {}}, false, false, fault.CodeLost, "commit: test failure"},
		"FatalBeatsRetry":  {map[string]*sink{"a": {err: connector.Fatal(errTest)}, "b": {results: later}}, false, false, fault.CodeLost, "commit: test failure"},
		"FatalOpen":        {map[string]*sink{"a": {openErr: connector.Fatal(errTest)}, "b": {}}, false, false, fault.CodeLost, "open committer: test failure"},
		"FatalAbort":       {map[string]*sink{"a": {err: connector.Fatal(errTest)}, "b": {}}, true, false, fault.CodeLost, "abort: test failure"},
		"AbortFails":       {map[string]*sink{"a": {err: errTest}, "b": {}}, true, true, fault.CodeCommit, "abort: test failure"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{sinks: x.sinks}
			r := run(w, message(x.abort, "a", "b"))
			if r.Retry != x.retry || r.GetFailure().GetCode() != x.code || !strings.Contains(r.GetFailure().GetMessage(), x.text) {
				t.Errorf("result %v", r)
			}
			for name, n := range w.opened {
				if n != 0 {
					t.Errorf("committer of %s was not closed", name)
				}
			}
			if _, ok := x.sinks["b"]; ok && !slices.ContainsFunc(w.log, func(s string) bool { return strings.Contains(s, " b ") }) {
				t.Errorf("a failing sink held up the other: %v", w.log)
			}
		})
	}
}

func TestACommitThatIsStoppedIsTriedAgainWithoutAFailure(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := &world{sinks: map[string]*sink{"a": {err: context.Canceled}}, opened: map[string]int{}}
	if r := Run(ctx, message(false, "a"), w); !r.Retry || r.Failure != nil {
		t.Errorf("result %v", r)
	}
}

func TestLeftoversAreRemovedOrTheAttemptFails(t *testing.T) {
	w := &world{sinks: map[string]*sink{"a": {}, "b": {err: errTest}}, opened: map[string]int{}}
	open, task := w.Committer("a")
	if err := AbortLeftovers(t.Context(), open, task, nil); err != nil || !slices.Equal(w.log, []string{"abort unknown but 0"}) {
		t.Errorf("error %v, calls %v", err, w.log)
	}
	open, task = w.Committer("b")
	f, ok := errors.AsType[*fault.Fault](AbortLeftovers(t.Context(), open, task, nil))
	if !ok || f.Code != fault.CodeSink || f.Operator != "b" || f.Err.Error() != "remove leftovers: test failure" {
		t.Errorf("fault %v", f)
	}
}
