package cost

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/sluiceio/sluice/connector/nexmark"
	"github.com/sluiceio/sluice/internal/invariant"
)

type digest struct {
	Count    int64
	Sum, Xor string
}

type profile struct {
	Name       string
	Seed       uint64
	UsPerEvent int64
	N          int64
	Queries    map[string]digest
}

func (p profile) config() nexmark.Config {
	return nexmark.Config{Seed: p.Seed, UsPerEvent: p.UsPerEvent, Events: p.N}
}

func profiles(t *testing.T) []profile {
	t.Helper()
	raw, err := os.ReadFile("../../examples/nexmark/data/nx1_expected.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Runs []profile }
	if err := json.Unmarshal(raw, &file); err != nil || len(file.Runs) == 0 {
		t.Fatal(len(file.Runs), "runs", err)
	}
	return file.Runs
}

// TestLoopsGiveTheIndependentAnswers: a limit that answers something else is none.
func TestLoopsGiveTheIndependentAnswers(t *testing.T) {
	for _, p := range profiles(t) {
		if invariant.Enabled && p.N > 100_000 {
			continue // one goroutine has no races, and a million events would take a minute
		}
		for _, q := range Queries() {
			t.Run(p.Name+"/"+q, func(t *testing.T) {
				got, err := RunCanonical(q, p.config())
				if err != nil {
					t.Fatal(err)
				}
				want := p.Queries[q]
				if got := (digest{got.Count, fmt.Sprintf("%016x", got.Sum), fmt.Sprintf("%016x", got.Xor)}); got != want {
					t.Errorf("%+v, want %+v", got, want)
				}
			})
		}
	}
}

// TestFieldDigestCountsTheSameRows, and depends on more than their number.
func TestFieldDigestCountsTheSameRows(t *testing.T) {
	p := profiles(t)[0]
	for _, q := range Queries() {
		full, err := Run(q, p.config(), false)
		if err != nil {
			t.Fatal(err)
		}
		if full.Count != p.Queries[q].Count {
			t.Errorf("%s: %d rows, want %d", q, full.Count, p.Queries[q].Count)
		}
		again, _ := Run(q, p.config(), false)
		other := p.config()
		other.Seed++
		changed, _ := Run(q, other, false)
		if again != full || changed.Fields == full.Fields {
			t.Errorf("%s: %+v, again %+v, of other events %+v", q, full, again, changed)
		}
	}
}

func TestAnUnknownQueryIsNoAnswer(t *testing.T) {
	if a, err := Run("q99", nexmark.Config{Events: 1}, true); err == nil {
		t.Error(a)
	}
}

func BenchmarkLoops(b *testing.B) {
	for _, q := range Queries() {
		b.Run(q, func(b *testing.B) {
			b.ReportAllocs()
			if _, err := Run(q, nexmark.Config{Seed: 42, Events: int64(b.N)}, true); err != nil {
				b.Fatal(err)
			}
		})
	}
}
