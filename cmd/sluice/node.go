package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluiceio/sluice/cmd/sluice/internal/cluster"
	"github.com/sluiceio/sluice/cmd/sluice/internal/ops"
)

// nodeFlags are common to coordinators and workers.
type nodeFlags struct {
	config  string
	logging cluster.Logging
}

func (f *nodeFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.config, "config", "", "file with a line NAME = VALUE per flag; # begins a comment")
	flags.StringVar(&f.logging.Level, "log-level", "info", "trace, debug, info, warn or error")
	flags.StringVar(&f.logging.Form, "log-format", "text", "text or json")
}

func (a *app) node(f *nodeFlags) cluster.Node {
	return cluster.Node{Out: a.out, Err: a.err, Logging: f.logging, Format: ops.Format(a.flags.output)}
}

func (a *app) coordinatorVerb() *cobra.Command {
	cfg := cluster.DefaultCoordinator()
	cfg.Version = cluster.Version()
	var common nodeFlags
	c := &cobra.Command{Use: "coordinator", Short: "Run a coordinator", Args: cobra.NoArgs}
	f := c.Flags()
	common.register(f)
	f.StringVar(&cfg.DataDir, "data-dir", "", "identity, Raft log, snapshots and job binaries")
	f.StringVar(&cfg.Listen, "listen", cfg.Listen, "API address; port 0 draws one and keeps it")
	f.StringVar(&cfg.RaftListen, "raft-listen", cfg.RaftListen, "address of the Raft transport")
	f.StringVar(&cfg.HTTPListen, "http-listen", cfg.HTTPListen, "address of /metrics, /healthz and /readyz; empty: none")
	f.StringVar(&cfg.Advertise, "advertise", "", "API address that others dial (default: --listen)")
	f.StringVar(&cfg.RaftAdvertise, "raft-advertise", "", "Raft address that others dial (default: --raft-listen)")
	f.IntVar(&cfg.BootstrapExpect, "bootstrap-expect", 0, "form a new cluster once that many coordinators see each other; 0: only join one")
	f.StringSliceVar(&cfg.Join, "join", nil, "API addresses of the other coordinators")
	f.DurationVar(&cfg.HeartbeatTimeout, "heartbeat-timeout", cfg.HeartbeatTimeout, "Raft; not below ten times the disk's fsync")
	f.DurationVar(&cfg.ElectionTimeout, "election-timeout", cfg.ElectionTimeout, "Raft; not below the heartbeat timeout")
	f.DurationVar(&cfg.LeaseTimeout, "lease-timeout", cfg.LeaseTimeout, "a leader without a majority for that long steps down")
	f.DurationVar(&cfg.WorkerHeartbeat, "worker-heartbeat", cfg.WorkerHeartbeat, "how often workers report")
	f.DurationVar(&cfg.WorkerLostAfter, "worker-lost-after", cfg.WorkerLostAfter, "silence after which a worker is lost")
	c.RunE = a.daemon(&common, func(ctx context.Context) error {
		cfg.Policy.Insecure = a.flags.insecure
		return cluster.RunCoordinator(ctx, a.node(&common), cfg)
	})
	return c
}

func (a *app) workerVerb() *cobra.Command {
	cfg := cluster.DefaultWorker()
	cfg.Version = cluster.Version()
	var common nodeFlags
	c := &cobra.Command{Use: "worker", Short: "Run a worker", Args: cobra.NoArgs}
	f := c.Flags()
	common.register(f)
	f.StringVar(&cfg.DataDir, "data-dir", "", "identity, cached binaries and task processes")
	f.StringVar(&cfg.Listen, "listen", cfg.Listen, "control address; port 0 draws one")
	f.StringVar(&cfg.DataListen, "data-listen", cfg.DataListen, "the one port for records of all task processes")
	f.StringVar(&cfg.HTTPListen, "http-listen", cfg.HTTPListen, "address of /metrics, /healthz and /readyz; empty: none")
	f.StringVar(&cfg.Advertise, "advertise", "", "control address that others dial (default: --listen)")
	f.StringVar(&cfg.DataAdvertise, "data-advertise", "", "data address that others dial (default: --data-listen)")
	f.StringSliceVar(&cfg.Join, "join", nil, "API addresses of coordinators, any of them")
	f.IntVar(&cfg.Slots, "slots", cfg.Slots, "subtasks of one chain that may run here at a time")
	f.Var((*bytesValue)(&cfg.Memory), "memory", "memory for the task processes, shared by the slots, for example 8GiB")
	f.StringVar(&cfg.SnapshotStore, "snapshot-store", cfg.SnapshotStore, "where snapshots go: peer (copies on workers), or file:DIR, a directory that all nodes reach")
	f.StringVar(&cfg.Zone, "zone", "", "failure domain, for spreading copies")
	f.DurationVar(&cfg.Scrub, "scrub", cfg.Scrub, "how often each object of a checkpoint on this worker is read and compared with its digest; 0: never")
	settings := f.StringArray("set", nil, "setting of the engine for jobs that do not say it, name=value; may be repeated")
	c.RunE = a.daemon(&common, func(ctx context.Context) (err error) {
		if cfg.Settings, err = pairs("--set", *settings); err != nil {
			return err
		}
		cfg.Policy.Insecure = a.flags.insecure
		return cluster.RunWorker(ctx, a.node(&common), cfg)
	})
	return c
}

