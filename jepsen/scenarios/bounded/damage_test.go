//go:build jepsen

package bounded

import (
	"context"
	"fmt"
	"testing"
	"time"
)

func TestADamagedFileOfAResultReRunsExactlyItsProducer(t *testing.T) {
	n := count(*damages, 10)
	s := &Damage{Job: stagesJob(t, 40_000, 40_000, 40_000), Dir: keptOnFailure(t), Files: n, Parallelism: 4, Seed: *seed, Log: t.Logf}
	reproduce(t, fmt.Sprintf("-damages %d", n))
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	rep, err := s.Run(ctx)
	t.Logf("damages: %d files (%d jobs could not be held), %d subtasks ran again", rep.Files, rep.Missed, rep.Again)
	if err != nil {
		t.Fatal(err)
	}
	if n > 0 && rep.Files != n || n < 0 && rep.Files != 104 {
		t.Errorf("%d files were damaged", rep.Files)
	}
}
