package main

import (
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/sluiceio/sluice/bench/cost"
)

// expected are the digests of examples/nexmark/data, which other programs have computed; a test keeps the copies alike.
//
//go:embed nx1_expected.json
var expected []byte

// profile is the run of the file that cases are checked with.
const profile = "small"

// judge runs the case on the events of the profile and compares its canonical digest.
func (o *options) judge(verb string) error {
	var file struct {
		Runs []struct {
			Name       string
			Seed       uint64
			UsPerEvent int64
			N          int64
			Queries    map[string]struct {
				Count    int64
				Sum, Xor string
			}
		}
	}
	if err := json.Unmarshal(expected, &file); err != nil {
		return fmt.Errorf("expected digests: %w", err)
	}
	for _, run := range file.Runs {
		want, ok := run.Queries[o.query]
		if run.Name != profile || !ok {
			continue
		}
		o.seed, o.usPerEvent, o.events = run.Seed, run.UsPerEvent, run.N
		r, err := o.judged(verb)
		if err != nil {
			return err
		}
		text := fmt.Sprintf("%d %s %s", want.Count, want.Sum, want.Xor)
		if r.Canonical != text {
			return fmt.Errorf("%s over %d events: digest %s, expected %s", o.query, o.events, r.Canonical, text)
		}
		r.Oracle = true
		return r.print()
	}
	return fmt.Errorf("no digest of %q was computed by others", o.query)
}

func (o *options) judged(verb string) (Result, error) {
	if verb != "cost" {
		return o.canonicalRun()
	}
	c, err := cost.RunCanonical(o.query, o.input())
	return Result{Events: o.events, Rows: c.Count, Canonical: c.String(), Mode: "loop"}, err
}
