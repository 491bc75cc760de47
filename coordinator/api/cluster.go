package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/commandpb"
)

type clusterServer struct {
	apipb.UnimplementedClusterServer
	*Server
}

// Info answers for this coordinator, with or without a leader.
func (s *clusterServer) Info(context.Context, *apipb.InfoRequest) (*apipb.InfoResponse, error) {
	facts, _ := s.facts.Changed()
	leader, _ := s.leadership.Leader()
	return &apipb.InfoResponse{
		Cluster: facts.Cluster(), Node: s.cfg.ID, Leader: leader.ID, LeaderAddress: leader.Address, Term: leader.Term,
		Applied: facts.Index(), Version: s.cfg.Version, ProtocolMin: s.cfg.ProtocolMin, ProtocolMax: s.cfg.ProtocolMax,
		Platforms: platforms(facts),
	}, nil
}

// Workers lists every worker that was ever registered and not forgotten.
func (s *clusterServer) Workers(ctx context.Context, req *apipb.WorkersRequest) (*apipb.WorkersResponse, error) {
	facts, how, err := s.read(ctx, req.Stale)
	if err != nil {
		return nil, err
	}
	resp := &apipb.WorkersResponse{Read: s.readInfo(facts.Index(), how)}
	for w := range facts.Workers() {
		info := &apipb.WorkerInfo{Worker: w, UsedSlots: int32(facts.UsedSlots(w.Id)), LastHeartbeatUs: -1}
		if age, ok := s.workers.Heard(w.Id); ok {
			info.LastHeartbeatUs = age.Microseconds()
		}
		resp.Workers = append(resp.Workers, info)
	}
	return resp, nil
}

// DrainWorker starts or lifts a drain.
func (s *clusterServer) DrainWorker(ctx context.Context, req *apipb.DrainWorkerRequest) (*apipb.DrainWorkerResponse, error) {
	facts, err := s.facts.Read(ctx)
	if err != nil {
		return nil, err
	}
	if facts.Worker(req.Worker) == nil {
		return nil, &Refusal{Status: codes.NotFound, Code: CodeUnknownWorker, Cause: fmt.Errorf("unknown worker %q", req.Worker),
			Hints: []string{"sluice workers shows which are known"}}
	}
	result, err := s.facts.Propose(ctx, &commandpb.Command{
		Command: &commandpb.Command_SetDrain{SetDrain: &commandpb.SetDrain{Worker: req.Worker, Drain: req.Drain}},
	})
	if err != nil {
		return nil, err
	}
	if result.Status == state.Refused {
		return nil, refused(result)
	}
	return &apipb.DrainWorkerResponse{}, nil
}

// Peers lists the coordinators.
func (s *clusterServer) Peers(ctx context.Context, req *apipb.PeersRequest) (*apipb.PeersResponse, error) {
	facts, how, err := s.read(ctx, req.Stale)
	if err != nil {
		return nil, err
	}
	peers, tolerance, err := s.members.Peers(ctx)
	if err != nil {
		return nil, err
	}
	return &apipb.PeersResponse{Peers: peers, FailureTolerance: tolerance, Read: s.readInfo(facts.Index(), how)}, nil
}

// AddPeer adds a coordinator by hand; one that was started with --join asks by itself.
func (s *clusterServer) AddPeer(ctx context.Context, req *apipb.AddPeerRequest) (*apipb.AddPeerResponse, error) {
	node := &commandpb.Node{Id: req.Id, ApiAddress: req.ApiAddress, RaftAddress: req.RaftAddress}
	if err := s.members.Join(ctx, node); err != nil {
		return nil, err
	}
	return &apipb.AddPeerResponse{}, nil
}

// RemovePeer removes a coordinator.
func (s *clusterServer) RemovePeer(ctx context.Context, req *apipb.RemovePeerRequest) (*apipb.RemovePeerResponse, error) {
	how := Careful
	if req.Force {
		how = Forced
	}
	if err := s.members.Remove(ctx, req.Id, how); err != nil {
		return nil, err
	}
	return &apipb.RemovePeerResponse{}, nil
}

// TransferLeader hands leadership over.
func (s *clusterServer) TransferLeader(ctx context.Context, req *apipb.TransferLeaderRequest) (*apipb.TransferLeaderResponse, error) {
	leader, err := s.members.Transfer(ctx, req.To)
	if err != nil {
		return nil, err
	}
	return &apipb.TransferLeaderResponse{Leader: leader}, nil
}

// SaveSnapshot streams all facts, as of now. The format carries its own version and checksum.
func (s *clusterServer) SaveSnapshot(_ *apipb.SaveSnapshotRequest, stream grpc.ServerStreamingServer[apipb.Chunk]) error {
	facts, err := s.facts.Read(stream.Context())
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(chunkWriter{stream.Send}, chunkBytes)
	if err := facts.Save(w); err != nil {
		return fmt.Errorf("save snapshot: %w", err)
	}
	return w.Flush()
}

type chunkWriter struct{ send func(*apipb.Chunk) error }

func (w chunkWriter) Write(p []byte) (int, error) {
	if err := w.send(&apipb.Chunk{Data: append([]byte(nil), p...)}); err != nil {
		return 0, err
	}
	return len(p), nil
}

// RestoreSnapshot replaces all facts. A snapshot that is cut off or damaged changes nothing.
func (s *clusterServer) RestoreSnapshot(stream grpc.ClientStreamingServer[apipb.RestoreSnapshotRequest, apipb.RestoreSnapshotResponse]) error {
	index, err := s.members.Restore(stream.Context(), &requestReader{
		ctx: stream.Context(), from: receive(stream.Context(), s.cfg.Group, stream.Recv),
	})
	if err != nil {
		return err
	}
	return stream.SendAndClose(&apipb.RestoreSnapshotResponse{Index: index})
}

// requestReader reads the bytes of a stream of requests.
type requestReader struct {
	ctx  context.Context
	from *receiver[*apipb.RestoreSnapshotRequest]
	rest []byte
}

func (r *requestReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		msg, err := r.from.next(r.ctx)
		if errors.Is(err, io.EOF) {
			return 0, io.EOF
		}
		if err != nil {
			return 0, err
		}
		r.rest = msg.GetData()
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}
