package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"

	"github.com/sluiceio/sluice/cmd/sluice/internal/ops"
)

// How long verbs may take unless --timeout says otherwise. An election takes about a second.
const (
	quick  = 15 * time.Second
	moving = 10 * time.Minute // builds and uploads
	ever   = 0                // the user ends it, or the job
)

// specFlags are the flags of submit and plan.
type specFlags struct {
	name        string
	params      []string
	settings    []string
	parallelism int32
	from        string
	ignore      []string
}

func (f *specFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.name, "name", "", "name of the job (default: the program's)")
	flags.StringArrayVarP(&f.params, "param", "p", nil, "parameter of the job, name=value; may be repeated")
	flags.StringArrayVar(&f.settings, "set", nil, "setting of the engine, name=value; may be repeated")
	flags.Int32Var(&f.parallelism, "parallelism", 0, "subtasks of each operator (default: the job's own; -1: every slot)")
}

func (f *specFlags) options() (o ops.SpecOptions, err error) {
	o = ops.SpecOptions{Name: f.name, Parallelism: f.parallelism}
	if o.Params, err = pairs("-p", f.params); err != nil {
		return o, err
	}
	if o.Settings, err = pairs("--set", f.settings); err != nil {
		return o, err
	}
	o.From, err = ops.OriginOf(f.from, f.ignore)
	return o, err
}

func (a *app) submitVerb() *cobra.Command {
	var spec specFlags
	var wait, dry bool
	o := ops.SubmitOptions{}
	c := &cobra.Command{
		Use:   "submit BINARY|PACKAGE [-p name=value]…",
		Short: "Bring a program to the cluster and make a job of it",
		Long: "Submit a job's binary, or the directory of its main package, which is built for the cluster's platform.\n" +
			"A submit that breaks off may be repeated with the same --request-id: it stays one job.",
		Args: exactly("BINARY or PACKAGE"),
	}
	spec.register(c.Flags())
	c.Flags().StringVar(&spec.from, "from-savepoint", "", "checkpoint to begin with: JOB:ID, JOB for its newest, latest for the newest of a job with this name")
	c.Flags().StringArrayVar(&spec.ignore, "ignore-state", nil, "operator whose state in the savepoint may be left behind; may be repeated")
	c.Flags().StringVar(&o.RequestID, "request-id", "", "recognises this submit: the same id is the same job (default: random, printed)")
	c.Flags().BoolVar(&wait, "wait", false, "wait for the end of the job: exit 8 if it failed, 9 if it was cancelled")
	c.Flags().BoolVar(&dry, "dry-run", false, "build and plan only; there is no job")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		limit := time.Duration(moving)
		switch {
		case wait && dry:
			return ops.Usagef("one of them", "--wait and --dry-run exclude each other")
		case wait:
			o.Then, limit = ops.Await, ever
		case dry:
			o.Then = ops.DryRun
		}
		return a.client(limit, func(ctx context.Context, s *ops.Session, args []string) (err error) {
			o.Program = args[0]
			if o.Spec, err = spec.options(); err != nil {
				return err
			}
			return ops.Submit(ctx, s, o)
		})(cmd, args)
	}
	return c
}

func (a *app) planVerb() *cobra.Command {
	var spec specFlags
	c := &cobra.Command{
		Use:   "plan JOB|BINARY|PACKAGE [-p name=value]…",
		Short: "Show the plan of a job, or the one that a program would get",
		Args:  exactly("JOB, BINARY or PACKAGE"), ValidArgsFunction: a.completeJobs,
		RunE: a.client(moving, func(ctx context.Context, s *ops.Session, args []string) error {
			o, err := spec.options()
			if err != nil {
				return err
			}
			return ops.Plan(ctx, s, ops.PlanOptions{What: args[0], Spec: o})
		}),
	}
	spec.register(c.Flags())
	return c
}

// staleFlag is the flag of reads that can do without a leader.
func staleFlag(flags *pflag.FlagSet, f *ops.Freshness) {
	flags.VarPF((*freshness)(f), "stale", "", "accept an answer without a leader; it says how old it may be").NoOptDefVal = "true"
}

type freshness ops.Freshness

func (f *freshness) String() string {
	if *f == freshness(ops.Stale) {
		return "true"
	}
	return "false"
}

func (f *freshness) Set(s string) error {
	*f = freshness(ops.Fresh)
	if s == "true" || s == "1" {
		*f = freshness(ops.Stale)
	}
	return nil
}

func (f *freshness) Type() string { return "bool" }

// statusNames reads --status and --for: names of job statuses, as the tables show them.
func statusNames(names []string) (list []jobpb.JobStatus, err error) {
	for _, n := range names {
		v, ok := jobpb.JobStatus_value["JOB_"+strings.ToUpper(n)]
		if !ok || v == 0 {
			return nil, ops.Usagef("created, planning, waiting, running, finishing, finished, failing, failed, cancelling, cancelled, restarting",
				"there is no job status %q", n)
		}
		list = append(list, jobpb.JobStatus(v))
	}
	return list, nil
}

func (a *app) listVerb() *cobra.Command {
	var o ops.ListOptions
	var statuses []string
	c := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the jobs", Args: cobra.NoArgs,
		RunE: a.client(quick, func(ctx context.Context, s *ops.Session, _ []string) (err error) {
			if o.Status, err = statusNames(statuses); err != nil {
				return err
			}
			return ops.List(ctx, s, o)
		}),
	}
	staleFlag(c.Flags(), &o.Freshness)
	c.Flags().StringSliceVar(&statuses, "status", nil, "only jobs in these statuses")
	return c
}

