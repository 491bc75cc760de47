package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluiceio/sluice/proto/apipb"

	"github.com/sluiceio/sluice/cmd/sluice/internal/cluster"
	"github.com/sluiceio/sluice/cmd/sluice/internal/ops"
)

func (a *app) workersVerb() *cobra.Command {
	var fresh ops.Freshness
	show := a.client(quick, func(ctx context.Context, s *ops.Session, _ []string) error { return ops.Workers(ctx, s, fresh) })
	drain := func(d ops.Drain) func(*cobra.Command, []string) error {
		return a.client(quick, func(ctx context.Context, s *ops.Session, args []string) error {
			return ops.SetDrain(ctx, s, args[0], d)
		})
	}
	c := &cobra.Command{Use: "workers", Short: "List workers, drain them", Args: cobra.NoArgs, RunE: show}
	staleFlag(c.PersistentFlags(), &fresh)
	c.AddCommand(
		&cobra.Command{Use: "list", Short: "List the workers", Args: cobra.NoArgs, RunE: show},
		&cobra.Command{Use: "drain WORKER", Short: "Give a worker no new work", Args: exactly("WORKER"), RunE: drain(ops.DrainOn)},
		&cobra.Command{Use: "undrain WORKER", Short: "Let a worker take work again", Args: exactly("WORKER"), RunE: drain(ops.DrainOff)},
	)
	return c
}

func (a *app) peersVerb() *cobra.Command {
	var fresh ops.Freshness
	c := &cobra.Command{
		Use: "peers", Short: "List the coordinators", Args: cobra.NoArgs,
		RunE: a.client(quick, func(ctx context.Context, s *ops.Session, _ []string) error { return ops.Peers(ctx, s, fresh) }),
	}
	staleFlag(c.Flags(), &fresh)
	return c
}

func (a *app) raftVerb() *cobra.Command {
	return group("raft", "Look after the coordinators",
		&cobra.Command{
			Use: "info", Short: "Show what a coordinator knows of the cluster; needs no leader", Args: cobra.NoArgs,
			RunE: a.client(quick, func(ctx context.Context, s *ops.Session, _ []string) error { return ops.ShowInfo(ctx, s) }),
		},
		a.addPeerVerb(), a.removePeerVerb(),
		&cobra.Command{
			Use: "transfer-leader [NODE]", Short: "Hand leadership over, to the best follower unless one is named", Args: cobra.MaximumNArgs(1),
			RunE: a.client(quick, func(ctx context.Context, s *ops.Session, args []string) error {
				return ops.TransferLeader(ctx, s, strings.Join(args, ""))
			}),
		},
		group("snapshot", "Save and restore all facts",
			&cobra.Command{
				Use: "save FILE", Short: "Write all facts of the cluster to a file", Args: exactly("FILE"),
				RunE: a.client(moving, func(ctx context.Context, s *ops.Session, args []string) error {
					return ops.SaveSnapshot(ctx, s, args[0])
				}),
			},
			&cobra.Command{
				Use: "restore FILE", Short: "Replace all facts of the cluster by those of a file", Args: exactly("FILE"),
				RunE: a.client(moving, func(ctx context.Context, s *ops.Session, args []string) error {
					return ops.RestoreSnapshot(ctx, s, args[0])
				}),
			},
		),
		a.recoverVerb(),
	)
}

func (a *app) addPeerVerb() *cobra.Command {
	req := &apipb.AddPeerRequest{}
	c := &cobra.Command{
		Use: "add-peer NODE --api HOST:PORT --raft HOST:PORT", Short: "Add a coordinator by hand (one started with --join asks by itself)", Args: exactly("NODE"),
		RunE: a.client(quick, func(ctx context.Context, s *ops.Session, args []string) error {
			req.Id = args[0]
			if err := req.Validate(); err != nil {
				return ops.Usagef("sluice raft add-peer NODE --api HOST:PORT --raft HOST:PORT", "%w", err)
			}
			return ops.AddPeer(ctx, s, req)
		}),
	}
	c.Flags().StringVar(&req.ApiAddress, "api", "", "its API address")
	c.Flags().StringVar(&req.RaftAddress, "raft", "", "its Raft address")
	return c
}

func (a *app) removePeerVerb() *cobra.Command {
	req := &apipb.RemovePeerRequest{}
	c := &cobra.Command{
		Use: "remove-peer NODE", Short: "Remove a coordinator from the cluster", Args: exactly("NODE"),
		RunE: a.client(quick, func(ctx context.Context, s *ops.Session, args []string) error {
			req.Id = args[0]
			return ops.RemovePeer(ctx, s, req)
		}),
	}
	c.Flags().BoolVar(&req.Force, "force", false, "also when it lowers the failure tolerance or holds the only copy of a binary")
	return c
}

func (a *app) recoverVerb() *cobra.Command {
	var dir string
	var peers []string
	c := &cobra.Command{
		Use: "recover --data-dir D --peers ID=RAFT-ADDRESS,…", Short: "Give a stopped coordinator new peers, after a majority was lost for ever",
		Long: "The last resort. Stop every survivor. Run this with the same --peers on each of them, then start them.\n" +
			"Every entry of the local Raft log counts as committed from then on; what only the lost ones had is gone.",
		Args: cobra.NoArgs,
	}
	c.Flags().StringVar(&dir, "data-dir", "", "data directory of the stopped coordinator")
	c.Flags().StringSliceVar(&peers, "peers", nil, "survivors: node id and Raft address of each")
	c.RunE = a.local(func(ctx context.Context, _ *ops.Session, _ []string) error {
		if dir == "" {
			return ops.Usagef("--data-dir D", "which coordinator?")
		}
		list := make([]cluster.Peer, 0, len(peers))
		for _, p := range peers {
			id, addr, ok := strings.Cut(p, "=")
			if !ok || id == "" || addr == "" {
				return ops.Usagef("--peers ID=RAFT-ADDRESS,…", "%q is no peer", p)
			}
			list = append(list, cluster.Peer{ID: id, RaftAddress: addr})
		}
		return cluster.Recover(ctx, a.node(&nodeFlags{}), dir, list)
	})
	return c
}
