package chunks

import (
	"bytes"
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/snapshot"
)

// chunkBytes is how much one message carries.
const chunkBytes = 256 << 10

// Register adds the Objects service to a server.
func (k *Keeper) Register(r grpc.ServiceRegistrar) {
	controlpb.RegisterObjectsServer(r, &service{k: k})
}

type service struct {
	controlpb.UnimplementedObjectsServer
	k *Keeper
}

// Put stores an object.
func (s *service) Put(stream grpc.ClientStreamingServer[controlpb.PutObject, jobpb.Object]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	want := first.GetObject()
	if err := snapshot.Name(want.GetName()).Validate(); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	u, err := s.k.store.Draft(stream.Context(), snapshot.Name(want.Name))
	if err != nil {
		return status.Error(codes.ResourceExhausted, err.Error())
	}
	defer u.Abort()
	size := int64(0)
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if size += int64(len(m.GetData())); size > want.Size {
			return status.Errorf(codes.InvalidArgument, "more than the %d bytes that were announced", want.Size)
		}
		if _, err := u.Write(m.GetData()); err != nil {
			return status.Error(codes.ResourceExhausted, err.Error())
		}
	}
	if size != want.Size {
		return status.Errorf(codes.InvalidArgument, "%d of %d bytes arrived", size, want.Size)
	}
	o, err := u.Commit(stream.Context())
	if err != nil {
		return status.Error(codes.ResourceExhausted, err.Error())
	}
	if len(want.Digest) > 0 && !bytes.Equal(o.Digest, want.Digest) {
		if err := s.k.store.Delete(stream.Context(), snapshot.Name(o.Name)); err != nil {
			return status.Error(codes.Internal, err.Error())
		}
		return status.Error(codes.DataLoss, "other bytes arrived than were announced")
	}
	return stream.SendAndClose(o)
}

// Get sends a range of an object that is whole.
func (s *service) Get(req *controlpb.GetObject, stream grpc.ServerStreamingServer[controlpb.ObjectBytes]) error {
	ctx := stream.Context()
	o := req.GetObject()
	if err := snapshot.Name(o.GetName()).Validate(); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	if err := s.k.check(ctx, o); err != nil {
		return toStatus(err)
	}
	r, err := s.k.store.Open(ctx, snapshot.Name(o.Name))
	if err != nil {
		return toStatus(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			s.k.cfg.Log.Warn("closing failed", "object", o.Name, "error", err)
		}
	}()
	if r.Size() != o.Size {
		return status.Errorf(codes.DataLoss, "it has %d bytes, %d were written", r.Size(), o.Size)
	}
	size := req.Size
	if size == 0 {
		size = r.Size() - req.Offset
	}
	if req.Offset < 0 || size < 0 || req.Offset > r.Size()-size {
		return status.Errorf(codes.OutOfRange, "%d bytes at %d of %d", size, req.Offset, r.Size())
	}
	buf := make([]byte, min(size, chunkBytes))
	for at := req.Offset; at < req.Offset+size; {
		n, err := r.ReadAt(buf[:min(int64(len(buf)), req.Offset+size-at)], at)
		if n == 0 && err != nil {
			return toStatus(err)
		}
		if err := stream.Send(&controlpb.ObjectBytes{Data: buf[:n]}); err != nil {
			return err
		}
		at += int64(n)
	}
	return nil
}

// List lists objects.
func (s *service) List(req *controlpb.ListObjects, stream grpc.ServerStreamingServer[jobpb.Object]) error {
	return toStatus(s.k.store.List(stream.Context(), req.Prefix, stream.Send))
}

func toStatus(err error) error {
	var damaged *snapshot.DamagedError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, snapshot.ErrNotFound):
		return status.Error(codes.NotFound, err.Error())
	case errors.As(err, &damaged):
		return status.Error(codes.DataLoss, damaged.Cause.Error())
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	}
	return status.Error(codes.Internal, err.Error())
}