func (a *app) statusVerb() *cobra.Command {
	var o ops.StatusOptions
	var watch, subtasks bool
	c := &cobra.Command{Use: "status JOB", Short: "Show one job", Args: exactly("JOB"), ValidArgsFunction: a.completeJobs}
	staleFlag(c.Flags(), &o.Freshness)
	c.Flags().BoolVarP(&watch, "watch", "w", false, "show it again and again, until it has ended")
	c.Flags().DurationVar(&o.Every, "every", time.Second, "how often --watch looks")
	c.Flags().BoolVar(&subtasks, "subtasks", false, "one line per subtask")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if o.Every <= 0 {
			return ops.Usagef("--every 1s", "--every must be positive")
		}
		if subtasks {
			o.Detail = ops.Subtasks
		}
		show, limit := ops.Status, time.Duration(quick)
		if watch {
			show, limit = ops.Watch, ever
		}
		return a.client(limit, func(ctx context.Context, s *ops.Session, args []string) error {
			o.Job = args[0]
			return show(ctx, s, o)
		})(cmd, args)
	}
	return c
}

func (a *app) watermarksVerb() *cobra.Command {
	var o ops.WatermarksOptions
	var subtasks bool
	c := &cobra.Command{
		Use: "watermarks JOB", Short: "Show where event time stands, and who holds it back", Args: exactly("JOB"), ValidArgsFunction: a.completeJobs,
		RunE: a.client(quick, func(ctx context.Context, s *ops.Session, args []string) error {
			if o.Job = args[0]; subtasks {
				o.Detail = ops.Subtasks
			}
			return ops.Watermarks(ctx, s, o)
		}),
	}
	c.Flags().BoolVar(&subtasks, "subtasks", false, "also one line per subtask, and the oldest splits of each")
	return c
}

func (a *app) waitVerb() *cobra.Command {
	var until []string
	c := &cobra.Command{
		Use: "wait JOB", Short: "Wait for the end of a job: exit 0 finished, 7 timeout, 8 failed, 9 cancelled",
		Args: exactly("JOB"), ValidArgsFunction: a.completeJobs,
		RunE: a.client(ever, func(ctx context.Context, s *ops.Session, args []string) error {
			statuses, err := statusNames(until)
			if err != nil {
				return err
			}
			return ops.Wait(ctx, s, ops.WaitOptions{Job: args[0], Until: statuses})
		}),
	}
	c.Flags().StringSliceVar(&until, "for", nil, "end also at one of these statuses, for example running")
	return c
}

func (a *app) cancelVerb() *cobra.Command {
	var o ops.CancelOptions
	c := &cobra.Command{
		Use: "cancel JOB", Short: "End a job; what it has not committed is not published", Args: exactly("JOB"), ValidArgsFunction: a.completeJobs,
		RunE: a.client(quick, func(ctx context.Context, s *ops.Session, args []string) error {
			o.Job = args[0]
			if o.RequestID == "" {
				o.RequestID = ops.NewRequestID()
			}
			return ops.Cancel(ctx, s, o)
		}),
	}
	c.Flags().StringVar(&o.RequestID, "request-id", "", "recognises this request (default: random)")
	c.Flags().BoolVar(&o.Wait, "wait", false, "wait until it has ended")
	return c
}

func (a *app) eventsVerb() *cobra.Command {
	var o ops.EventsOptions
	var follow bool
	c := &cobra.Command{Use: "events [JOB]", Short: "Show what happened in the cluster, or to one job", Args: atMost("JOB"), ValidArgsFunction: a.completeJobs}
	c.Flags().StringVar(&o.Job, "job", "", "only of this job, the same as JOB")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what happens from now on")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			if o.Job != "" && o.Job != args[0] {
				return ops.Usagef("name one job", "sluice events: both %s and --job %s", args[0], o.Job)
			}
			o.Job = args[0]
		}
		limit := time.Duration(quick)
		if follow {
			o.Follow, limit = ops.Forever, ever
		}
		return a.client(limit, func(ctx context.Context, s *ops.Session, _ []string) error { return ops.Events(ctx, s, o) })(cmd, args)
	}
	return c
}

func (a *app) logsVerb() *cobra.Command {
	var o ops.LogsOptions
	var follow bool
	c := &cobra.Command{Use: "logs JOB", Short: "Show what the task processes of a job wrote", Args: exactly("JOB"), ValidArgsFunction: a.completeJobs}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what they write from now on")
	c.Flags().Int64Var(&o.Tail, "tail", 0, "begin with the last bytes of each process (default: all that is kept)")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		limit := time.Duration(moving)
		if follow {
			o.Follow, limit = ops.Forever, ever
		}
		return a.client(limit, func(ctx context.Context, s *ops.Session, args []string) error {
			o.Job = args[0]
			return ops.Logs(ctx, s, o)
		})(cmd, args)
	}
	return c
}

// completionTime is how long the shell may wait for names.
const completionTime = 2 * time.Second

// completeJobs offers the ids of jobs to the shell.
func (a *app) completeJobs(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if err := a.fromEnvironment(cmd.Flags()); err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	client, err := a.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	defer client.Close() // nothing was written
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	var names []string
	err = client.Do(ctx, func(ctx context.Context, to ops.Coordinator) error {
		resp, err := to.Jobs.List(ctx, &apipb.ListRequest{Stale: true})
		for _, j := range resp.GetJobs() {
			names = append(names, j.Id)
		}
		return err
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return names, cobra.ShellCompDirectiveDefault
}
