package schedule

import (
	"testing"

	"github.com/sluiceio/sluice/coordinator/state"
)

// Of a command whose outcome was unknown the reports are proposed again. If the first one ends the job after all, the second
// must not keep them for a job that nobody looks at any more, whatever is answered: what stands behind them in the worker's
// order would never be acknowledged.
func TestReportsOfAJobThatHasEndedAreAcknowledged(t *testing.T) {
	s := newSim(t)
	a := s.start("w1", 3)
	id := s.submit("j", "endless 3", nil)
	s.settle()
	s.cancel(id)
	for a.obeyNext() || a.speakNext() { // all attempts end before anything of it is in the facts
	}
	s.commit() // the first report
	p := s.pending[0]
	if n := len(p.Command.GetUpdateSubtasks().GetUpdates()); n < 2 {
		t.Fatalf("%d reports are proposed together", n)
	}
	s.pending = s.pending[1:]
	s.apply(p.Command)
	s.step(Applied{Index: s.index})
	s.settle()
	if st := s.job(id).Status(); !state.Terminal(st) || len(a.outbox) == 0 {
		t.Fatalf("the job is %s, %d reports are kept", state.StatusName(st), len(a.outbox))
	}
	s.step(ProposalDone{Key: p.Key, Result: state.Result{Status: state.Refused, Index: s.index}})
	s.settle()
	if len(a.outbox) > 0 {
		t.Errorf("%d reports are never acknowledged", len(a.outbox))
	}
}
