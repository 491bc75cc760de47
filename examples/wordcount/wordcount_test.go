package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluiceio/sluice/flow/flowtest"
)

func TestWordsAreCountedAsAPlainLoopCountsThem(t *testing.T) {
	text, err := os.ReadFile("data/sluice.txt")
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, w := range strings.Fields(string(text)) {
		counts[w]++
	}
	var want []string
	for w, n := range counts {
		want = append(want, w+"|"+strconv.Itoa(n))
	}
	slices.Sort(want)

	cfg := &Config{Input: "data", Out: t.TempDir()}
	flowtest.Run(t, cfg, build)
	parts, err := filepath.Glob(filepath.Join(cfg.Out, "part-*"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range parts {
		rows, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.Fields(string(rows))...)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}
