package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/sluiceio/sluice/cmd/sluice/internal/bench"
	"github.com/sluiceio/sluice/cmd/sluice/internal/ops"
)

func (a *app) benchVerb() *cobra.Command {
	o := bench.Options{}
	var form, earlier string
	c := &cobra.Command{
		Use: "bench CASE…", Short: "Measure the engine against plain loops that do the same",
		Long: "Cases: " + bench.Kinds + ".\n\n" +
			"Each run is a process of its own, in turns with the plain loop that answers the same query; ratios are taken pair by pair,\n" +
			"figures are medians. A case with an independent digest is checked in an untimed run first, and every timed run has to give\n" +
			"the same rows as the loop; if one does not, no figure is printed. Jobs run in mode streaming unless --set mode=… says\n" +
			"otherwise. With --rate the input is an open loop, and the latency of rows is measured from the time at which they were due.",
		Example: "  sluice bench nexmark q0 q5 --repeat 7\n  sluice bench keyed 10000 1000000 zipf\n  sluice bench nexmark q0 --rate 100000 -o json",
		Args:    cobra.MinimumNArgs(1),
		RunE: a.local(func(ctx context.Context, s *ops.Session, args []string) error {
			cases, err := bench.Parse(args)
			if err == nil {
				err = o.Validate()
			}
			if err != nil {
				return ops.Usagef("sluice bench --help", "%w", err)
			}
			write, ok := map[string]func(io.Writer, []*bench.Report) error{"table": bench.WriteTable, "json": bench.WriteJSON, "csv": bench.WriteCSV}[form]
			if !ok {
				return ops.Usagef("table, json or csv", "unknown form %q", form)
			}
			if err := o.FindLoad(); err != nil {
				return err
			}
			o.Progress = func(text string) { fmt.Fprintln(s.Err, text) }
			reports, err := measure(ctx, &o, cases, earlier)
			if err != nil {
				return err
			}
			return write(s.Out, reports)
		}),
	}
	f := c.Flags()
	f.Int64Var(&o.Events, "events", 2_000_000, "events of all kinds per run")
	f.Uint64Var(&o.Seed, "seed", 42, "of the generator")
	f.Int64Var(&o.UsPerEvent, "us-per-event", 100, "event time between two events, in microseconds")
	f.IntVar(&o.Rate, "rate", 0, "events per second, an open loop; 0: full speed")
	f.IntVar(&o.Parallelism, "parallelism", 1, "subtasks of every operator")
	f.IntVar(&o.Procs, "procs", 0, "GOMAXPROCS of both sides; 0: the parallelism")
	f.BoolVar(&o.Full, "full", false, "events with all their strings")
	f.IntVar(&o.Repeat, "repeat", 7, "runs of each case")
	f.StringArrayVar(&o.Settings, "set", nil, "a setting of the job, name=value")
	f.StringVar(&o.Load, "load", "", "binary with the cases (default: bench-load beside this one)")
	f.StringVar(&earlier, "compare", "", "FILE of an earlier -o json to compare with")
	f.StringVarP(&form, "output", "o", "table", "form of the answer: table, json or csv")
	return c
}

func measure(ctx context.Context, o *bench.Options, cases []bench.Case, earlier string) (reports []*bench.Report, err error) {
	for _, c := range cases {
		r, err := o.Measure(ctx, c)
		if err != nil {
			return nil, err
		}
		reports = append(reports, r)
	}
	if earlier == "" {
		return reports, nil
	}
	f, err := os.Open(earlier)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return reports, bench.Compare(reports, f)
}
