package api

import (
	"context"

	"google.golang.org/grpc"

	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/commandpb"
)

// nodeServer answers other coordinators.
type nodeServer struct {
	apipb.UnimplementedNodeServer
	*Server
}

// Hello introduces two coordinators to each other.
func (s *nodeServer) Hello(_ context.Context, req *apipb.HelloRequest) (*apipb.HelloResponse, error) {
	return s.members.Hello(req), nil
}

// Join adds a coordinator as a non-voter.
func (s *nodeServer) Join(ctx context.Context, req *apipb.JoinRequest) (*apipb.JoinResponse, error) {
	err := s.members.Join(ctx, &commandpb.Node{
		Id: req.Id, ApiAddress: req.ApiAddress, RaftAddress: req.RaftAddress, Version: req.Version,
	})
	if err != nil {
		return nil, err
	}
	facts, _ := s.facts.Changed()
	return &apipb.JoinResponse{Cluster: facts.Cluster()}, nil
}

// StoreArtifact keeps a copy; the answer means that it is durable here.
func (s *nodeServer) StoreArtifact(stream grpc.ClientStreamingServer[apipb.UploadRequest, apipb.UploadResponse]) error {
	upload, err := s.incoming(stream)
	if err != nil {
		return err
	}
	existed, err := s.artifacts.Keep(stream.Context(), upload)
	if err != nil {
		return err
	}
	return stream.SendAndClose(&apipb.UploadResponse{Digest: string(upload.Digest), Existed: existed})
}

// Inventory lists the artifacts that are here.
func (s *nodeServer) Inventory(context.Context, *apipb.InventoryRequest) (*apipb.InventoryResponse, error) {
	here, err := s.artifacts.Inventory()
	if err != nil {
		return nil, err
	}
	resp := &apipb.InventoryResponse{}
	for _, d := range here {
		resp.Artifacts = append(resp.Artifacts, string(d))
	}
	return resp, nil
}

// Chain answers with hash chains, so that the leader can compare.
func (s *nodeServer) Chain(_ context.Context, req *apipb.ChainRequest) (*apipb.ChainResponse, error) {
	c := s.facts.Chain(req.Index)
	resp := &apipb.ChainResponse{Applied: c.Applied, Chain: c.Now[:]}
	if c.Known {
		resp.AtIndex = c.At[:]
	}
	return resp, nil
}
