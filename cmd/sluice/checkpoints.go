package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/sluiceio/sluice/cmd/sluice/internal/archive"
	"github.com/sluiceio/sluice/cmd/sluice/internal/ops"
	"github.com/sluiceio/sluice/proto/jobpb"
)

func (a *app) checkpointsVerb() *cobra.Command {
	var o ops.CheckpointsOptions
	c := &cobra.Command{
		Use: "checkpoints JOB", Short: "Show what a job may go on from, and how its checkpoints went", Args: exactly("JOB"), ValidArgsFunction: a.completeJobs,
		RunE: a.client(quick, func(ctx context.Context, s *ops.Session, args []string) error {
			o.Job = args[0]
			return ops.Checkpoints(ctx, s, o)
		}),
	}
	staleFlag(c.Flags(), &o.Freshness)
	return c
}

func (a *app) stopVerb() *cobra.Command {
	o := ops.SavepointOptions{Kind: jobpb.CheckpointKind_CHECKPOINT_STOP}
	var drain bool
	c := &cobra.Command{
		Use: "stop JOB", Short: "End a job with a savepoint, from which it can go on", Args: exactly("JOB"), ValidArgsFunction: a.completeJobs,
		RunE: a.client(ever, func(ctx context.Context, s *ops.Session, args []string) error {
			if drain {
				o.Kind = jobpb.CheckpointKind_CHECKPOINT_DRAIN
			}
			return a.savepoint(ctx, s, o, args[0])
		}),
	}
	c.Flags().BoolVar(&drain, "drain", false, "end event time first: windows and timers fire; the job cannot go on from there")
	c.Flags().StringVar(&o.RequestID, "request-id", "", "recognises this request (default: random)")
	return c
}

func (a *app) rescaleVerb() *cobra.Command {
	o := ops.RescaleOptions{}
	c := &cobra.Command{
		Use: "rescale JOB N", Short: "Let a job go on at another parallelism", Args: exactly("JOB", "N"), ValidArgsFunction: a.completeJobs,
		Long: "Take a checkpoint of a running job and let it go on from there with N subtasks of each operator for which the program says no number.\n" +
			"If nothing comes of it, the job goes on as it was.",
		RunE: a.client(ever, func(ctx context.Context, s *ops.Session, args []string) error {
			n, err := strconv.ParseInt(args[1], 10, 32)
			if err != nil || n < 1 {
				return ops.Usagef("sluice rescale JOB 4", "%q is no parallelism: a number above zero", args[1])
			}
			if o.Job, o.Parallelism = args[0], int32(n); o.RequestID == "" {
				o.RequestID = ops.NewRequestID()
			}
			return ops.Rescale(ctx, s, o)
		}),
	}
	c.Flags().StringVar(&o.RequestID, "request-id", "", "recognises this request (default: random)")
	return c
}

func (a *app) savepointVerb() *cobra.Command {
	c := &cobra.Command{Use: "savepoint", Short: "Take, list, export and delete savepoints"}
	c.AddCommand(a.savepointCreateVerb(), a.savepointListVerb(), a.savepointDescribeVerb(), a.savepointDeleteVerb(), a.savepointExportVerb())
	return c
}

func (a *app) savepointCreateVerb() *cobra.Command {
	o := ops.SavepointOptions{Kind: jobpb.CheckpointKind_CHECKPOINT_SAVEPOINT}
	c := &cobra.Command{
		Use: "create JOB", Short: "Take a savepoint of a running job", Args: exactly("JOB"), ValidArgsFunction: a.completeJobs,
		RunE: a.client(ever, func(ctx context.Context, s *ops.Session, args []string) error { return a.savepoint(ctx, s, o, args[0]) }),
	}
	c.Flags().StringVar(&o.RequestID, "request-id", "", "recognises this request (default: random)")
	return c
}

// savepoint takes one, under a request id that the user can name again.
func (a *app) savepoint(ctx context.Context, s *ops.Session, o ops.SavepointOptions, job string) error {
	o.Job = job
	if o.RequestID == "" {
		o.RequestID = ops.NewRequestID()
	}
	return ops.Savepoint(ctx, s, o)
}

func (a *app) savepointListVerb() *cobra.Command {
	o := ops.CheckpointsOptions{Savepoints: true}
	c := &cobra.Command{
		Use: "list JOB", Short: "List the savepoints of a job", Args: exactly("JOB"), ValidArgsFunction: a.completeJobs,
		RunE: a.client(quick, func(ctx context.Context, s *ops.Session, args []string) error {
			o.Job = args[0]
			return ops.Checkpoints(ctx, s, o)
		}),
	}
	staleFlag(c.Flags(), &o.Freshness)
	return c
}

func (a *app) savepointDescribeVerb() *cobra.Command {
	return &cobra.Command{
		Use: "describe JOB:ID", Short: "Show one savepoint, or another checkpoint that is kept", Args: exactly("JOB:ID"),
		RunE: a.client(quick, func(ctx context.Context, s *ops.Session, args []string) error {
			job, id, err := ops.SavepointOf(args)
			if err != nil {
				return err
			}
			return ops.DescribeSavepoint(ctx, s, job, id)
		}),
	}
}

func (a *app) savepointDeleteVerb() *cobra.Command {
	return &cobra.Command{
		Use: "delete JOB:ID", Short: "Give a savepoint up", Args: exactly("JOB:ID"),
		RunE: a.client(quick, func(ctx context.Context, s *ops.Session, args []string) error {
			job, id, err := ops.SavepointOf(args)
			if err != nil {
				return err
			}
			return ops.DeleteSavepoint(ctx, s, job, id)
		}),
	}
}

func (a *app) savepointExportVerb() *cobra.Command {
	return &cobra.Command{
		Use: "export JOB ID DIR", Short: "Write a savepoint, or another checkpoint that is kept, into a directory of its own", Args: exactly("JOB", "ID", "DIR"),
		Long: "DIR is made, and holds everything that the savepoint consists of, under relative names: it can be moved and copied.\n" +
			"It appears when it is complete. sluice snapshot verify DIR reads all of it.",
		RunE: a.client(ever, func(ctx context.Context, s *ops.Session, args []string) error {
			job, id, err := ops.SavepointOf(args[:2])
			if err != nil {
				return err
			}
			return archive.Export(ctx, s, job, id, args[2])
		}),
	}
}

func (a *app) snapshotVerb() *cobra.Command {
	var o archive.VerifyOptions
	verify := &cobra.Command{
		Use: "verify DIR…", Short: "Read all snapshots below directories that nobody uses, and say what is damaged or missing", Args: cobra.ArbitraryArgs,
		Long: "DIR is the data directory of a worker, a directory that was given to --snapshot-store file:DIR, or one that was exported.\n" +
			"Several are looked at as one: of each object one sound copy has to be in one of them. No cluster is asked. Exit code 1: something\n" +
			"is damaged, or a checkpoint is not whole. Objects that an older checkpoint lacks are no damage, because the cluster deletes\n" +
			"what it does not need any more; --strict says they are.",
		RunE: a.local(func(ctx context.Context, s *ops.Session, args []string) error {
			o.Dirs = args
			return archive.Verify(ctx, s, o)
		}),
	}
	verify.Flags().BoolVar(&o.Strict, "strict", false, "older checkpoints have to be whole, too")
	return group("snapshot", "Look at snapshots on disk", verify)
}
