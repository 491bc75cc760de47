package api

import (
	"context"
	"io"
	"time"

	"google.golang.org/grpc"

	"github.com/sluiceio/sluice/coordinator/artifact"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// Facts are the replicated state as this node knows it.
type Facts interface {
	// Changed returns the facts applied here and a channel that is closed when there are newer ones.
	Changed() (*state.View, <-chan struct{})
	// Read returns facts that contain everything that was acknowledged to anyone before the call: a linearizable read.
	// It fails with ErrNotLeader anywhere but on the leader.
	Read(ctx context.Context) (*state.View, error)
	// Chain returns the hash chain at the newest applied command, and at index if that is applied and still known.
	Chain(index uint64) ChainAt
	// Propose commits a command and returns its result; an error is a *ProposalError.
	Propose(ctx context.Context, cmd *commandpb.Command) (state.Result, error)
}

// ChainAt is a node's hash chain at two places.
type ChainAt struct {
	Applied uint64 // index of the newest applied command
	Now     state.Chain
	At      state.Chain // at the index asked for
	Known   bool        // At is set
}

// Leader is who leads, as far as this node knows.
type Leader struct {
	ID      string // empty: nobody that this node knows of
	Address string // API address; empty while it is not known
	Term    uint64
	// Here: this node leads and is ready. Until is closed when that ends.
	Here  bool
	Until <-chan struct{}
	// LostFor is how long there has been no contact to any leader; 0 with one.
	LostFor time.Duration
}

// Leadership knows the leader.
type Leadership interface {
	// Leader returns what is known and a channel that is closed when that changes.
	Leader() (Leader, <-chan struct{})
}

// Workers are the sessions of this node while it leads.
type Workers interface {
	// Samples are the newest counters of each attempt of a job.
	Samples(job string) []*taskpb.Counters
	// Clocks are the newest clocks of each attempt of a job.
	Clocks(job string) []*taskpb.Clock
	// Heard is the time since a worker's last heartbeat; false without a session.
	Heard(worker string) (time.Duration, bool)
	// Build runs the user's build function on some worker, without creating a job.
	Build(ctx context.Context, spec *jobpb.JobSpec) (*controlpb.BuildResult, error)
}

// Dialer connects to other processes of the cluster. Connections are shared and belong to the node.
type Dialer interface {
	Conn(address string) (grpc.ClientConnInterface, error)
}

// Artifacts are the job binaries.
type Artifacts interface {
	// Upload receives an artifact, makes it durable on a quorum of coordinators and commits that fact. Leader only.
	Upload(ctx context.Context, h Upload) (existed bool, err error)
	// Keep receives an artifact and makes it durable here.
	Keep(ctx context.Context, h Upload) (existed bool, err error)
	// Open opens an artifact for reading; with Anywhere it is got from another coordinator if it is not here.
	Open(ctx context.Context, digest artifact.Digest, where Where) (io.ReadCloser, error)
	// Inventory lists what is here.
	Inventory() ([]artifact.Digest, error)
}

// Upload is an artifact on its way in. Next returns its bytes chunk by chunk and io.EOF at the end.
type Upload struct {
	Digest artifact.Digest
	Size   int64
	Next   func(ctx context.Context) ([]byte, error)
}

// Where says how far Open may look.
type Where int

// The ways to look.
const (
	Here Where = iota
	Anywhere
)

// Members are the coordinators of the cluster.
type Members interface {
	Hello(*apipb.HelloRequest) *apipb.HelloResponse
	Join(ctx context.Context, node *commandpb.Node) error
	Remove(ctx context.Context, id string, how Removal) error
	// Transfer hands leadership over and returns the new leader's id.
	Transfer(ctx context.Context, to string) (leader string, err error)
	Peers(ctx context.Context) ([]*apipb.PeerInfo, int32, error)
	// Restore replaces the facts of the whole cluster by a snapshot.
	Restore(ctx context.Context, snapshot io.Reader) (index uint64, err error)
}

// Removal says how careful the removal of a coordinator is.
type Removal int

// The ways to remove.
const (
	Careful Removal = iota
	Forced          // also when it lowers the failure tolerance or leaves artifacts on less than a quorum
)
