//go:build jepsen

package scenario

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluiceio/sluice/proto/jobpb"
)

var (
	kills = flag.Int("kills", 20, "kills of the leader")
	seed  = flag.Uint64("seed", 1, "seed of schedule and workload")
)

// root is the checkout; the binaries come from `make build`.
const root = "../.."

func TestNoSubmitIsLostOrDoubledUnderAStormOfLeaderKills(t *testing.T) {
	flights := absolute(t, "bin", "examples", "flights")
	sluice := absolute(t, "bin", "sluice")
	input := absolute(t, "examples", "flights", "data", "flights-200k.csv.gz")
	raw, err := os.ReadFile(flights)
	if err != nil {
		t.Fatalf("%v: run `make build` first", err)
	}
	sum := sha256.Sum256(raw)
	artifact := hex.EncodeToString(sum[:])
	spec := func(name, query, out, rate string) *jobpb.JobSpec {
		return &jobpb.JobSpec{Name: name, Artifact: artifact, Parallelism: 1, Params: map[string]string{
			"query": query, "input": input, "out": out, "rate": rate,
		}}
	}
	dir := keptOnFailure(t)
	s := &LeaderStorm{
		Binary: sluice, Artifact: artifact, Dir: dir, Kills: *kills, Clients: 8, Seed: *seed, Log: t.Logf,
		Expected: expected(t, "f1"), LongWant: expected(t, "f2"),
		Spec: func(request, out string) *jobpb.JobSpec { return spec("storm", "f1", out, "0") },
		// 200,000 records at this rate outlast all the kills.
		Long: func(out string) *jobpb.JobSpec {
			return spec("long", "f2", out, fmt.Sprint(200_000/(4*(*kills)+20)))
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
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	rep, err := s.Run(ctx)
	t.Logf("storm: %d kills (%d missed), %d jobs, %d acknowledged submits, slowest election %v, attempts of the long job %v",
		rep.Kills, rep.Missed, rep.Jobs, rep.Acknowledged, rep.SlowestElection.Round(time.Millisecond), rep.LongAttempts)
	if err != nil {
		t.Fatal(err)
	}
	if rep.Kills != *kills {
		t.Errorf("%d of %d kills took effect", rep.Kills, *kills)
	}
}

func absolute(t *testing.T, parts ...string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(append([]string{root}, parts...)...))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// keptOnFailure is a directory that outlives a failed test.
func keptOnFailure(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sluice-jepsen-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("data, logs and history are kept in %s", dir)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func expected(t *testing.T, query string) Digest {
	t.Helper()
	raw, err := os.ReadFile(absolute(t, "examples", "flights", "data", "flights200k_expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Queries map[string]Digest }
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	return file.Queries[query]
}
