package edge

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/shuffle/stored"
	"github.com/sluiceio/sluice/worker/task/chain"
)

// script is a gate that has so many records and then its end, as far as it is let.
type script struct {
	name    string
	records int
	ready   bool
	ended   bool
	fails   error         // instead of a step
	lost    []stored.Name // what it knows to be lost
	log     *[]string
}

func (s *script) Step(limit int) (int, element.Event, bool, error) {
	switch {
	case s.fails != nil:
		return 0, element.Event{}, false, s.fails
	case !s.ready || s.ended:
		return 0, element.Event{}, true, nil
	case s.records == 0:
		s.ended = true
		return 0, element.Event{Kind: element.End, Time: element.MaxTime}, false, nil
	}
	n := min(limit, s.records)
	s.records -= n
	*s.log = append(*s.log, s.name)
	return n, element.Event{}, false, nil
}

func (s *script) Position() string          { return "in " + s.name }
func (s *script) Unreadable() []stored.Name { return s.lost }
func (s *script) Newest() element.Time      { return element.MinTime }
func (s *script) Clock() *taskpb.InputClock { return &taskpb.InputClock{From: -1} }
func (s *script) Received() chain.Received  { return chain.Received{Bytes: 1, Stored: 10} }
func (s *script) Channels() int             { return 0 }
func (s *script) Hold(int)                  {}
func (s *script) Resume()                   {}
func (s *script) Promised(element.Time)     {}

func (s *script) Arrived() (int, element.Event)     { return 0, element.Event{} }
func (s *script) Positions() []*snapshotpb.Position { return nil }
func (s *script) Close(error)                       { *s.log = append(*s.log, "close "+s.name) }

// told is an operator that notes which inputs have ended.
type told struct {
	chain.Base
	log *[]string
}

func (o *told) OnInputEnd(i int) error { *o.log = append(*o.log, fmt.Sprint("end ", i)); return nil }
func (o *told) Finish() error          { *o.log = append(*o.log, "finish"); return nil }

// drive reads inputs one record at a time until there is nothing to do.
func drive(t *testing.T, h *Head, log *[]string) []string {
	t.Helper()
	for range 1000 {
		p, err := h.Step(1)
		if err != nil {
			t.Fatal(err)
		}
		if p.State != chain.Working {
			out := *log
			*log = nil
			return out
		}
	}
	t.Fatal("it does not come to rest")
	return nil
}

func newScripts(t *testing.T, inputs ...Input) (*Head, *[]string) {
	log := &[]string{}
	for i := range inputs {
		s := inputs[i].Gate.(*script)
		s.name, s.log, s.ready = fmt.Sprint(i), log, true
	}
	rt := chain.NewRuntime(t.Context(), "op")
	c := chain.New(t.Context(), rt.Cursor, []chain.Node{{ID: "op", Runtime: rt, Operator: &told{log: log}, Size: 1}}, -1)
	return NewHead(c, inputs, func() { *log = append(*log, "loaded") }), log
}

func TestStoredInputsAreReadByPhaseThenByInput(t *testing.T) {
	g := func(phase int32) Input { return Input{Gate: &script{records: 2}, Stored: true, Phase: phase} }
	h, log := newScripts(t, g(1), g(0), g(2), g(0))
	want := []string{"1", "1", "end 1", "3", "3", "end 3", "0", "0", "end 0", "2", "2", "end 2", "finish"}
	if got := drive(t, h, log); !slices.Equal(got, want) {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
	if r := h.Received(); r != (chain.Received{Records: 8, Bytes: 4, Stored: 40}) {
		t.Errorf("received %+v", r)
	}
	if err := h.Close(nil); err != nil || !slices.Equal(*log, []string{"close 0", "close 1", "close 2", "close 3"}) {
		t.Errorf("%v %q", err, *log)
	}
}

// A stored input whose producer is slow is waited for; a later one never overtakes it.
func TestNoStoredInputOvertakesAnother(t *testing.T) {
	h, log := newScripts(t, Input{Gate: &script{records: 1}, Stored: true}, Input{Gate: &script{records: 1}, Stored: true}, Input{Gate: &script{records: 2}})
	slow := h.inputs[0].Gate.(*script)
	slow.ready = false
	if got, want := drive(t, h, log), []string{"2", "2", "end 2"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	slow.ready = true
	if got, want := drive(t, h, log), []string{"0", "end 0", "1", "end 1", "finish"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLiveInputsAreReadInTurnWhateverTheirPhase(t *testing.T) {
	h, log := newScripts(t, Input{Gate: &script{records: 3}, Phase: 1}, Input{Gate: &script{records: 2}})
	if got, want := drive(t, h, log), []string{"0", "1", "0", "1", "0", "end 1", "end 0", "finish"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if pos := h.Position(); pos != "" {
		t.Errorf("position %q after the end", pos)
	}
}

// A gate opens when everything of lower phases has ended, be it stored or live, and the operator has been told.
func TestGatedInputsWaitForLowerPhases(t *testing.T) {
	for _, kept := range []bool{false, true} {
		h, log := newScripts(t, Input{Gate: &script{records: 1}, Phase: 2, Gated: true, Stored: kept},
			Input{Gate: &script{records: 2}}, Input{Gate: &script{records: 1}, Phase: 1, Stored: true}, Input{Gate: &script{records: 1}, Phase: 3, Gated: true})
		init := h.inputs[1].Gate.(*script)
		init.ready = false
		if got, want := drive(t, h, log), []string{"2", "end 2"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		init.ready = true
		if got, want := drive(t, h, log), []string{"1", "1", "end 1", "loaded", "0", "end 0", "3", "end 3", "finish"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// One failure names everything that is lost at that moment, of all inputs that have not ended, once.
func TestALossNamesWhatElseIsLost(t *testing.T) {
	name := func(edge, producer int32) stored.Name { return stored.Name{Job: "j", Edge: edge, Producer: producer} }
	kept := func(s *script) Input { return Input{Gate: s, Stored: true} }
	ended := &script{lost: []stored.Name{name(9, 9)}}
	failing := &script{records: 1, lost: []stored.Name{name(1, 4), name(1, 5)}}
	h, log := newScripts(t, kept(ended), kept(failing), kept(&script{records: 1, lost: []stored.Name{name(2, 0), name(1, 5)}}), Input{Gate: &script{}})
	failing.ready = false
	drive(t, h, log)
	cause := errors.New("why")
	failing.fails = &stored.LostError{Name: name(1, 4), Cause: cause}
	_, err := h.Step(1)
	var lost *stored.LostError
	if !errors.As(err, &lost) || lost.Name != name(1, 4) || !slices.Equal(lost.Also, []stored.Name{name(1, 5), name(2, 0)}) || !errors.Is(err, cause) {
		t.Errorf("%v", err)
	}
	failing.fails = cause
	if _, err := h.Step(1); err != cause {
		t.Errorf("another error became %v", err)
	}
}

func TestWithNothingInFrontOfItAGateIsLoadedAtOnce(t *testing.T) {
	h, log := newScripts(t, Input{Gate: &script{records: 1}, Gated: true}, Input{Gate: &script{}})
	if got, want := drive(t, h, log), []string{"loaded", "0", "end 1", "end 0", "finish"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