// daemon makes a verb that runs until it is told to stop.
func (a *app) daemon(common *nodeFlags, f func(ctx context.Context) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		if common.config != "" {
			if err := fromFile(cmd.Flags(), common.config); err != nil {
				return err
			}
		}
		a.began = true
		return f(cmd.Context())
	}
}

// fromFile fills flags that were given neither on the command line nor in the environment.
func fromFile(flags *pflag.FlagSet, path string) (err error) {
	file, err := os.Open(path)
	if err != nil {
		return ops.Usagef("--config FILE", "%w", err)
	}
	defer file.Close() // only read
	given := map[string]bool{}
	flags.Visit(func(f *pflag.Flag) { given[f.Name] = true })
	var errs []error
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		if err := setLine(flags, given, line); err != nil {
			errs = append(errs, fmt.Errorf("line %d: %w", n, err))
		}
	}
	if err := errors.Join(append(errs, lines.Err())...); err != nil {
		return ops.Usagef("NAME = VALUE, with the names of the flags", "%s: %w", path, err)
	}
	return nil
}

// setLine sets a flag unless it was given elsewhere. A flag that may be repeated may have several lines.
func setLine(flags *pflag.FlagSet, given map[string]bool, line string) error {
	name, value, ok := strings.Cut(line, "=")
	if !ok {
		return fmt.Errorf("%q has no =", line)
	}
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	f := flags.Lookup(name)
	if f == nil || name == "config" || name == "help" {
		return fmt.Errorf("unknown name %q", name)
	}
	if given[name] {
		return nil
	}
	return flags.Set(name, value)
}

func (a *app) devVerb() *cobra.Command {
	var detach bool
	memory := bytesValue(1 << 30)
	o := cluster.DevOptions{}
	var logging nodeFlags
	c := &cobra.Command{
		Use: "dev", Short: "Run a cluster on this machine, for development", Args: cobra.NoArgs,
		Long: "Run coordinators and workers on loopback, one process each. Their layout stands in DATA_DIR/cluster.json.\n" +
			"In the foreground ctrl-C ends it; with --detach it goes on until sluice dev stop.",
	}
	f := c.Flags()
	f.IntVar(&o.Coordinators, "coordinators", 1, "1, 3 or 5")
	f.IntVar(&o.Workers, "workers", 1, "number of workers")
	f.IntVar(&o.Slots, "slots", 4, "slots of each worker")
	f.Var(&memory, "memory", "memory of each worker")
	f.StringVar(&o.DataDir, "data-dir", "", "keep everything here (default: a temporary directory, removed at the end)")
	f.BoolVar(&detach, "detach", false, "leave it running")
	f.StringVar((*string)(&o.Ports), "ports", string(cluster.UsualPorts), "usual, from 7420 on, as long as they are free; or free: drawn, for a cluster beside others")
	f.StringVar(&logging.logging.Level, "log-level", "info", "of the nodes: trace, debug, info, warn or error")
	logging.logging.Form = "text"
	c.RunE = a.local(func(ctx context.Context, _ *ops.Session, _ []string) error {
		o.Memory, o.LogLevel = int64(memory), logging.logging.Level
		if detach {
			return cluster.DevDetached(ctx, a.node(&logging), o)
		}
		return cluster.Dev(ctx, a.node(&logging), o)
	})
	c.AddCommand(a.devStopVerb())
	return c
}

func (a *app) devStopVerb() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use: "stop", Short: "Stop a cluster that sluice dev has started", Args: cobra.NoArgs,
		RunE: a.local(func(ctx context.Context, _ *ops.Session, _ []string) error {
			return cluster.DevStop(ctx, a.node(&nodeFlags{}), dir)
		}),
	}
	c.Flags().StringVar(&dir, "data-dir", "", "its data directory (default: the detached one without)")
	return c
}
