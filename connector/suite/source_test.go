package suite_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"testing"
	"time"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/connector/suite"
	"github.com/sluiceio/sluice/flow/element"
)

// shelf is a bounded source of the numbers below length in parts, with a fault. The empty fault is none.
type shelf struct {
	fault string
	rate  time.Duration // between two records; 0: none
	calls *int          // of discovery
}

const (
	parts  = 3
	length = 30
)

func (s shelf) Bounded() bool { return s.fault != "unbounded" }

func (s shelf) OpenEnumerator(context.Context, int, []byte) (connector.Enumerator, error) {
	*s.calls++
	return &shelfEnumerator{s}, nil
}

type shelfEnumerator struct{ s shelf }

func (e *shelfEnumerator) Next(context.Context) ([]connector.Split, error) {
	var splits []connector.Split
	for i := range parts {
		n := i
		if e.s.fault == "splits in another order each time" && *e.s.calls%2 == 0 {
			n = parts - 1 - i
		}
		splits = append(splits, place{n, 0}.split())
	}
	switch e.s.fault {
	case "two splits with one id":
		splits[1].ID = splits[0].ID
	case "discovery that never ends":
		return nil, nil
	}
	return splits, io.EOF
}
func (*shelfEnumerator) Snapshot(element.CheckpointID) ([]byte, error) { return nil, nil }
func (*shelfEnumerator) Close() error                                  { return nil }

// place is how far a part was read.
type place struct{ part, next int }

func (p place) split() connector.Split {
	return connector.Split{ID: strconv.Itoa(p.part), Version: 1, Data: []byte(fmt.Sprintf("%d,%d", p.part, p.next))}
}

func (s shelf) OpenReader(context.Context, *connector.Task) (connector.Reader[int], error) {
	*s.calls++
	r := &shelfReader{s: s, backwards: s.fault == "another order each time" && *s.calls%2 == 0}
	if s.fault == "a pause that is not kept" || s.fault == "a pause that loses records" {
		return &pausing{shelfReader: r}, nil
	}
	return r, nil
}

type shelfReader struct {
	s      shelf
	places []place
	paused map[int]bool
	turn   int
	// backwards: parts are read from their ends.
	backwards bool
	due       time.Time // of the next record
}

// pausing says that it can pause.
type pausing struct{ *shelfReader }

func (p *pausing) Pause(splits []connector.SplitIndex) bool {
	p.paused = map[int]bool{}
	for _, i := range splits {
		p.paused[int(i)] = true
	}
	return true
}

func (r *shelfReader) Assign(splits []connector.Split) error {
	for _, sp := range splits {
		var p place
		if n, err := fmt.Sscanf(string(sp.Data), "%d,%d", &p.part, &p.next); sp.Version != 1 || err != nil || n != 2 {
			switch r.s.fault {
			case "a foreign split is taken":
				continue
			case "a foreign split is an error that is tried again":
				return errors.New("no split of mine")
			}
			return connector.Fatal(errors.New("no split of mine"))
		}
		r.places = append(r.places, p)
	}
	return nil
}

// value is the number at a place.
func (r *shelfReader) value(p place) int {
	if r.backwards {
		return (p.part+1)*length/parts - 1 - p.next
	}
	return p.part*length/parts + p.next
}

func (r *shelfReader) Poll(ctx context.Context, out *connector.Records[int]) error {
	if len(r.places) == 0 && r.s.fault == "a reader without splits that waits" {
		return nil
	}
	if ctx.Err() != nil && r.s.fault == "an interrupted poll is an error" {
		return errors.New("interrupted")
	}
	if ctx.Err() != nil && r.s.fault == "an interrupted poll loses records" && r.turn < len(r.places) {
		r.places[r.turn].next++
		return nil
	}
	for ; r.turn < len(r.places); r.turn++ {
		p := &r.places[r.turn]
		for p.next < length/parts {
			if out.Full() && r.s.fault != "more records than asked for" || ctx.Err() != nil {
				return nil
			}
			if r.paused[r.turn] && r.s.fault == "a pause that loses records" {
				p.next = length / parts
				continue
			}
			if !r.rest(ctx) {
				return nil
			}
			pos := int64(p.next)
			if r.s.fault == "two records at one place" {
				pos = 0
			}
			if p.next != 4 || r.s.fault != "a record that is missing" {
				out.Add(connector.SplitIndex(r.turn), r.value(*p), 0, pos)
			}
			if p.next == 4 && r.s.fault == "a record that comes twice" && !out.Full() {
				out.Add(connector.SplitIndex(r.turn), r.value(*p), 0, 1000)
			}
			p.next++
		}
		if r.s.fault != "a split that is never finished" {
			out.Finish(connector.SplitIndex(r.turn))
		}
	}
	if r.s.fault == "an end that never comes" {
		return nil
	}
	return io.EOF
}

