package api

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"

	"github.com/sluiceio/sluice/coordinator/artifact"
	"github.com/sluiceio/sluice/proto/apipb"
)

// chunkBytes of one message of a streamed file.
const chunkBytes = 256 << 10

type artifactsServer struct {
	apipb.UnimplementedArtifactsServer
	*Server
}

// Upload stores a binary on a quorum of coordinators.
func (s *artifactsServer) Upload(stream grpc.ClientStreamingServer[apipb.UploadRequest, apipb.UploadResponse]) error {
	upload, err := s.incoming(stream)
	if err != nil {
		return err
	}
	existed, err := s.artifacts.Upload(stream.Context(), upload)
	if err != nil {
		return err
	}
	return stream.SendAndClose(&apipb.UploadResponse{Digest: string(upload.Digest), Existed: existed})
}

// incoming reads the header of an upload and makes its bytes available.
func (s *Server) incoming(stream grpc.ClientStreamingServer[apipb.UploadRequest, apipb.UploadResponse]) (Upload, error) {
	r := receive(stream.Context(), s.cfg.Group, stream.Recv)
	first, err := r.next(stream.Context())
	if errors.Is(err, io.EOF) {
		return Upload{}, invalid(errors.New("header: an upload begins with one"))
	}
	if err != nil {
		return Upload{}, err
	}
	header := first.GetHeader()
	if err := header.Validate(); err != nil {
		return Upload{}, invalid(err)
	}
	return Upload{
		Digest: artifact.Digest(header.Digest),
		Size:   header.Size,
		Next: func(ctx context.Context) ([]byte, error) {
			msg, err := r.next(ctx)
			if err != nil {
				return nil, err
			}
			if msg.GetHeader() != nil {
				return nil, invalid(errors.New("header: a second one in the middle of an upload"))
			}
			return msg.GetData(), nil
		},
	}, nil
}

// Stat says whether an artifact is durable on a quorum, so that an upload can be skipped.
func (s *artifactsServer) Stat(ctx context.Context, req *apipb.StatRequest) (*apipb.StatResponse, error) {
	facts, err := s.facts.Read(ctx)
	if err != nil {
		return nil, err
	}
	known := facts.Artifact(req.Digest)
	return &apipb.StatResponse{Exists: known != nil, Size: known.GetSize()}, nil
}

// Fetch streams an artifact to a worker or to another coordinator. A coordinator that does not have it gets it first,
// unless it is another coordinator that asks: that one asks everybody itself.
func (s *artifactsServer) Fetch(req *apipb.FetchRequest, stream grpc.ServerStreamingServer[apipb.Chunk]) error {
	if err := req.Validate(); err != nil {
		return invalid(err)
	}
	where := Anywhere
	if isForwarded(stream.Context()) {
		where = Here
	}
	r, err := s.artifacts.Open(stream.Context(), artifact.Digest(req.Digest), where)
	if err != nil {
		return err
	}
	err = sendChunks(r, stream.Send)
	if err = errors.Join(err, r.Close()); err != nil {
		return fmt.Errorf("send artifact %.12s: %w", req.Digest, err)
	}
	return nil
}

// sendChunks streams r in messages.
func sendChunks(r io.Reader, send func(*apipb.Chunk) error) error {
	for {
		// A fresh buffer for each message: gRPC may still hold the one before.
		buf := make([]byte, chunkBytes)
		n, err := io.ReadFull(r, buf)
		if n > 0 {
			if err := send(&apipb.Chunk{Data: buf[:n]}); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
