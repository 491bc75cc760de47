//go:build jepsen

package bounded

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// stagesJob is the job of four stages; pauseUs makes it last.
func stagesJob(t *testing.T, records, keys int64, pauseUs int) Stages {
	t.Helper()
	sluice := absolute(t, "bin", "sluice")
	return Stages{Binary: sluice, Artifact: digestOf(t, sluice), Records: records, Keys: keys, PauseUs: pauseUs}
}

func TestALossOfAWorkerReRunsWhatTheRulesAllowAndTheRowsAreRight(t *testing.T) {
	n := count(*kills, 5)
	s := &BatchLoss{Job: stagesJob(t, 400_000, 200_000, 10_000), Dir: keptOnFailure(t), Kills: n, Parallelism: 4, Seed: *seed, Log: t.Logf}
	reproduce(t, fmt.Sprintf("-kills %d", n))
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	rep, err := s.Run(ctx)
	t.Logf("losses: %d (%d missed the job), %d with a second one, %d with a kill of the leader, %d subtasks ran again, %d finished ones out of reach did not, %d losses compared exactly",
		rep.Kills, rep.Missed, rep.Twice, rep.Leaders, rep.Again, rep.Protected, rep.Exact)
	if err != nil {
		t.Fatal(err)
	}
	if rep.Kills != n || n >= 5 && (rep.Again == 0 || rep.Protected == 0) {
		t.Errorf("%+v: the losses have tested too little", rep)
	}
}
