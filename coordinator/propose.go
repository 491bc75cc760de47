package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/coordinator/api"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/proto/commandpb"
)

// maxCommandBytes keeps the log a place for small facts: one entry must not hold up heartbeats.
const maxCommandBytes = 4 << 20

// Propose commits a command and returns what it came to. It may be called from any goroutine, on any node; on one that
// does not lead it fails with NotDone.
func (n *node) Propose(ctx context.Context, cmd *commandpb.Command) (state.Result, error) {
	data, err := n.encode(cmd)
	if err != nil {
		return state.Result{}, err
	}
	select {
	case n.proposals <- struct{}{}:
	case <-ctx.Done():
		return state.Result{}, &api.ProposalError{Cause: context.Cause(ctx)}
	}
	ctx, cancel := context.WithTimeout(ctx, n.cfg.ApplyTimeout)
	defer cancel()
	return n.await(ctx, func() raft.ApplyFuture {
		return n.raft.Apply(data, n.cfg.ApplyTimeout)
	}, func() { <-n.proposals })
}

// await waits for an entry, until ctx ends at the latest, and calls settled when its fate is known: Raft's own timeout
// bounds only the way into its queue, after which an entry waits for a quorum, for the end of the lease, or for a disk.
func (n *node) await(ctx context.Context, start func() raft.ApplyFuture, settled func()) (state.Result, error) {
	type answer struct {
		result state.Result
		err    error
	}
	a, err := wait(ctx, n.futures, "entry", func() answer {
		defer settled()
		result, err := settle(start())
		return answer{result, err}
	})
	if err != nil {
		// Even if it is not in the queue yet it may still get there: nobody can take it back.
		return state.Result{}, &api.ProposalError{Cause: err, Outcome: api.Unknown}
	}
	return a.result, a.err
}

// encode stamps a command with what every command carries.
func (n *node) encode(cmd *commandpb.Command) ([]byte, error) {
	if cmd.Version == 0 {
		cmd.Version = state.Version
	}
	if cmd.TimeUs == 0 {
		cmd.TimeUs = time.Now().UnixMicro()
	}
	if cmd.Proposer == "" {
		cmd.Proposer = n.id.ID
	}
	data, err := proto.Marshal(cmd)
	if err != nil {
		return nil, &api.ProposalError{Cause: fmt.Errorf("encode command: %w", err)}
	}
	if len(data) > maxCommandBytes {
		return nil, &api.ProposalError{Cause: fmt.Errorf("command of %d bytes, at most %d", len(data), maxCommandBytes)}
	}
	return data, nil
}

// settle says what the end of a future means.
func settle(future raft.ApplyFuture) (state.Result, error) {
	if err := future.Error(); err != nil {
		return state.Result{}, &api.ProposalError{Cause: err, Outcome: outcomeOf(err)}
	}
	switch r := future.Response().(type) {
	case state.Result:
		return r, nil
	case error:
		return state.Result{}, &api.ProposalError{Cause: r, Outcome: api.Unknown}
	default:
		return state.Result{}, &api.ProposalError{Cause: fmt.Errorf("state machine answered %T", r), Outcome: api.Unknown}
	}
}

// outcomeOf: only these errors prove that the entry is not in the log. In particular "leadership lost" does not: a
// successor may have the entry and commit it.
func outcomeOf(err error) api.Outcome {
	switch {
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrEnqueueTimeout),
		errors.Is(err, raft.ErrLeadershipTransferInProgress), errors.Is(err, raft.ErrAbortedByRestore):
		return api.NotDone
	}
	return api.Unknown
}

// Read returns facts that contain everything acknowledged to anyone before the call.
//
// It is the read-index protocol. Committed entry in this term: a reign is published only after its barrier and its first
// commands were applied here. Read index: the facts of this node after that point. Verify leader: a quorum confirms,
// after the call began, that nobody newer was elected, so nobody else can have acknowledged anything. Wait applied: an
// acknowledgement leaves this node only after the entry was applied to the very facts that are returned (proposals are
// answered by the state machine), so the facts taken after the verification have everything already.
func (n *node) Read(ctx context.Context) (*state.View, error) {
	if n.reigning() == nil {
		return nil, api.ErrNotLeader
	}
	lost, err := wait(ctx, n.futures, "verify leader", func() error { return n.raft.VerifyLeader().Error() })
	switch {
	case err != nil:
		return nil, fmt.Errorf("verify leadership: %w", err)
	case lost != nil:
		return nil, fmt.Errorf("%w: %w", api.ErrNotLeader, lost)
	}
	if n.reigning() == nil {
		return nil, api.ErrNotLeader
	}
	view, _ := n.fsm.view()
	return view, nil
}

// Changed returns the facts and tells when there are newer ones.
func (n *node) Changed() (*state.View, <-chan struct{}) { return n.fsm.view() }

// Chain returns hash chains for comparison.
func (n *node) Chain(index uint64) api.ChainAt {
	facts := n.fsm.facts.Load()
	view := facts.View()
	c := api.ChainAt{Applied: view.Index(), Now: view.Chain()}
	c.At, c.Known = facts.ChainAt(index)
	return c
}
