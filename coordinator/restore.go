package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"
	"google.golang.org/grpc/codes"

	"github.com/sluiceio/sluice/coordinator/api"
	"github.com/sluiceio/sluice/coordinator/datadir"
	"github.com/sluiceio/sluice/coordinator/state"
)

// maxSnapshotBytes bounds what is restored by hand.
const maxSnapshotBytes = 4 << 30

// Restore replaces the facts of the whole cluster. The snapshot is read, verified and decoded before Raft sees it, since
// Raft ends the process when a snapshot that it has taken over cannot be restored.
func (n *node) Restore(ctx context.Context, from io.Reader) (index uint64, err error) {
	r := n.reigning()
	if r == nil {
		return 0, api.ErrNotLeader
	}
	unreadable := func(err error) error {
		return &api.Refusal{Status: codes.InvalidArgument, Code: api.CodeSnapshot, Cause: fmt.Errorf("the snapshot cannot be restored: %w", err),
			Hints: []string{"nothing was changed; take a file that sluice raft snapshot save has written, in full"}}
	}
	spool, err := datadir.NewSpool(n.parts.FS, n.cfg.DataDir, io.LimitReader(from, maxSnapshotBytes+1))
	if err != nil {
		return 0, unreadable(err)
	}
	defer func() { err = errors.Join(err, spool.Discard()) }()
	if spool.Size > maxSnapshotBytes {
		return 0, unreadable(fmt.Errorf("more than %d bytes", int64(maxSnapshotBytes)))
	}
	facts, err := state.Load(spool.Reader())
	if err != nil {
		return 0, unreadable(err)
	}
	unlock, err := r.lockMembers(ctx)
	if err != nil {
		return 0, err
	}
	defer unlock()
	view := facts.View()
	meta := &raft.SnapshotMeta{Version: raft.SnapshotVersionMax, Index: view.Index(), Term: view.Term(), Size: spool.Size}
	if err := n.raft.Restore(meta, spool.Reader(), n.cfg.ApplyTimeout); err != nil {
		return 0, &api.ProposalError{Cause: fmt.Errorf("restore: %w", err), Outcome: api.Unknown}
	}
	r.log.Warn("facts were replaced by a snapshot", "index", view.Index(), "cluster", view.Cluster())
	select {
	case n.renew <- struct{}{}:
	default: // a renewal is under way already
	}
	return view.Index(), nil
}
