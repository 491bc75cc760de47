package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/reflection"

	"github.com/sluiceio/sluice/internal/probe"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/snapshot"
)

// Config of a server.
type Config struct {
	ID                       string // of this coordinator
	Version                  string
	ProtocolMin, ProtocolMax int32
	NoLeaderWait             time.Duration
	// Snapshots are the stores of checkpoints; nil: there are none.
	Snapshots snapshot.Stores
	// Group owns the few goroutines that handlers need; it outlives the gRPC server.
	Group *run.Group
	Log   hclog.Logger
}

// Node is everything that handlers ask of the coordinator.
type Node interface {
	Facts
	Leadership
	Workers
	Dialer
	Artifacts
	Members
}

// Server answers the API.
type Server struct {
	cfg        Config
	facts      Facts
	leadership Leadership
	workers    Workers
	dialer     Dialer
	artifacts  Artifacts
	members    Members
	methods    map[string]method
	probes     *probe.Probes
}

// New makes a server over a node.
func New(cfg Config, n Node) (*Server, error) {
	methods, err := describe()
	if err != nil {
		return nil, fmt.Errorf("routes: %w", err)
	}
	return &Server{
		cfg: cfg, facts: n, leadership: n, workers: n, dialer: n, artifacts: n, members: n, methods: methods,
		probes: probe.New(apipb.Jobs_ServiceDesc.ServiceName, apipb.Artifacts_ServiceDesc.ServiceName, apipb.Cluster_ServiceDesc.ServiceName),
	}, nil
}

// Options are the interceptors that route calls.
func (s *Server) Options() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.UnaryInterceptor(s.unary), grpc.StreamInterceptor(s.stream)}
}

// Register adds the services to a gRPC server made with Options.
func (s *Server) Register(r reflection.GRPCServer) {
	apipb.RegisterJobsServer(r, &jobsServer{Server: s})
	apipb.RegisterArtifactsServer(r, &artifactsServer{Server: s})
	apipb.RegisterClusterServer(r, &clusterServer{Server: s})
	apipb.RegisterNodeServer(r, &nodeServer{Server: s})
	s.probes.Register(r)
}

// KeepHealth says by the health service whether calls have a leader here or one to be handed to, until ctx ends.
func (s *Server) KeepHealth(ctx context.Context) error {
	defer s.probes.Stop()
	for {
		leader, changed := s.leadership.Leader()
		if leader.Here || leader.ID != "" && leader.ID != s.cfg.ID && leader.Address != "" {
			s.probes.Ready()
		} else {
			s.probes.Unready()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// readInfo says how fresh an answer from the present facts is.
func (s *Server) readInfo(index uint64, how freshness) *apipb.ReadInfo {
	leader, _ := s.leadership.Leader()
	return &apipb.ReadInfo{
		Node: s.cfg.ID, Leader: leader.ID, Applied: index, Term: leader.Term,
		Stale: how == staleRead, WithoutLeaderUs: leader.LostFor.Microseconds(),
	}
}

type freshness int

const (
	freshRead freshness = iota
	staleRead
)

// receiver turns a stream into a channel, so that a client that falls silent in the middle is noticed. The goroutine
// behind it ends with the stream, at the latest when the handler has returned.
type receiver[M any] struct {
	items chan received[M]
	idle  time.Duration
}

type received[M any] struct {
	msg M
	err error
}

// errIdle: the other side has stopped sending without ending the call.
var errIdle = errors.New("the sender is silent")

func receive[M any](ctx context.Context, g *run.Group, recv func() (M, error)) *receiver[M] {
	r := &receiver[M]{items: make(chan received[M]), idle: idleLimit}
	g.Go("receive", func(group context.Context) error {
		for {
			msg, err := recv()
			select {
			case r.items <- received[M]{msg, err}:
			case <-ctx.Done():
				return nil
			case <-group.Done():
				return nil
			}
			if err != nil {
				return nil
			}
		}
	})
	return r
}

// idleLimit is how long a stream may be silent. A client that is gone is noticed earlier, by its connection.
const idleLimit = 30 * time.Second

// next returns the next message or the error that ended the stream.
func (r *receiver[M]) next(ctx context.Context) (M, error) {
	timer := time.NewTimer(r.idle)
	defer timer.Stop()
	var none M
	select {
	case it := <-r.items:
		return it.msg, it.err
	case <-timer.C:
		return none, fmt.Errorf("%w: nothing arrived for %s", errIdle, r.idle)
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}
