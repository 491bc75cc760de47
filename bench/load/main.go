package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/pprof"
	"strconv"
	"strings"

	"github.com/sluiceio/sluice/bench/cost"
	"github.com/sluiceio/sluice/connector/discard"
	"github.com/sluiceio/sluice/connector/nexmark"
	"github.com/sluiceio/sluice/examples/nexmark/query"
	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/flow/launch"
	"github.com/sluiceio/sluice/flow/setting"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// options of a run.
type options struct {
	query       string
	events      int64
	seed        uint64
	usPerEvent  int64
	rate        int
	parallelism int
	full        bool
	canonical   bool
	check       bool
	keys        int64
	zipf        bool
	profile     string
	sets        sets
}

// sets are settings of the job.
type sets map[string]string

func (s sets) add(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok {
		return fmt.Errorf("%q is not name=value", text)
	}
	s[name] = value
	return nil
}

func main() {
	if len(os.Args) < 2 || os.Args[1] != "run" && os.Args[1] != "cost" {
		flow.Main("load", query.Build)
	}
	if err := command(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func command(verb string, args []string) (err error) {
	o := options{sets: sets{setting.Mode: "streaming"}}
	f := flag.NewFlagSet("load "+verb, flag.ExitOnError)
	f.StringVar(&o.query, "query", "", "`name` of a query")
	f.Int64Var(&o.events, "events", 1_000_000, "events of all kinds, or records")
	f.Uint64Var(&o.seed, "seed", 42, "of the generator")
	f.Int64Var(&o.usPerEvent, "usPerEvent", 100, "event time between two events")
	f.IntVar(&o.rate, "rate", 0, "events per second; 0: full speed")
	f.IntVar(&o.parallelism, "parallelism", 1, "subtasks of every operator")
	f.BoolVar(&o.full, "full", false, "events with all their strings")
	f.BoolVar(&o.canonical, "canonical", false, "the canonical digest instead of a timed run")
	f.BoolVar(&o.check, "check", false, "compare the canonical digest of 100,000 events with the one that other programs have computed")
	f.Int64Var(&o.keys, "keys", 0, "count and sum over so many keys, instead of a query")
	f.BoolVar(&o.zipf, "zipf", false, "keys by Zipf's law instead of alike")
	f.StringVar(&o.profile, "cpuprofile", "", "write a CPU profile to `FILE`")
	f.Func("set", "a setting of the job, `name=value`", func(s string) error { return o.sets.add(s) })
	if err := f.Parse(args); err != nil {
		return err
	}
	if o.profile != "" {
		out, err := os.Create(o.profile)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, out.Close()) }()
		if err := pprof.StartCPUProfile(out); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	return o.run(verb)
}

func (o *options) run(verb string) error {
	if o.check {
		return o.judge(verb)
	}
	if verb == "cost" {
		return o.cost()
	}
	if o.canonical {
		return o.rows()
	}
	var total discard.Total
	lean := &query.Lean{Total: &total, Full: o.full}
	var l *lateness
	if o.rate > 0 {
		l = newLateness(o)
		lean.Seen, lean.Started = l.seen, l.started
	}
	r, err := o.embed(&total, func(p *flow.Pipeline) error {
		if o.keys > 0 {
			return o.keyed(p, &total)
		}
		return query.BuildLean(p, o.config(""), lean)
	})
	if err != nil {
		return err
	}
	r.Latency = l.result()
	return r.print()
}

func (o *options) config(out string) *query.Config {
	return &query.Config{Query: o.query, Events: o.events, Seed: o.seed, UsPerEvent: o.usPerEvent, Rate: o.rate, Out: out}
}

func (o *options) input() nexmark.Config {
	return nexmark.Config{Seed: o.seed, UsPerEvent: o.usPerEvent, Events: o.events}
}

// cost runs the plain loop.
func (o *options) cost() error {
	if o.canonical {
		c, err := cost.RunCanonical(o.query, o.input())
		if err != nil {
			return err
		}
		return Result{Events: o.events, Canonical: c.String(), Mode: "loop"}.print()
	}
	var a cost.Answer
	r, err := measure(func() (err error) {
		a, err = cost.Run(o.query, o.input(), !o.full)
		return err
	})
	if err != nil {
		return err
	}
	r.Events, r.Rows, r.Sum, r.Mode = o.events, a.Count, a.Fields, "loop"
	return r.print()
}

// embed runs a job in this process and adds up what it gives.
func (o *options) embed(total *discard.Total, build func(*flow.Pipeline) error) (r Result, err error) {
	o.sets[setting.Parallelism] = strconv.Itoa(o.parallelism)
	var job *jobpb.Job
	r, err = measure(func() error {
		p, err := flow.Build("load", &flow.NoConfig{}, func(p *flow.Pipeline, _ *flow.NoConfig) error { return build(p) })
		if err != nil {
			return err
		}
		prog, err := p.Program()
		if err != nil {
			return err
		}
		job, err = launch.Embed(context.Background(), prog, launch.Embedding{Name: "load", Slots: o.parallelism, Settings: o.sets})
		return err
	})
	if err != nil {
		return r, err
	}
	if job.Status != jobpb.JobStatus_JOB_FINISHED {
		return r, fmt.Errorf("%v %s: %s", job.Status, job.Failure.GetCode(), job.Failure.GetMessage())
	}
	r.Events, r.Mode = o.events, o.sets[setting.Mode]
	if total != nil {
		r.Rows, r.Sum = total.Rows.Load(), total.Sum.Load()
	}
	return r, nil
}
