package main

import (
	"bytes"
	"os"
	"testing"
)

// TestExpectedDigestsAreThoseOfTheExample: the file stands twice because a program can only embed what is below it.
func TestExpectedDigestsAreThoseOfTheExample(t *testing.T) {
	want, err := os.ReadFile("../../examples/nexmark/data/nx1_expected.json")
	if err != nil || !bytes.Equal(expected, want) {
		t.Errorf("%d bytes, the example has %d (%v)", len(expected), len(want), err)
	}
}

func TestACaseWithoutAnOracleIsNotJudged(t *testing.T) {
	o := &options{query: "q12", sets: sets{}}
	if err := o.judge("run"); err == nil {
		t.Error("judged")
	}
}

func TestSkewedKeysAreWithinTheirNumber(t *testing.T) {
	o := &options{keys: 1000}
	seen := map[int64]int{}
	for i := range uint64(100_000) {
		k := o.skewed(scramble(i))
		if k < 0 || k >= o.keys {
			t.Fatal(k)
		}
		seen[k]++
	}
	most := 0
	for _, n := range seen {
		most = max(most, n)
	}
	if most < 5000 || len(seen) < 300 {
		t.Errorf("%d keys, the most frequent one %d times of 100,000", len(seen), most)
	}
}
