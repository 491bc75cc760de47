package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluiceio/sluice/flow/setting"
	"github.com/sluiceio/sluice/internal/pipe"
	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/shuffle"
	"github.com/sluiceio/sluice/shuffle/stored"
	"github.com/sluiceio/sluice/snapshot"
	"github.com/sluiceio/sluice/snapshot/fs"
	"github.com/sluiceio/sluice/snapshot/peer"
	"github.com/sluiceio/sluice/worker/spill"
	"github.com/sluiceio/sluice/worker/state/budget"
	"github.com/sluiceio/sluice/worker/state/overflow"
	"github.com/sluiceio/sluice/worker/task"
)

// openResults makes the exchange of stored results in the directory that the agent has given, which outlives this
// process. Nil: it has given none.
func (h *host) openResults(d *taskpb.Deployment, network *shuffle.Network) (*stored.Exchange, error) {
	dir := os.Getenv(pipe.EnvResults)
	if dir == "" {
		return nil, nil
	}
	store, err := stored.Join(vfs.OS{}, dir)
	if err != nil {
		return nil, err
	}
	return stored.NewExchange(stored.Config{Store: store, Memory: network.Account(), Dial: h.agentDialler(d.Job), Log: h.log})
}

// openSpill describes the directory for what exceeds the memory of batch operators. Nil: the agent has given none.
func openSpill(settings setting.Values) (*spill.Area, error) {
	dir := os.Getenv(pipe.EnvSpill)
	if dir == "" {
		return nil, nil
	}
	compression, err := spill.ParseCompression(settings.Text(setting.BatchCompress))
	if err != nil {
		return nil, fmt.Errorf("setting %s: %w", setting.BatchCompress, err)
	}
	return spill.NewArea(spill.Config{FS: vfs.OS{}, Dir: dir, Compression: compression})
}

// agentDialler connects to the agents of other workers, which serve what their task processes have stored.
func (h *host) agentDialler(job string) func(context.Context, shuffle.Peer) (net.Conn, error) {
	dialer := pipe.Dialer{Policy: h.policy}
	preface := pipe.Preface{Job: pipe.HashJob(job)}
	return func(ctx context.Context, p shuffle.Peer) (net.Conn, error) {
		return dialer.Dial(ctx, p.Address, preface)
	}
}

// stateDir is where keyed state goes with what exceeds its memory, in the directory for what is spilled.
const stateDir = "state"

// openState makes the memory of keyed state and its overflow. Without a directory everything stays in memory.
func openState(bytes int64) (task.StateMemory, error) {
	dir := os.Getenv(pipe.EnvSpill)
	if dir == "" {
		return task.StateMemory{}, nil
	}
	b := budget.New(bytes)
	store, err := overflow.New(overflow.Config{Dir: filepath.Join(dir, stateDir), Budget: b})
	return task.StateMemory{Budget: b, Overflow: store}, err
}

// runState removes what tables have left behind in their overflow, and closes that when ctx ends.
func runState(s task.StateMemory) func(context.Context) error {
	return func(ctx context.Context) error { return errors.Join(s.Overflow.Run(ctx), s.Overflow.Close()) }
}

// openSnapshots finds where the objects of checkpoints go. Nil: the agent has not said, and the process takes none. close ends the
// connections to other workers.
func (h *host) openSnapshots() (stores snapshot.Stores, close func() error) {
	kind, dir, _ := strings.Cut(os.Getenv(pipe.EnvSnapshots), ":")
	if kind == "" {
		return nil, func() error { return nil }
	}
	store := fs.At(vfs.OS{}, dir) // the agent has made it: if it is gone, so is what it held, and a new one would hide that
	peers := peer.New(peer.Config{Own: store, ID: h.worker, Shared: kind == "file", Policy: h.policy})
	return peers, peers.Close
}
