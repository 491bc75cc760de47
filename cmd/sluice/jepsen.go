package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/sluiceio/sluice/cmd/sluice/internal/ops"
	"github.com/sluiceio/sluice/cmd/sluice/internal/suite"
)

func (a *app) jepsenVerb() *cobra.Command {
	list := &cobra.Command{
		Use: "list", Short: "Scenarios, what each must show, and why some are skipped here", Args: exactly(),
		RunE: a.local(func(_ context.Context, s *ops.Session, _ []string) error { return suite.List(s) }),
	}
	var o suite.Options
	run := &cobra.Command{
		Use: "run SCENARIO…", Short: "Torment clusters of this binary, and judge what they did",
		Long: "Scenarios are named or numbered as by `sluice jepsen list`; gate stands for those of continuous integration, all for\n" +
			"every one. Each starts a cluster of its own on this machine and leaves history.jsonl, results.json and report.html.\n" +
			"Exit 0: valid. 1: an invariant is broken. 2: a verdict is open, or the harness failed.",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exactly("SCENARIO")(c, args)
			}
			return nil
		},
		RunE: a.local(func(ctx context.Context, s *ops.Session, args []string) error { return suite.Run(ctx, s, o, args) }),
	}
	f := run.Flags()
	f.Uint64Var(&o.Seed, "seed", 1, "of schedule and workload")
	f.DurationVar(&o.Duration, "duration", 0, "how long there are faults (default: the scenario's own)")
	f.IntVar(&o.Workers, "workers", 0, "number of workers (default 3)")
	f.IntVar(&o.Coordinators, "coordinators", 0, "number of coordinators: 1, 3 or 5 (default: the scenario's own)")
	f.IntVar(&o.Parallel, "parallel", 1, "scenarios at a time")
	f.StringVar(&o.Report, "report", "", "directory of the reports (default: a new one for temporary files)")
	f.StringVar(&o.Binary, "binary", "", "the sluice binary to torment (default: this one)")
	replay := &cobra.Command{
		Use: "replay DIR", Short: "Judge the history of a run again, and write its report anew", Args: exactly("DIR"),
		RunE: a.local(func(_ context.Context, s *ops.Session, args []string) error { return suite.Replay(s, args[0]) }),
	}
	return group("jepsen", "Fault injection: does this cluster lose or double anything?", list, run, replay)
}
