package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

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

func expected(t *testing.T) map[string]digest {
	t.Helper()
	raw, err := os.ReadFile("data/flights200k_expected.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Queries map[string]digest }
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	return file.Queries
}

// ways are the parallelisms, modes and schedules that every query is run with under the race detector; internal/endtoend
// runs all of them.
var ways = []struct{ parallelism, mode, schedule string }{
	{"1", "streaming", "eager"},
	{"4", "auto", "region"},
}

func config(t *testing.T, query string) *Config {
	return &Config{
		Query: query, Order: "observed", Watermarks: "record", Out: t.TempDir(), Cut: "2001-01-08", Half: 100_000,
		Input: "data/flights-200k.csv.gz", Airports: "data/airports.csv.gz",
	}
}

func TestEveryQueryGivesTheIndependentAnswer(t *testing.T) {
	want := expected(t)
	for query := range queries {
		if query == "f8x" || query == "f7both" {
			continue // it forms millions of pairs; it has two answers: see below
		}
		for _, way := range ways {
			t.Run(strings.Join([]string{query, way.parallelism, way.mode, way.schedule}, "/"), func(t *testing.T) {
				cfg := config(t, query)
				flowtest.Run(t, cfg, build, flowtest.Setting("parallelism", way.parallelism),
					flowtest.Setting("mode", way.mode), flowtest.Setting("schedule", way.schedule))
				if got := digestOf(t, cfg.Out); got != want[query] {
					t.Errorf("digest %+v, want %+v", got, want[query])
				}
			})
		}
	}
}

func TestEveryPairOfTheHalvesIsFormed(t *testing.T) {
	cfg := config(t, "f8x")
	flowtest.Run(t, cfg, build, flowtest.Setting("parallelism", "2"))
	if got, want := digestOf(t, cfg.Out), expected(t)["f8x"]; got != want {
		t.Errorf("digest %+v, want %+v", got, want)
	}
}

func TestAJoinWithLittleMemoryGivesTheSameAnswer(t *testing.T) {
	for _, mode := range []string{"auto", "streaming"} {
		cfg := config(t, "f8")
		flowtest.Run(t, cfg, build, flowtest.Setting("parallelism", "2"), flowtest.Setting("mode", mode), flowtest.Setting("batch.memory", "4MiB"))
		if got, want := digestOf(t, cfg.Out), expected(t)["f8"]; got != want {
			t.Errorf("mode %s: digest %+v, want %+v", mode, got, want)
		}
	}
}

func TestLateFlightsAndTheOthersAreAllThereAre(t *testing.T) {
	want := expected(t)
	for _, order := range []string{"file", "observed"} {
		cfg := config(t, "f7late")
		cfg.Order = order
		flowtest.Run(t, cfg, build, flowtest.Setting("parallelism", "1"))
		if got := digestOf(t, cfg.Out); (got.Count == want["f7late"].Count) != (order == "observed") {
			t.Errorf("order %s: %d late flights", order, got.Count)
		}
	}
	cfg := config(t, "f7")
	cfg.Order = "sideways"
	if err := flowtest.Try(t, cfg, build); err == nil || !strings.Contains(err.Error(), "neither file nor observed") {
		t.Errorf("error %v", err)
	}
}

// TestEveryFlightIsCountedOrLate: how many are late depends on the moments of the watermarks, their sum does not.
func TestEveryFlightIsCountedOrLate(t *testing.T) {
	want := expected(t)
	for _, watermarks := range []string{"record", "batch"} {
		cfg := config(t, "f7both")
		cfg.Watermarks = watermarks
		flowtest.Run(t, cfg, build, flowtest.Setting("parallelism", "4"), flowtest.Setting("mode", "streaming"))
		hours, late := filepath.Join(cfg.Out, "hours"), filepath.Join(cfg.Out, "late")
		all := digestOf(t, late).Count
		for _, row := range rowsOf(t, hours) {
			n, err := strconv.ParseInt(strings.Split(row, "|")[2], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			all += n
		}
		if all != 200_000 {
			t.Errorf("watermarks per %s: %d flights were counted or late", watermarks, all)
		}
		if watermarks == "record" && (digestOf(t, hours) != want["f7b"] || digestOf(t, late) != want["f7late"]) {
			t.Errorf("watermarks per record: %+v and %+v", digestOf(t, hours), digestOf(t, late))
		}
	}
	cfg := config(t, "f7both")
	cfg.Watermarks = "never"
	if err := flowtest.Try(t, cfg, build); err == nil || !strings.Contains(err.Error(), "one per batch") {
		t.Errorf("error %v", err)
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
		rows = append(rows, strings.Fields(string(raw))...)
	}
	return rows
}

func TestAnUnknownQueryNamesTheKnownOnes(t *testing.T) {
	err := flowtest.Try(t, &Config{Query: "f99"}, build)
	if err == nil || !strings.Contains(err.Error(), "f1, f2") {
		t.Errorf("error %v", err)
	}
}
