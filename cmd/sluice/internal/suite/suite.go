package suite

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/sluiceio/sluice/cmd/sluice/internal/ops"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/jepsen/cluster"
	"github.com/sluiceio/sluice/jepsen/report"
	"github.com/sluiceio/sluice/jepsen/scenarios"
	"github.com/sluiceio/sluice/jepsen/validate"
)

// Options of a run. Zero values are the scenarios' own.
type Options struct {
	Seed                  uint64
	Duration              time.Duration
	Workers, Coordinators int
	Parallel              int    // scenarios at a time
	Report                string // directory; each scenario has one below it
	Binary                string // empty: this one
}

// listed is a scenario in JSON.
type listed struct {
	Number     int      `json:"number,omitempty"`
	Name       string   `json:"name"`
	Fault      string   `json:"fault"`
	Target     string   `json:"target"`
	Invariants []string `json:"invariants"`
	Gate       bool     `json:"gate"`
	Skipped    string   `json:"skipped,omitempty"` // why it cannot run here
}

// List the scenarios, with the reason of each that cannot run here.
func List(s *ops.Session) error {
	var all []listed
	for _, x := range scenarios.All() {
		l := listed{Number: x.Number, Name: x.Name, Fault: x.Fault, Target: x.Target, Invariants: x.Judged, Gate: x.Gate}
		if why := x.Skip(); why != nil {
			l.Skipped = why.Error()
		}
		all = append(all, l)
	}
	if s.Format == ops.JSON {
		return printJSON(s.Out, all)
	}
	w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NO\tNAME\tTARGET\tFAULT\tINVARIANTS")
	for _, l := range all {
		number := "-"
		if l.Number > 0 {
			number = fmt.Sprint(l.Number)
		}
		fault := l.Fault
		if l.Skipped != "" {
			fault += " (skipped here: " + l.Skipped + ")"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", number, l.Name, l.Target, fault, strings.Join(l.Invariants, " "))
	}
	return w.Flush()
}

// chosen are the scenarios that arguments name: numbers, names, gate for those of continuous integration, all.
func chosen(args []string) (list []scenarios.Scenario, err error) {
	for _, a := range args {
		if a == "gate" || a == "all" {
			for _, x := range scenarios.All() {
				if a == "all" && x.Name != "random" || x.Gate && x.Skip() == nil {
					list = append(list, x)
				}
			}
			continue
		}
		x, err := scenarios.Find(a)
		if err != nil {
			return nil, ops.Usagef("sluice jepsen list", "%w", err)
		}
		list = append(list, x)
	}
	return list, nil
}

// Run scenarios one after another. The error carries the exit code: 1 if an invariant was broken, 2 if a verdict is open.
func Run(ctx context.Context, s *ops.Session, o Options, args []string) error {
	list, err := chosen(args)
	if err != nil {
		return err
	}
	if o.Binary == "" {
		if o.Binary, err = os.Executable(); err != nil {
			return err
		}
	}
	if o.Report == "" {
		if o.Report, err = os.MkdirTemp("", "sluice-jepsen-"); err != nil {
			return err
		}
	}
	swept, err := cluster.Sweep()
	if swept.Processes+swept.Networks > 0 || err != nil {
		_, _ = fmt.Fprintf(s.Err, " · removed what a former run has left: %d processes, %d networks %v\n", swept.Processes, swept.Networks, errors.Join(err))
	}
	all, worst := o.abreast(ctx, s, list)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := cluster.Unmark(); err != nil {
		return err
	}
	if s.Format == ops.JSON {
		if err := printJSON(s.Out, all); err != nil {
			return err
		}
	}
	return verdict(worst, all)
}

// abreast runs scenarios, so many at a time, and prints each result as it comes.
func (o Options) abreast(ctx context.Context, s *ops.Session, list []scenarios.Scenario) ([]report.Results, report.Verdict) {
	var mu sync.Mutex
	worst, all := report.Skipped, make([]report.Results, len(list))
	next := make(chan int)
	g := run.NewGroup(ctx, "scenarios")
	g.Go("deal", func(ctx context.Context) error {
		defer close(next)
		for i := range list {
			select {
			case next <- i:
			case <-ctx.Done():
				return nil
			}
		}
		return nil
	})
	for range max(1, o.Parallel) {
		g.Go("run", func(ctx context.Context) error {
			for i := range next {
				begun := s.Now()
				r, dir := o.one(ctx, s, list[i])
				mu.Lock()
				all[i], worst = r, report.Worse(worst, r.Verdict)
				if s.Format != ops.JSON && ctx.Err() == nil {
					Print(s.Out, list[i].Title(), r, dir, s.Now().Sub(begun))
				}
				mu.Unlock()
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil && ctx.Err() == nil { // a panic
		_, _ = fmt.Fprintln(s.Err, err)
		worst = report.Worse(worst, report.Unknown)
	}
	return all, worst
}

func reason(r report.Results) error {
	if r.Reason == "" {
		return nil
	}
	return errors.New(r.Reason)
}

func (o Options) one(ctx context.Context, s *ops.Session, x scenarios.Scenario) (report.Results, string) {
	dir := filepath.Join(o.Report, x.Name)
	r, err := scenarios.Run(ctx, x, scenarios.Options{
		Binary: o.Binary, Dir: dir, Seed: o.Seed, Duration: o.Duration, Workers: o.Workers, Coordinators: o.Coordinators,
		Log: func(format string, args ...any) { _, _ = fmt.Fprintf(s.Err, " · "+format+"\n", args...) }, Command: command(o, x),
	})
	if err != nil {
		r.Verdict, r.Reason = report.Unknown, errors.Join(err, reason(r)).Error()
		r.Scenario, r.Number, r.Seed, r.Command = x.Name, x.Number, o.Seed, command(o, x)
	}
	return r, dir
}

// command that has the run again.
func command(o Options, x scenarios.Scenario) string {
	line := fmt.Sprintf("sluice jepsen run %s --seed %d", x.Name, o.Seed)
	if o.Duration > 0 {
		line += fmt.Sprintf(" --duration %v", o.Duration)
	}
	if o.Workers > 0 {
		line += fmt.Sprintf(" --workers %d", o.Workers)
	}
	if o.Coordinators > 0 {
		line += fmt.Sprintf(" --coordinators %d", o.Coordinators)
	}
	return line
}

// Print what came of a run.
func Print(w io.Writer, title string, r report.Results, dir string, took time.Duration) {
	faults := 0
	for _, n := range r.Took {
		faults += n
	}
	var passed []string
	for _, i := range r.Invariants {
		if i.Verdict == validate.Pass {
			passed = append(passed, i.ID)
		}
	}
	line := fmt.Sprintf("%-8s %s", cmp.Or(r.Verdict, report.Unknown), title)
	if r.Verdict != report.Skipped {
		line += fmt.Sprintf(": %.0f s, %d faults, %d calls, %d records, seed %d; holds: %s", took.Seconds(), faults, r.Calls, r.Records, r.Seed, strings.Join(passed, " "))
	}
	_, _ = fmt.Fprintln(w, line) // nobody is listening if this fails
	for _, x := range r.Recoveries {
		if x.Felt > 0 {
			_, _ = fmt.Fprintf(w, "         %s: felt %d of %d times, median %.1f s, p99 %.1f s\n", x.Fault, x.Felt, x.Count, x.Median, x.P99)
		}
	}
	if r.Reason != "" {
		_, _ = fmt.Fprintf(w, "         %s\n", r.Reason)
	}
	if r.Verdict == report.Invalid || r.Verdict == report.Unknown {
		_, _ = fmt.Fprintf(w, "         %s\n         again: %s\n", filepath.Join(dir, "report.html"), r.Command)
	}
}

// Replay judges the history below a directory again.
func Replay(s *ops.Session, dir string) error {
	r, err := scenarios.Replay(dir, nil)
	if err != nil {
		return &ops.Fault{Exit: ops.Exit(report.Unknown.Exit()), Err: err}
	}
	if s.Format == ops.JSON {
		err = printJSON(s.Out, r)
	} else {
		Print(s.Out, r.Scenario, r, dir, time.Duration(r.Seconds*float64(time.Second)))
	}
	return errors.Join(err, verdict(r.Verdict, []report.Results{r}))
}

// verdict as an exit code.
func verdict(worst report.Verdict, all []report.Results) error {
	code := worst.Exit()
	if code == 0 {
		return nil
	}
	var names []string
	for _, r := range all {
		if r.Verdict == worst {
			names = append(names, r.Scenario)
		}
	}
	return &ops.Fault{Exit: ops.Exit(code), Err: fmt.Errorf("%s: %s", worst, strings.Join(names, ", "))}
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
