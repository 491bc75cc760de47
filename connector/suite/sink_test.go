package suite_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/connector/suite"
	"github.com/sluiceio/sluice/flow/element"
)

// store is a place outside: outputs, prepared and visible. It has a fault; the empty one is none.
type store struct {
	fault string
	mu    struct {
		sync.Mutex
		seen     []string
		prepared map[string][]string // by name
		done     map[string]bool     // names that were committed
		litter   int
	}
}

func newStore(fault string) *store {
	s := &store{fault: fault}
	s.mu.prepared, s.mu.done = map[string][]string{}, map[string]bool{}
	return s
}

func (s *store) show(vs []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.seen = append(s.mu.seen, vs...)
}

// prepare keeps output under a name.
func (s *store) prepare(name string, vs []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.prepared[name] = vs
}

// commit shows what is kept under a name.
func (s *store) commit(name string) connector.CommitResult {
	s.mu.Lock()
	defer s.mu.Unlock()
	vs, kept := s.mu.prepared[name]
	switch {
	case s.mu.done[name] && s.fault == "a second commit that shows everything again":
		s.mu.seen = append(s.mu.seen, vs...)
		return connector.AlreadyCommitted
	case s.mu.done[name] && s.fault == "a second commit that says it was the first":
		return connector.Committed
	case s.mu.done[name]:
		return connector.AlreadyCommitted
	case !kept && s.fault == "aborted output that is reported as committed":
		return connector.AlreadyCommitted
	case !kept:
		return connector.Lost
	}
	s.mu.done[name] = true
	s.mu.seen = append(s.mu.seen, vs...)
	return connector.Committed
}

// forget drops names that were not committed.
func (s *store) forget(matches func(name string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.mu.prepared {
		if !matches(name) {
			continue
		}
		if s.mu.done[name] && s.fault == "an abort that takes back what is committed" {
			for _, v := range s.mu.prepared[name] {
				s.mu.seen = slices.DeleteFunc(s.mu.seen, func(seen string) bool { return seen == v })
			}
		}
		if !s.mu.done[name] {
			delete(s.mu.prepared, name)
		}
	}
	if s.fault == "an abort that removes what belongs to others" {
		s.mu.litter = 0
	}
}

func (s *store) place() suite.Place[string] {
	var sink connector.Sink[string] = plainSink{s}
	if !strings.HasPrefix(s.fault, "plain: ") {
		sink = shopSink{plainSink{s}}
	}
	return suite.Place[string]{
		Sink:    sink,
		Visible: func(testing.TB) []string { s.mu.Lock(); defer s.mu.Unlock(); return s.mu.seen },
		Leftovers: func(testing.TB) int {
			s.mu.Lock()
			defer s.mu.Unlock()
			n := 0
			for name := range s.mu.prepared {
				if !s.mu.done[name] {
					n++
				}
			}
			return n
		},
		Litter: func(testing.TB) func(testing.TB) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.mu.litter = 1
			return func(t testing.TB) {
				s.mu.Lock()
				defer s.mu.Unlock()
				if s.mu.litter != 1 {
					t.Error("something of somebody else is gone")
				}
			}
		},
	}
}

// plainSink writes without a commit.
type plainSink struct{ s *store }

func (k plainSink) Guarantee() connector.Guarantee {
	if strings.HasPrefix(k.s.fault, "plain: ") {
		return connector.AtLeastOnce
	}
	return connector.ExactlyOnce
}

func (k plainSink) OpenWriter(_ context.Context, t *connector.Task, _ [][]byte) (connector.Writer[string], error) {
	return &shopWriter{s: k.s, name: outputName(t)}, nil
}

// outputName is the name of the output of an attempt.
func outputName(t *connector.Task) string {
	return fmt.Sprintf("%s/%s/%d/%d.%d", t.Job, t.Operator, t.Subtask, t.JobEpoch, t.RegionEpoch)
}

// shopSink has a committer.
type shopSink struct{ plainSink }

func (k shopSink) OpenCommitter(_ context.Context, t *connector.Task) (connector.Committer, error) {
	return shopCommitter{k.s, t}, nil
}

type shopWriter struct {
	s    *store
	name string
	held []string
	n    int
}

func (w *shopWriter) plain() bool { return strings.HasPrefix(w.s.fault, "plain: ") }

func (w *shopWriter) Write(_ context.Context, v string, _ element.Time) error {
	if w.s.fault == "output that is visible before its commit" {
		w.s.show([]string{v})
	}
	w.held = append(w.held, v)
	return nil
}

func (w *shopWriter) Flush(context.Context) error {
	if w.plain() && w.s.fault != "plain: a flush that keeps records" {
		w.s.show(w.held)
		w.held = nil
	}
	return nil
}

func (w *shopWriter) End(ctx context.Context) error {
	if w.s.fault == "plain: an end that loses records" {
		w.s.mu.seen = w.s.mu.seen[:len(w.s.mu.seen)-1]
	}
	return nil
}

