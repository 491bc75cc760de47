package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluiceio/sluice/connector/nexmark"
	"github.com/sluiceio/sluice/examples/nexmark/query"
	"github.com/sluiceio/sluice/flow/flowtest"
)

// digest identifies a multiset of rows.
type digest struct {
	Count    int64
	Sum, Xor string
}

// digestOf reads the committed part files of dir.
func digestOf(t *testing.T, dir string) digest {
	t.Helper()
	parts, err := filepath.Glob(filepath.Join(dir, "part-*"))
	if err != nil {
		t.Fatal(err)
	}
	var count int64
	var sum, xor uint64
	for _, p := range parts {
		f, err := os.Open(p)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for sc := bufio.NewScanner(f); sc.Scan(); count++ {
			h := fnv.New64a()
			h.Write(sc.Bytes())
			sum += h.Sum64()
			xor ^= h.Sum64()
		}
	}
	return digest{count, fmt.Sprintf("%016x", sum), fmt.Sprintf("%016x", xor)}
}

// profile is one run of the file of expected digests.
type profile struct {
	Name       string
	Seed       uint64
	UsPerEvent int64
	N          int64
	Queries    map[string]digest
}

func expected(t *testing.T, name string) profile {
	t.Helper()
	raw, err := os.ReadFile("data/nx1_expected.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Runs []profile }
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	for _, p := range file.Runs {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("no run %q", name)
	return profile{}
}

// ways are the parallelisms and modes that every query is run with under the race detector; internal/endtoend runs all of
// them.
var ways = []struct{ parallelism, mode string }{
	{"4", "streaming"},
	{"2", "auto"},
}

func TestEveryQueryGivesTheIndependentAnswer(t *testing.T) {
	want := expected(t, "tiny")
	for _, name := range query.Names() {
		if name == "q12" {
			continue // by the clock: see below
		}
		for _, way := range ways {
			t.Run(name+"/"+way.parallelism+"/"+way.mode, func(t *testing.T) {
				cfg := &query.Config{Query: name, Events: want.N, Seed: want.Seed, UsPerEvent: want.UsPerEvent, Out: t.TempDir()}
				flowtest.Run(t, cfg, query.Build, flowtest.Setting("parallelism", way.parallelism), flowtest.Setting("mode", way.mode))
				if got := digestOf(t, cfg.Out); got != want.Queries[name] {
					t.Errorf("digest %+v, want %+v", got, want.Queries[name])
				}
			})
		}
	}
}

// TestBidsAreCountedByTheClock: with a clock that stands, all bids of a bidder are in one window.
func TestBidsAreCountedByTheClock(t *testing.T) {
	cfg := &query.Config{Query: "q12", Events: 20_000, Seed: 42, UsPerEvent: 5000, Out: t.TempDir()}
	noon := time.Date(2015, time.July, 15, 12, 0, 3, 0, time.UTC)
	flowtest.Run(t, cfg, query.Build, flowtest.Setting("parallelism", "2"), flowtest.Clock(func() time.Time { return noon }))
	counts := map[int64]int64{}
	events := nexmark.New(cfg.Seed, cfg.UsPerEvent)
	for i := range cfg.Events {
		if i%50 >= 4 { // a bid
			counts[events.Bid(i).Bidder]++
		}
	}
	var want []string
	start := noon.Truncate(10 * time.Second)
	for bidder, n := range counts {
		want = append(want, fmt.Sprintf("%d|%d|%d|%d", bidder, start.UnixMicro(), start.Add(10*time.Second).UnixMicro(), n))
	}
	slices.Sort(want)
	if got := rowsOf(t, cfg.Out); !slices.Equal(got, want) {
		t.Errorf("%d rows, want %d", len(got), len(want))
	}
}

func rowsOf(t *testing.T, dir string) (rows []string) {
	t.Helper()
	parts, err := filepath.Glob(filepath.Join(dir, "part-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		raw, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")...)
	}
	slices.Sort(rows)
	return rows
}

func TestAnUnknownQueryNamesTheKnownOnes(t *testing.T) {
	err := flowtest.Try(t, &query.Config{Query: "q99", UsPerEvent: 1}, query.Build)
	if err == nil || !strings.Contains(err.Error(), "q0, q1") {
		t.Errorf("error %v", err)
	}
}
