package clustertest

import (
	"time"

	"github.com/hashicorp/raft"

	"github.com/sluiceio/sluice/coordinator/consensus"
)

// Delayed makes every request between coordinators take time, before it is sent and before its answer is heard. Without
// it, an in-memory cluster in fake time commits in no time at all, and nothing is ever lost in the middle.
func Delayed(base consensus.Base, delay func() time.Duration) consensus.Base {
	return &delayed{Base: base, delay: delay}
}

type delayed struct {
	consensus.Base
	delay func() time.Duration
}

func (d *delayed) wait() { <-time.NewTimer(d.delay()).C }

func (d *delayed) AppendEntries(id raft.ServerID, to raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	d.wait()
	defer d.wait()
	return d.Base.AppendEntries(id, to, req, resp)
}

func (d *delayed) RequestVote(id raft.ServerID, to raft.ServerAddress, req *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	d.wait()
	defer d.wait()
	return d.Base.RequestVote(id, to, req, resp)
}

func (d *delayed) RequestPreVote(id raft.ServerID, to raft.ServerAddress, req *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	d.wait()
	defer d.wait()
	return d.Base.RequestPreVote(id, to, req, resp)
}
