//go:build jepsen

package bounded

import (
	"context"
	"fmt"
	"testing"
	"time"
)

func TestTwoJobsThatEachNeedAllSlotsBothFinish(t *testing.T) {
	n := count(*rounds, 6)
	s := &Contest{Job: stagesJob(t, 60_000, 5_000, 2_000), Dir: keptOnFailure(t), Rounds: n, Seed: *seed, Log: t.Logf}
	reproduce(t, fmt.Sprintf("-rounds %d", n))
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	rep, err := s.Run(ctx)
	t.Logf("contest: %d pairs of jobs, %d jobs were seen to lack slots, slowest pair %v", rep.Rounds, rep.Waited, rep.Slowest.Round(time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	if rep.Rounds != n || 2*rep.Waited < n {
		t.Errorf("%+v: the jobs were hardly in each other's way", rep)
	}
}
