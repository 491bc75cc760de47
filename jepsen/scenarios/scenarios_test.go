package scenarios

import (
	"slices"
	"testing"

	"github.com/sluiceio/sluice/jepsen/validate"
)

func TestEveryScenarioOfTheListIsThereOnce(t *testing.T) {
	ids, _ := validate.IDs()
	names := map[string]bool{}
	numbers := map[int]bool{}
	gate := 0
	for _, s := range All() {
		if names[s.Name] || s.Number > 0 && numbers[s.Number] {
			t.Errorf("%s stands there twice", s.Title())
		}
		names[s.Name], numbers[s.Number] = true, true
		if s.Gate {
			gate++
		}
		if s.faults == nil && len(s.Needs) == 0 {
			t.Errorf("%s can neither be run nor says what it needs", s.Title())
		}
		if len(s.Judged) == 0 || s.Fault == "" || s.Target == "" {
			t.Errorf("%s does not say what it is about: %+v", s.Title(), s)
		}
		for _, id := range s.Judged {
			if !slices.Contains(ids, id) {
				t.Errorf("%s must show %s, which is no invariant", s.Title(), id)
			}
		}
		for _, by := range []string{s.Name, s.Title()[:max(1, len(s.Title())-len(s.Name)-1)]} {
			if found, err := Find(by); s.Number > 0 && (err != nil || found.Name != s.Name) {
				t.Errorf("%s is not found by %q: %v", s.Title(), by, err)
			}
		}
	}
	for n := 1; n <= 48; n++ {
		if !numbers[n] {
			t.Errorf("scenario %d is missing", n)
		}
	}
	if gate < 20 {
		t.Errorf("the gate has %d scenarios", gate)
	}
	if _, err := Find("nothing of the kind"); err == nil {
		t.Error("a scenario that is not there was found")
	}
}

func TestAMutantIsCaughtByAScenarioThatIsThere(t *testing.T) {
	for _, m := range Mutants() {
		if s, err := Find(m.Caught); err != nil || s.faults == nil {
			t.Errorf("%s: %v", m.Protection, err)
		}
	}
}

func TestWhatIsMissingIsSaid(t *testing.T) {
	for _, s := range All() {
		if why := s.Skip(); slices.Contains(s.Needs, Credentials) && why == nil {
			t.Errorf("%s is not skipped", s.Title())
		}
	}
}
