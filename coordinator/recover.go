package coordinator

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/sluiceio/sluice/coordinator/consensus"
	"github.com/sluiceio/sluice/coordinator/datadir"
	"github.com/sluiceio/sluice/internal/vfs"
)

// Peer is a voter of a cluster that is recovered by hand.
type Peer struct {
	ID          string
	RaftAddress string
}

// Recover gives a stopped coordinator a new list of voters, after so many were lost for ever that the rest is no quorum.
//
// It writes everything that this node knows into a snapshot with the new list, and treats every entry of its log as
// committed: entries that the lost majority had committed and this node never received are gone, and some that were never
// committed become facts. So it is the last resort. Run it with the same peers on every survivor, then start them.
func Recover(ctx context.Context, dataDir string, peers []Peer) (err error) {
	if err := checkPeers(peers); err != nil {
		return err
	}
	dir, err := filepath.Abs(dataDir)
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	fsys := vfs.OS{}
	if ok, err := datadir.Exists(fsys, dir); err != nil || !ok {
		return errors.Join(fmt.Errorf("%s is no data directory of a coordinator", dir), err)
	}
	lock, err := datadir.Lock(fsys, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	id, err := datadir.Load(fsys, dir)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(peers, func(p Peer) bool { return p.ID == id.ID }) {
		return fmt.Errorf("this coordinator is %s, which is not among the peers: name every survivor, this one included", id.ID)
	}
	log := hclog.NewNullLogger()
	stores, err := consensus.OpenStores(dir, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stores.Close()) }()
	if err := consensus.CheckNewest(stores.Snapshots); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return recoverStores(stores, id, peers)
}

func recoverStores(stores consensus.Stores, id datadir.Identity, peers []Peer) error {
	cfg := raft.DefaultConfig()
	cfg.LocalID = raft.ServerID(id.ID)
	cfg.Logger = hclog.NewNullLogger()
	var voters raft.Configuration
	var self raft.ServerAddress
	for _, p := range peers {
		if p.ID == id.ID {
			self = raft.ServerAddress(p.RaftAddress)
		}
		voters.Servers = append(voters.Servers, raft.Server{
			ID: raft.ServerID(p.ID), Address: raft.ServerAddress(p.RaftAddress), Suffrage: raft.Voter,
		})
	}
	var halted error
	facts := newFSM(func(err error) { halted = err }, func(time.Duration) {})
	_, encoder := raft.NewInmemTransport(self) // only encodes addresses
	if err := raft.RecoverCluster(cfg, facts, stores.Logs, stores.Stable, stores.Snapshots, encoder, voters); err != nil {
		return fmt.Errorf("recover: %w", errors.Join(err, facts.restoreProblem(), halted))
	}
	return nil
}

func checkPeers(peers []Peer) error {
	if len(peers) == 0 {
		return errors.New("recover: name at least one peer, as id=raft_address")
	}
	var faults []error
	ids, addresses := map[string]bool{}, map[string]bool{}
	for _, p := range peers {
		switch {
		case p.ID == "" || p.RaftAddress == "":
			faults = append(faults, fmt.Errorf("peer %q=%q: id and raft address are both needed", p.ID, p.RaftAddress))
		case ids[p.ID]:
			faults = append(faults, fmt.Errorf("peer %s is named twice", p.ID))
		case addresses[p.RaftAddress]:
			faults = append(faults, fmt.Errorf("two peers at %s", p.RaftAddress))
		}
		ids[p.ID], addresses[p.RaftAddress] = true, true
	}
	return errors.Join(faults...)
}
