//go:build jepsen && mutants

package scenarios

import (
	"os"
	"testing"

	"github.com/sluiceio/sluice/jepsen/cluster"
	"github.com/sluiceio/sluice/jepsen/report"
)

// binary is what `make jepsen-mutants` builds.
const binary = "../../bin/sluice-mutant"

func TestEachMutantIsCaught(t *testing.T) {
	path := binary
	if p := os.Getenv("SLUICE_BINARY"); p != "" {
		path = p
	}
	if _, err := cluster.Sweep(); err != nil {
		t.Fatal(err)
	}
	for _, m := range Mutants() {
		t.Run(m.Protection, func(t *testing.T) {
			t.Setenv("SLUICE_MUTANT", m.Protection)
			s, err := Find(m.Caught)
			if err != nil {
				t.Fatal(err)
			}
			if why := s.Skip(); why != nil {
				t.Skip(why)
			}
			r, err := Run(t.Context(), s, Options{Binary: path, Dir: t.TempDir(), Seed: 1, Log: t.Logf, Command: "make jepsen-mutants"})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %s: %s", m.Caught, r.Verdict, r.Reason)
			if r.Verdict != report.Invalid {
				t.Errorf("without %s, %s is %s", m.Protection, m.Caught, r.Verdict)
			}
		})
	}
}
