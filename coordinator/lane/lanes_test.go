package lane

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/sluiceio/sluice/coordinator/state"
)

func applied(index uint64) state.Result { return state.Result{Status: state.Applied, Index: index} }

// What was decided is known to be done only when the facts contain it; until then its lane is closed and its slots are taken.
func TestAProposalLandsWhenItsFactsAreVisible(t *testing.T) {
	s := New()
	var done []uint64
	note := func(r state.Result) { done = append(done, r.Index) }
	s.Begin("a", &Flight{Job: "j", Done: note, Takes: map[string]int{"w": 2}})
	s.Begin("b", &Flight{Done: note, Takes: map[string]int{"w": 1}})
	for lane, index := range map[string]uint64{"a": 7, "b": 5, "unknown": 1} {
		if pause := s.Answer(lane, applied(index), nil); pause != 0 {
			t.Errorf("%s: a pause of %v", lane, pause)
		}
	}
	if got := s.Visible(4); got != nil || s.Taken("w") != 3 {
		t.Errorf("%v is visible too early, %d slots taken", got, s.Taken("w"))
	}
	if got := s.Visible(5); !slices.Equal(got, []string{"b"}) {
		t.Errorf("visible: %v", got)
	}
	if f := s.Land("b"); f.Result().Index != 5 || s.Busy("b") || !s.Busy("a") || s.Taken("w") != 2 {
		t.Errorf("after b: busy %t %t, %d slots taken", s.Busy("a"), s.Busy("b"), s.Taken("w"))
	}
	if s.Answer("a", applied(9), nil); !slices.Equal(s.Visible(7), []string{"a"}) { // an answer that comes twice
		t.Error("a is not visible")
	}
	if f := s.Land("a"); f.Job != "j" || s.Taken("w") != 0 || !slices.Equal(done, []uint64{5, 7}) {
		t.Errorf("%v, %d slots taken", done, s.Taken("w"))
	}
}

// An unknown outcome and decisions that come to nothing close a lane, for longer each time, and up to a limit.
func TestALaneOnWhichNothingSucceedsIsClosedForLongerAndLonger(t *testing.T) {
	s := New()
	failed := 0
	try := func() time.Duration {
		s.Begin("a", &Flight{Failed: func() { failed++ }, Takes: map[string]int{"w": 1}})
		pause := s.Answer("a", state.Result{}, errors.New("nobody knows"))
		if !s.Busy("a") || s.Taken("w") != 0 || s.Answer("a", applied(1), nil) != 0 || len(s.Visible(9)) > 0 {
			t.Fatal("what is unknown has landed")
		}
		if s.Open("a") == nil || s.Open("a") != nil || s.Busy("a") {
			t.Fatal("the lane does not open once")
		}
		return pause
	}
	var pauses []time.Duration
	for range 12 {
		pauses = append(pauses, try())
	}
	if pauses[0] != 200*time.Millisecond || pauses[1] != 400*time.Millisecond || pauses[11] != 10*time.Second || failed != 12 {
		t.Errorf("pauses %v, %d told", pauses, failed)
	}
	s.Forget("a")
	land := func() time.Duration {
		f := &Flight{}
		s.Begin("a", f)
		s.Answer("a", state.Result{Status: state.Stale}, nil)
		s.Visible(0)
		return s.Vain("a", s.Land("a"))
	}
	if first, second := land(), land(); first != 0 || second != 400*time.Millisecond || !s.Busy("a") {
		t.Errorf("vain: %v, then %v", first, second)
	}
	s.Open("a")
	s.Forget("a")
	if again := land(); again != 0 || s.Busy("a") {
		t.Errorf("after a success: %v", again)
	}
}
