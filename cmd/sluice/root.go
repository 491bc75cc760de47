package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	"github.com/sluiceio/sluice/internal/wire"

	"github.com/sluiceio/sluice/cmd/sluice/internal/ops"
)

// app is one run of the command line.
type app struct {
	out, err io.Writer
	terminal ops.Terminal
	getenv   func(string) (string, bool)
	dial     func(wire.Policy) func(addr string) (*grpc.ClientConn, error)
	now      func() time.Time

	flags struct {
		addr     []string
		context  string
		timeout  time.Duration
		output   string
		insecure bool
	}
	began bool // a verb was found and its arguments were right; errors before that are the user's
}

// defaultAddrs are where sluice dev puts its coordinators.
var defaultAddrs = []string{"127.0.0.1:7420", "127.0.0.1:7422", "127.0.0.1:7424"}

// execute runs the command line and returns the exit code.
func (a *app) execute(ctx context.Context, args []string) ops.Exit {
	root := a.root()
	root.SetArgs(args)
	root.SetOut(a.out)
	root.SetErr(a.err)
	err := root.ExecuteContext(ctx)
	if err != nil && !a.began {
		var f *ops.Fault
		if !errors.As(err, &f) {
			err = wrongLine(err)
		}
	}
	format, bad := ops.ParseFormat(a.flags.output)
	if bad != nil && err == nil {
		err = bad
	}
	return ops.ReportError(a.err, format, err)
}

// wrongLine is the error of a command line that was not understood. Suggestions are hints.
func wrongLine(err error) error {
	const general = "sluice --help, or --help after a verb"
	text, suggested, found := strings.Cut(err.Error(), "\n\nDid you mean this?\n")
	if !found {
		return ops.Usagef(general, "%w", err)
	}
	hint := "did you mean " + strings.Join(strings.Fields(suggested), " or ") + "?"
	return &ops.Fault{Exit: ops.ExitUsage, Code: ops.CodeUsage, Err: errors.New(text), Hints: []string{hint, general}}
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "sluice",
		Short:         "One engine for bounded and unbounded data: coordinator, worker and command line",
		SilenceErrors: true, SilenceUsage: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.fromEnvironment(cmd.Flags()) },
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f := root.PersistentFlags()
	f.StringSliceVar(&a.flags.addr, "addr", nil, "API addresses of coordinators, any of them (default: the context's, or those of sluice dev)")
	f.StringVar(&a.flags.context, "context", "", "named cluster to work with (default: the current one)")
	f.DurationVar(&a.flags.timeout, "timeout", 0, "how long the command may take, for example 30s (default: depends on the verb)")
	f.StringVarP(&a.flags.output, "output", "o", string(ops.Table), "form of the answer: table or json")
	f.BoolVar(&a.flags.insecure, "insecure", false, "allow connections beyond loopback, without encryption")
	root.AddCommand(
		a.devVerb(), a.coordinatorVerb(), a.workerVerb(),
		a.submitVerb(), a.planVerb(), a.listVerb(), a.statusVerb(), a.watermarksVerb(), a.waitVerb(), a.cancelVerb(), a.eventsVerb(), a.logsVerb(),
		a.stopVerb(), a.rescaleVerb(), a.savepointVerb(), a.checkpointsVerb(), a.snapshotVerb(),
		a.workersVerb(), a.peersVerb(), a.raftVerb(),
		a.newVerb(), a.jobVerb(), a.digestVerb(), a.benchVerb(), a.jepsenVerb(), a.contextVerb(), a.versionVerb(),
	)
	root.SetHelpCommand(helpVerb())
	return root
}