// rest waits for the next record; false: it was interrupted.
func (r *shelfReader) rest(ctx context.Context) bool {
	if r.s.rate == 0 {
		return true
	}
	if r.due.IsZero() {
		r.due = time.Now()
	}
	timer := time.NewTimer(time.Until(r.due))
	defer timer.Stop()
	if r.s.fault == "a wait that does not give way" {
		<-timer.C
		r.due = time.Now().Add(r.s.rate)
		return true
	}
	select {
	case <-timer.C:
		r.due = time.Now().Add(r.s.rate)
		return true
	case <-ctx.Done():
		return false
	}
}

func (r *shelfReader) Describe(s connector.SplitIndex, pos int64) string {
	if r.s.fault == "no place" {
		return ""
	}
	return fmt.Sprintf("part %d, number %d", r.places[s].part, pos)
}

func (r *shelfReader) Snapshot(element.CheckpointID) (left []connector.Split, err error) {
	for _, p := range r.places {
		switch {
		case p.next == length/parts && r.s.fault != "a finished split that is left":
			continue
		case r.s.fault == "a position that is always the first":
			p.next = 0
		case r.s.fault == "a position that is one ahead":
			p.next++
		}
		sp := p.split()
		if r.s.fault == "a split that changes its name" {
			sp.ID += "x"
		}
		left = append(left, sp)
	}
	return left, nil
}
func (r *shelfReader) Committed(context.Context, element.CheckpointID) error { return nil }
func (r *shelfReader) Close() error                                          { return nil }

func shelves(fault string) suite.Source[int] {
	s := suite.Source[int]{Name: strconv.Itoa, Open: func(testing.TB) connector.Source[int] { return shelf{fault: fault, calls: new(int)} }}
	s.Slow = func(testing.TB) connector.Source[int] { return shelf{fault: fault, calls: new(int), rate: time.Second} }
	for i := range length {
		s.Want = append(s.Want, i)
	}
	return s
}

// brokenSources are faults of sources, with a check that finds each, as the suite calls it.
var brokenSources = map[string]string{
	"unbounded":                                       "bounded without touching the outside",
	"discovery that never ends":                       "splits have ids of their own and discovery ends",
	"two splits with one id":                          "splits have ids of their own and discovery ends",
	"splits in another order each time":               "discovery finds the same splits again",
	"a record that is missing":                        "every record once at any parallelism",
	"a record that comes twice":                       "every record once at any parallelism",
	"more records than asked for":                     "every record once at any parallelism",
	"an end that never comes":                         "every record once at any parallelism",
	"a finished split that is left":                   "every record once at any parallelism",
	"another order each time":                         "a split gives the same records again",
	"a position that is always the first":             "continues from every position",
	"a position that is one ahead":                    "continues from every position",
	"a split that changes its name":                   "splits move to other readers",
	"a reader without splits that waits":              "a reader without splits has nothing",
	"no place":                                        "records carry splits, positions and places",
	"two records at one place":                        "records carry splits, positions and places",
	"a split that is never finished":                  "records carry splits, positions and places",
	"an interrupted poll is an error":                 "a done context ends Poll early",
	"an interrupted poll loses records":               "a done context ends Poll early",
	"a foreign split is taken":                        "a foreign split is refused",
	"a foreign split is an error that is tried again": "a foreign split is refused",
	"a wait that does not give way":                   "a waiting Poll gives way",
	"a pause that is not kept":                        "paused splits are left alone",
	"a pause that loses records":                      "paused splits are left alone",
}

// TestABrokenSource is what the test below runs in a process of its own: it fails.
func TestABrokenSource(t *testing.T) {
	fault, ok := broken()
	if !ok {
		t.Skip("run by TestTheSuiteFindsBrokenSources")
	}
	suite.TestSource(t, shelves(fault))
}

func TestTheSuiteFindsBrokenSources(t *testing.T) {
	suite.TestSource(t, shelves(""))
	for fault, check := range brokenSources {
		t.Run(fault, func(t *testing.T) {
			finds(t, "TestABrokenSource", check, fault)
		})
	}
}
