//go:build jepsen

package bounded

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluiceio/sluice/jepsen/traffic"
)

var (
	seed    = flag.Uint64("seed", 1, "seed of schedule and workload")
	kills   = flag.Int("kills", 0, "kills of each scenario with kills; 0: as many as a commit is worth")
	damages = flag.Int("damages", 0, "damaged files; 0: a sample, -1: every file in every way")
	rounds  = flag.Int("rounds", 0, "pairs of jobs; 0: as many as a commit is worth")
)

// count is what a flag says, or what it is by default.
func count(flag, def int) int {
	if flag == 0 {
		return def
	}
	return flag
}

// reproduce says with which command a run can be had again.
func reproduce(t *testing.T, more string) {
	t.Helper()
	t.Logf("seed %d; again: make jepsen JEPSEN='-run %s -seed %d %s'", *seed, t.Name(), *seed, more)
}

// root is the checkout; the binaries come from `make build`.
const root = "../../.."

// digestOf is the SHA-256 of a binary, which is its name as an artifact.
func digestOf(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: run `make build` first", err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
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

func expected(t *testing.T, query string) traffic.Digest {
	t.Helper()
	raw, err := os.ReadFile(absolute(t, "examples", "flights", "data", "flights200k_expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Queries map[string]traffic.Digest }
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	return file.Queries[query]
}
