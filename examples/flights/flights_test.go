package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
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

func TestEveryQueryGivesTheIndependentAnswerAtAnyParallelism(t *testing.T) {
	want := expected(t)
	for query := range queries {
		for _, parallelism := range []string{"1", "2", "4"} {
			t.Run(query+"/"+parallelism, func(t *testing.T) {
				cfg := &Config{Query: query, Input: "data/flights-200k.csv.gz", Out: t.TempDir()}
				flowtest.Run(t, cfg, build, flowtest.Setting("parallelism", parallelism))
				if got := digestOf(t, cfg.Out); got != want[query] {
					t.Errorf("digest %+v, want %+v", got, want[query])
				}
			})
		}
	}
}

func TestAnUnknownQueryNamesTheKnownOnes(t *testing.T) {
	err := flowtest.Try(t, &Config{Query: "f99"}, build)
	if err == nil || !strings.Contains(err.Error(), "f1, f2") {
		t.Errorf("error %v", err)
	}
}