// helpVerb shows the help of a verb; what is none is an error.
func helpVerb() *cobra.Command {
	return &cobra.Command{
		Use: "help [VERB]", Short: "Help about any verb",
		RunE: func(cmd *cobra.Command, args []string) error {
			found, _, err := cmd.Root().Find(args)
			if err != nil {
				return err
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}

// fromEnvironment fills flags that were not given from SLUICE_NAME.
func (a *app) fromEnvironment(flags *pflag.FlagSet) error {
	var errs []error
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed || f.Name == "help" {
			return
		}
		name := "SLUICE_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value, ok := a.getenv(name)
		if !ok || value == "" {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			errs = append(errs, fmt.Errorf("%s=%q: %w", name, value, err))
		}
	})
	if len(errs) > 0 {
		return ops.Usagef("unset the variable, or see --help", "environment: %w", errors.Join(errs...))
	}
	return nil
}

// verb is what runs once flags and arguments are known to be right.
type verb func(ctx context.Context, s *ops.Session, args []string) error

// local makes a verb that needs no cluster.
func (a *app) local(f verb) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s, err := a.session()
		if err != nil {
			return err
		}
		a.began = true
		return f(cmd.Context(), s, args)
	}
}

// client makes a verb that asks a cluster. limit is how long it may take unless --timeout says otherwise; 0: for ever.
func (a *app) client(limit time.Duration, f verb) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) (err error) {
		s, err := a.session()
		if err != nil {
			return err
		}
		if s.Client, err = a.connect(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Client.Close()) }()
		s.Client.Waiting = func(said string) { _, _ = fmt.Fprintf(a.err, " · no answer yet, still trying (%s)\n", said) } // nobody is listening if this fails
		a.began = true
		ctx, cancel := a.limited(cmd.Context(), limit)
		defer cancel()
		return f(ctx, s, args)
	}
}

func (a *app) limited(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if a.flags.timeout > 0 {
		limit = a.flags.timeout
	}
	if limit <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, limit)
}

func (a *app) session() (*ops.Session, error) {
	format, err := ops.ParseFormat(a.flags.output)
	if err != nil {
		return nil, err
	}
	if a.flags.timeout < 0 {
		return nil, ops.Usagef("--timeout 30s", "the timeout is negative")
	}
	return &ops.Session{Out: a.out, Err: a.err, Format: format, Terminal: a.terminal, Now: a.now}, nil
}

func (a *app) connect() (*ops.Client, error) {
	addrs, policy := a.flags.addr, wire.Policy{Insecure: a.flags.insecure}
	if len(addrs) == 0 {
		contexts, err := a.contexts()
		if err != nil {
			return nil, err
		}
		chosen, err := contexts.Get(a.flags.context)
		if err != nil {
			return nil, err
		}
		addrs = defaultAddrs
		if chosen != nil {
			addrs, policy.Insecure = chosen.Addrs, policy.Insecure || chosen.Insecure
		}
	}
	for _, addr := range addrs {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, ops.Usagef("--addr HOST:PORT,…", "coordinator address %q: %w", addr, err)
		}
		if !policy.Insecure && !wire.IsLoopback(host) {
			return nil, ops.Usagef("--insecure, in a private network only: this release has no TLS", "coordinator address %q is not loopback", addr)
		}
	}
	return ops.NewClient(addrs, a.dial(policy))
}

func (a *app) contexts() (*ops.Contexts, error) {
	path, err := ops.ContextsPath()
	if err != nil {
		return nil, err
	}
	return ops.LoadContexts(path)
}

// pairs reads k=v arguments.
func pairs(flag string, list []string) (map[string]string, error) {
	m := map[string]string{}
	for _, item := range list {
		k, v, ok := strings.Cut(item, "=")
		if !ok || k == "" {
			return nil, ops.Usagef(fmt.Sprintf("%s name=value", flag), "%s %q has no name or no value", flag, item)
		}
		if _, twice := m[k]; twice {
			return nil, ops.Usagef("give it once", "%s %s is given twice", flag, k)
		}
		m[k] = v
	}
	return m, nil
}

// exactly is cobra.ExactArgs with a message that names what is missing, or too much.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		if len(args) < len(names) {
			return ops.Usagef(cmd.UseLine(), "%s: no %s is given", cmd.CommandPath(), names[len(args)])
		}
		return ops.Usagef(cmd.UseLine(), "%s: unexpected argument %q", cmd.CommandPath(), args[len(names)])
	}
}

// atMost takes the named argument, or none.
func atMost(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return exactly(name)(cmd, args)
	}
}

// group is a verb that only has others below it.
func group(use, short string, verbs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	c.AddCommand(verbs...)
	return c
}
