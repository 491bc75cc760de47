//go:build jepsen

package bounded

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluiceio/sluice/proto/jobpb"
)

func TestNoSubmitIsLostOrDoubledUnderAStormOfLeaderKills(t *testing.T) {
	flights := absolute(t, "bin", "examples", "flights")
	sluice := absolute(t, "bin", "sluice")
	input := absolute(t, "examples", "flights", "data", "flights-200k.csv.gz")
	artifact := digestOf(t, flights)
	spec := func(name, query, out, rate string) *jobpb.JobSpec {
		return &jobpb.JobSpec{Name: name, Artifact: artifact, Parallelism: 1, Params: map[string]string{
			"query": query, "input": input, "out": out, "rate": rate,
		}}
	}
	dir, n := keptOnFailure(t), count(*kills, 20)
	s := &LeaderStorm{
		Binary: sluice, Artifact: artifact, Dir: dir, Kills: n, Clients: 8, Seed: *seed, Log: t.Logf,
		Expected: expected(t, "f1"), LongWant: expected(t, "f2"),
		Spec: func(request, out string) *jobpb.JobSpec { return spec("storm", "f1", out, "0") },
		// 200,000 records at this rate outlast all the kills. All of it runs at once: stage by stage its readers would not
		// be there from the beginning.
		Long: func(out string) *jobpb.JobSpec {
			long := spec("long", "f2", out, fmt.Sprint(200_000/(4*n+20)))
			long.Settings = map[string]string{"mode": "streaming"}
			return long
		},
		Upload: func(ctx context.Context, addresses []string) error {
			cmd := exec.CommandContext(ctx, sluice, "submit", flights, "--dry-run", "-p", "query=f1", "-p", "input="+input, "-p", "out="+filepath.Join(dir, "none"))
			cmd.Env = append(os.Environ(), "SLUICE_ADDR="+strings.Join(addresses, ","))
			out, err := cmd.CombinedOutput()
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		},
	}
	reproduce(t, fmt.Sprintf("-kills %d", n))
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	rep, err := s.Run(ctx)
	t.Logf("storm: %d kills (%d missed), %d jobs, %d acknowledged submits, slowest election %v, attempts of the long job %v",
		rep.Kills, rep.Missed, rep.Jobs, rep.Acknowledged, rep.SlowestElection.Round(time.Millisecond), rep.LongAttempts)
	if err != nil {
		t.Fatal(err)
	}
	if rep.Kills != n {
		t.Errorf("%d of %d kills took effect", rep.Kills, n)
	}
}
