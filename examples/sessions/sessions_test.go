package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/flow/flowtest"
)

func defaults(t *testing.T) *Config {
	return &Config{Views: 20_000, Users: 200, Gap: 15 * time.Minute, Lateness: 5 * time.Minute, Out: t.TempDir(), Late: t.TempDir()}
}

// open is a visit of the model.
type open struct {
	Visit
	fired int
	waits bool
}

// expected plays the views one by one with a watermark after each, and keeps the visits as lists.
func expected(cfg *Config) (visits, late []string) {
	mark, most := flow.MinTime, flow.MinTime
	byUser := map[int64][]*open{}
	fire := func(v *open) {
		v.Pane = v.fired
		v.fired++
		v.waits = false
		visits = append(visits, string(visitRow(nil, v.Visit)))
	}
	advance := func(to flow.Time) {
		mark = to
		for user, list := range byUser {
			for _, v := range list {
				if v.waits && v.End <= mark {
					fire(v)
				}
			}
			byUser[user] = slices.DeleteFunc(list, func(v *open) bool { return v.End <= mark.Add(-cfg.Lateness) })
		}
	}
	for i := range cfg.Views {
		view, at := cfg.view(i)
		merged := &open{Visit: Visit{User: view.User, Start: at, End: at.Add(cfg.Gap)}, waits: true}
		var rest, met []*open
		for _, v := range byUser[view.User] {
			if v.Start <= at.Add(cfg.Gap) && at <= v.End {
				met = append(met, v)
			} else {
				rest = append(rest, v)
			}
		}
		slices.SortFunc(met, func(a, b *open) int { return int(a.Start - b.Start) })
		for _, v := range met {
			merged.Start, merged.End = min(merged.Start, v.Start), max(merged.End, v.End)
			merged.Pages, merged.fired = append(merged.Pages, v.Pages...), max(merged.fired, v.fired)
		}
		if mark > flow.MinTime && merged.End <= mark.Add(-cfg.Lateness) {
			late = append(late, string(viewRow(nil, view)))
			continue
		}
		merged.Pages = append(merged.Pages, view.Page)
		byUser[view.User] = append(rest, merged)
		if merged.End <= mark {
			fire(merged)
		}
		if at > most {
			most = at
			advance(most.Add(-time.Minute) - 1)
		}
	}
	advance(flow.MaxTime - flow.Time(cfg.Lateness.Microseconds()) - 1)
	slices.Sort(visits)
	slices.Sort(late)
	return visits, late
}

func committed(t *testing.T, dir string) (rows []string) {
	t.Helper()
	parts, err := filepath.Glob(filepath.Join(dir, "part-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range parts {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")...)
	}
	slices.Sort(rows)
	return rows
}

func TestVisitsAndLateViewsAreThoseOfThePlainModel(t *testing.T) {
	visits, late := expected(defaults(t))
	again := slices.ContainsFunc(visits, func(row string) bool { return strings.Split(row, "|")[3] != "0" })
	if len(late) < 10 || len(late) > 1000 || !again {
		t.Fatalf("%d late views, visits that fire again: %v: the data shows nothing", len(late), again)
	}
	for _, way := range []struct{ parallelism, memory string }{{"1", "64MiB"}, {"3", "64MiB"}, {"1", "1KiB"}} {
		cfg := defaults(t)
		flowtest.Run(t, cfg, build, flowtest.Setting("parallelism", way.parallelism), flowtest.Setting("mode", "streaming"), flowtest.Setting("state.memory", way.memory))
		if got := committed(t, cfg.Out); !slices.Equal(got, visits) {
			t.Errorf("%v: %d visits, want %d", way, len(got), len(visits))
		}
		if got := committed(t, cfg.Late); !slices.Equal(got, late) {
			t.Errorf("%v: %d late views, want %d", way, len(got), len(late))
		}
	}
}

func TestThePlanIsDeterministic(t *testing.T) { flowtest.Deterministic(t, defaults(t), build) }

func TestAConfigurationThatMakesNoSenseIsRefused(t *testing.T) {
	cfg := defaults(t)
	cfg.Gap = 0
	if err := flowtest.Try(t, cfg, build); err == nil || !strings.Contains(err.Error(), "both must be positive") {
		t.Errorf("error %v", err)
	}
}
