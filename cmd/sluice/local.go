package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceio/sluice/proto/taskpb"

	"github.com/sluiceio/sluice/cmd/sluice/internal/cluster"
	"github.com/sluiceio/sluice/cmd/sluice/internal/job"
	"github.com/sluiceio/sluice/cmd/sluice/internal/ops"
)

func (a *app) digestVerb() *cobra.Command {
	return &cobra.Command{
		Use: "digest DIR", Short: "Print count, sum and xor of the committed rows below a directory", Args: exactly("DIR"),
		Long: "Every line of every file below DIR is a row, except in files and directories that are hidden (.name) or in\n" +
			"progress (name.tmp). A row's hash is FNV-1a 64 of its bytes without the line break. Printed are the number of\n" +
			"rows in decimal, the sum of the hashes modulo 2^64 and their exclusive or, both as 16 hexadecimal digits. Two\n" +
			"directories with the same digest hold the same rows, in whatever order and files.",
		RunE: a.local(func(_ context.Context, s *ops.Session, args []string) error { return ops.Digest(s, args[0]) }),
	}
}

func (a *app) newVerb() *cobra.Command {
	var o ops.NewJobOptions
	c := &cobra.Command{
		Use: "job NAME", Short: "Write a module with a small job and its test", Args: exactly("NAME"),
		RunE: a.local(func(_ context.Context, s *ops.Session, args []string) (err error) {
			o.Dir = args[0]
			if o.Checkout == "" {
				if o.Checkout, err = checkout(); err != nil {
					return err
				}
			}
			return ops.NewJob(s, o)
		}),
	}
	c.Flags().StringVar(&o.Checkout, "checkout", "", "directory of this project's source (default: found above the current directory or the binary)")
	return group("new", "Begin a module of your own", c)
}

// checkout looks for this project's source where people build it: above the current directory, or above bin/sluice.
func checkout() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	binary, err := os.Executable()
	if err != nil {
		return "", err
	}
	return ops.FindCheckout(dir, binary)
}

func (a *app) jobVerb() *cobra.Command {
	return &cobra.Command{
		Use: "job NAME [plan|vet|help] [--name=value]…", Short: "Run a built-in job in this process",
		Long:               "The built-in jobs:\n" + job.Describe() + "\nOn a cluster: sluice submit SLUICE-BINARY -p job=NAME …",
		DisableFlagParsing: true, // they are the job's
		ValidArgs:          job.Names(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] == "-h" || args[0] == "--help" {
				return cmd.Help()
			}
			if !job.Known(args[0]) {
				return ops.Usagef("one of "+strings.Join(job.Names(), ", "), "there is no built-in job %q", args[0])
			}
			a.began = true
			job.Embedded(args[0], args[1:]) // does not return
			return nil
		},
	}
}

func (a *app) contextVerb() *cobra.Command {
	with := func(f func(c *ops.Contexts, s *ops.Session, args []string) error) func(*cobra.Command, []string) error {
		return a.local(func(_ context.Context, s *ops.Session, args []string) error {
			c, err := a.contexts()
			if err != nil {
				return err
			}
			return f(c, s, args)
		})
	}
	list := with(func(c *ops.Contexts, s *ops.Session, _ []string) error { return c.Show(s) })
	c := group("context", "Name clusters, choose one",
		&cobra.Command{Use: "list", Short: "List the named clusters", Args: cobra.NoArgs, RunE: list},
		&cobra.Command{
			Use: "add NAME HOST:PORT,…", Short: "Name a cluster", Args: exactly("NAME", "HOST:PORT,…"),
			RunE: with(func(c *ops.Contexts, _ *ops.Session, args []string) error {
				return c.Add(args[0], &ops.Cluster{Addrs: strings.Split(args[1], ","), Insecure: a.flags.insecure})
			}),
		},
		&cobra.Command{
			Use: "select NAME", Short: "Work with a named cluster from now on", Args: exactly("NAME"),
			RunE: with(func(c *ops.Contexts, _ *ops.Session, args []string) error { return c.Select(args[0]) }),
		},
		&cobra.Command{
			Use: "remove NAME", Short: "Forget a named cluster", Args: exactly("NAME"),
			RunE: with(func(c *ops.Contexts, _ *ops.Session, args []string) error { return c.Remove(args[0]) }),
		},
	)
	c.Aliases, c.RunE = []string{"ctx"}, list
	return c
}

// versionTime is how long the cluster may take to say its version; a command line alone has one, too.
const versionTime = time.Second

func (a *app) versionVerb() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the versions of this binary and of the cluster", Args: cobra.NoArgs,
		RunE: a.client(versionTime, func(ctx context.Context, s *ops.Session, _ []string) error {
			v := struct {
				Version     string `json:"version"`
				Go          string `json:"go"`
				Platform    string `json:"platform"`
				ProtocolMin int    `json:"protocolMin"` // of tasks
				ProtocolMax int    `json:"protocolMax"`
				Cluster     string `json:"cluster"` // empty: none answered
			}{cluster.Version(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, taskpb.ProtocolMin, taskpb.ProtocolMax, ""}
			if info, err := ops.Info(ctx, s.Client); err == nil {
				v.Cluster = info.Version
			}
			if s.Format == ops.JSON {
				e := json.NewEncoder(s.Out)
				e.SetIndent("", "  ")
				return e.Encode(v)
			}
			seen := "none answers"
			if v.Cluster != "" {
				seen = "sluice " + v.Cluster
			}
			_, err := fmt.Fprintf(s.Out, "sluice %s (%s, %s, task protocols %d to %d)\ncluster: %s\n", v.Version, v.Go, v.Platform, v.ProtocolMin, v.ProtocolMax, seen)
			return err
		}),
	}
}
