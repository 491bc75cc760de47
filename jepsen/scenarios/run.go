package scenarios

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sluiceio/sluice/jepsen/history"
	"github.com/sluiceio/sluice/jepsen/report"
)

// Run a scenario and judge it. The directory then has history.jsonl, results.json and report.html; the data and logs of the nodes stay
// there unless the run was valid. An error means that not even that could be written.
func Run(ctx context.Context, s Scenario, o Options) (report.Results, error) {
	if why := s.Skip(); why != nil {
		return report.Results{Scenario: s.Name, Number: s.Number, Seed: o.Seed, Verdict: report.Skipped, Reason: why.Error()}, nil
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return report.Results{}, err
	}
	var err error
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return report.Results{}, err
	}
	if o.Binary, err = filepath.Abs(o.Binary); err != nil {
		return report.Results{}, err
	}
	for _, former := range []string{"data", "out"} { // nodes that found it would belong to another cluster
		if err := os.RemoveAll(filepath.Join(o.Dir, former)); err != nil {
			return report.Results{}, err
		}
	}
	o.Coordinators, o.Workers, o.Duration = cmp.Or(o.Coordinators, s.Members), cmp.Or(o.Workers, 3), cmp.Or(o.Duration, s.Lasts)
	l := &Lab{Options: o, Scenario: s}
	harness := l.perform(ctx)
	r, err := Replay(o.Dir, harness)
	if err == nil && r.Verdict == report.Valid {
		err = errors.Join(os.RemoveAll(filepath.Join(o.Dir, "data")), os.RemoveAll(filepath.Join(o.Dir, "out")))
	}
	return r, err
}

// Replay judges the history of a directory again and writes its results anew. harness is why the run failed, if it did.
func Replay(dir string, harness error) (report.Results, error) {
	f, err := os.Open(filepath.Join(dir, "history.jsonl"))
	if err != nil {
		return report.Results{}, errors.Join(harness, err)
	}
	defer f.Close()
	ops, err := history.Read(f)
	if err != nil {
		return report.Results{}, errors.Join(harness, fmt.Errorf("%s: %w", f.Name(), err))
	}
	r, err := report.Judge(ops, harness)
	if err != nil {
		return r, err
	}
	return r, report.Write(dir, ops, r)
}
