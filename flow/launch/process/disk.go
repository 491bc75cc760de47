package process

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/sluiceio/sluice/flow/setting"
	"github.com/sluiceio/sluice/internal/pipe"
	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/shuffle"
	"github.com/sluiceio/sluice/shuffle/stored"
	"github.com/sluiceio/sluice/worker/spill"
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