func (w *shopWriter) Prepare(_ context.Context, id element.CheckpointID) ([]connector.Committable, error) {
	if w.plain() {
		if w.s.fault == "plain: something to commit" {
			return []connector.Committable{{Checkpoint: id}}, nil
		}
		return nil, nil
	}
	if len(w.held) == 0 {
		return nil, nil
	}
	w.n++
	name := fmt.Sprintf("%s/%d", w.name, w.n)
	w.s.prepare(name, w.held)
	c := connector.Committable{Checkpoint: id, Data: []byte(name)}
	switch w.s.fault {
	case "records that are prepared again":
		return []connector.Committable{c}, nil
	case "a committable of another checkpoint":
		c.Checkpoint++
	case "a committable that is too large":
		c.Data = make([]byte, 65<<10)
	}
	w.held = nil
	if w.s.fault == "nothing to commit" {
		return nil, nil
	}
	return []connector.Committable{c}, nil
}

func (w *shopWriter) Snapshot(element.CheckpointID) ([]byte, error) { return nil, nil }

func (w *shopWriter) Close() error {
	if w.s.fault == "what was not prepared is shown at the close" {
		w.s.show(w.held)
	}
	if w.s.fault == "what was not prepared is left at the close" && len(w.held) > 0 {
		w.s.prepare(w.name+"/left", w.held)
	}
	return nil
}

type shopCommitter struct {
	s *store
	t *connector.Task
}

func (c shopCommitter) Commit(_ context.Context, cs []connector.Committable) (results []connector.CommitResult, err error) {
	for _, k := range cs {
		results = append(results, c.s.commit(string(k.Data)))
		if c.s.fault == "a commit of the first one only" {
			return slices.Repeat(results, len(cs)), nil
		}
	}
	return results, nil
}

func (c shopCommitter) Abort(_ context.Context, cs []connector.Committable) error {
	if c.s.fault == "an abort that leaves everything" {
		return nil
	}
	failed := false
	for _, k := range cs {
		found := false
		c.s.forget(func(name string) bool { found = found || name == string(k.Data); return name == string(k.Data) })
		failed = failed || !found
	}
	if failed && c.s.fault == "an abort that fails the second time" {
		return errors.New("there is no such output")
	}
	return nil
}

func (c shopCommitter) AbortUnknown(_ context.Context, keep []connector.Committable) error {
	kept := map[string]bool{}
	for _, k := range keep {
		kept[string(k.Data)] = c.s.fault != "leftovers that should have been kept"
	}
	c.s.forget(func(name string) bool {
		var job, sink string
		var subtask, n int
		var jobEpoch, region uint64
		if _, err := fmt.Sscanf(strings.ReplaceAll(name, "/", " "), "%s %s %d %d.%d %d", &job, &sink, &subtask, &jobEpoch, &region, &n); err != nil || kept[name] {
			return false
		}
		switch c.s.fault {
		case "leftovers of every job":
			return region < c.t.RegionEpoch
		case "leftovers of every sink":
			return job == c.t.Job && region < c.t.RegionEpoch
		case "leftovers of every epoch":
			return job == c.t.Job && sink == c.t.Operator
		case "leftovers that stay":
			return false
		}
		return job == c.t.Job && sink == c.t.Operator && region < c.t.RegionEpoch
	})
	return nil
}

func (shopCommitter) Close() error { return nil }

func stores(fault string) suite.Sink[string] {
	return suite.Sink[string]{
		Values: strings.Fields("a b c d e f"),
		Name:   func(v string) string { return v },
		Open:   func(testing.TB) suite.Place[string] { return newStore(fault).place() },
	}
}

// brokenSinks are faults of sinks, with a check that finds each.
var brokenSinks = map[string]string{
	"plain: a flush that keeps records":            "written is visible after Flush",
	"plain: an end that loses records":             "written is visible after Flush",
	"plain: something to commit":                   "written is visible after Flush",
	"output that is visible before its commit":     "output appears by commit, and once",
	"nothing to commit":                            "output appears by commit, and once",
	"a second commit that shows everything again":  "output appears by commit, and once",
	"a second commit that says it was the first":   "output appears by commit, and once",
	"a committable of another checkpoint":          "output appears by commit, and once",
	"a committable that is too large":              "output appears by commit, and once",
	"a commit of the first one only":               "a commit that was cut short is completed",
	"records that are prepared again":              "checkpoints are committed one by one",
	"aborted output that is reported as committed": "aborted output never appears",
	"an abort that leaves everything":              "aborted output never appears",
	"an abort that takes back what is committed":   "an abort does not touch what is committed",
	"what was not prepared is shown at the close":  "what was not prepared is discarded",
	"what was not prepared is left at the close":   "what was not prepared is discarded",
	"leftovers that stay":                          "leftovers of lower epochs go and nothing else",
	"leftovers that should have been kept":         "leftovers of lower epochs go and nothing else",
	"leftovers of every job":                       "leftovers of lower epochs go and nothing else",
	"leftovers of every sink":                      "leftovers of lower epochs go and nothing else",
	"leftovers of every epoch":                     "leftovers of lower epochs go and nothing else",
	"an abort that removes what belongs to others": "two jobs and two sinks in one place",
}

// TestABrokenSink is what the test below runs in a process of its own: it fails.
func TestABrokenSink(t *testing.T) {
	fault, ok := broken()
	if !ok {
		t.Skip("run by TestTheSuiteFindsBrokenSinks")
	}
	suite.TestSink(t, stores(fault))
}

func TestTheSuiteFindsBrokenSinks(t *testing.T) {
	suite.TestSink(t, stores(""))
	suite.TestSink(t, stores("plain: without a fault"))
	for fault, check := range brokenSinks {
		t.Run(fault, func(t *testing.T) { finds(t, "TestABrokenSink", check, fault) })
	}
}
