package chunks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/snapshot"
)

// Service answers calls for objects.
func (k *Keeper) Service() controlpb.ObjectsServer { return &service{keeper: k} }

type service struct {
	controlpb.UnimplementedObjectsServer
	keeper *Keeper
}

func sectionOf(r snapshot.Reader) io.Reader { return io.NewSectionReader(r, 0, r.Size()) }

// errContent is the end of an object whose content is not what was said.
var errContent = errors.New("the content has another digest than was said")

// take stores an object whose digest may be known before. Nothing is published that differs.
func (k *Keeper) take(ctx context.Context, o *jobpb.Object, from io.Reader) (*jobpb.Object, error) {
	d, err := k.store.Draft(ctx, snapshot.Name(o.Name))
	if err != nil {
		return nil, err
	}
	defer d.Abort()
	digest, err := snapshot.Copy(ctx, d, from, o.Size)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", o.Name, err)
	}
	if len(o.Digest) > 0 && !bytes.Equal(digest, o.Digest) {
		return nil, fmt.Errorf("store %s: %w", o.Name, errContent)
	}
	return d.Commit(ctx)
}

func (s *service) Put(stream controlpb.Objects_PutServer) error {
	m, err := stream.Recv()
	if err != nil {
		return err
	}
	o := m.GetObject()
	if o == nil || o.Size < 0 || snapshot.Name(o.Name).Validate() != nil {
		return status.Errorf(codes.InvalidArgument, "an object begins with its name and size, not with %.300q", o.GetName())
	}
	got, err := s.keeper.take(stream.Context(), o, &incoming{stream: stream})
	if err != nil {
		return s.status(err)
	}
	return stream.SendAndClose(got)
}

// incoming are the bytes of a Put.
type incoming struct {
	stream controlpb.Objects_PutServer
	rest   []byte
}

func (in *incoming) Read(p []byte) (int, error) {
	for len(in.rest) == 0 {
		m, err := in.stream.Recv()
		if err != nil {
			return 0, err // io.EOF: the sender has said everything
		}
		in.rest = m.GetData()
	}
	n := copy(p, in.rest)
	in.rest = in.rest[n:]
	return n, nil
}

// status says on the wire what has happened: names and bytes go with it.
func (s *service) status(err error) error {
	code := codes.Internal
	var write *snapshot.WriteError
	switch {
	case errors.Is(err, snapshot.ErrNotFound):
		code = codes.NotFound
	case errors.Is(err, snapshot.ErrExists):
		code = codes.AlreadyExists
	case errors.Is(err, snapshot.ErrDamaged):
		code = codes.DataLoss
	case errors.Is(err, errContent), errors.Is(err, snapshot.ErrLength):
		code = codes.InvalidArgument
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		code = codes.ResourceExhausted
	case errors.As(err, &write):
	case errors.Is(err, context.Canceled), status.Code(err) == codes.Canceled:
		code = codes.Canceled
	}
	if write != nil || code == codes.ResourceExhausted || code == codes.Internal {
		s.keeper.log.Error("store failed", "error", err)
	}
	return status.Error(code, err.Error())
}

// messageBytes is how much of an object one message carries.
const messageBytes = 256 << 10

func (s *service) Get(q *controlpb.GetObject, stream controlpb.Objects_GetServer) (err error) {
	if q.Offset < 0 || q.Size < 0 || snapshot.Name(q.Name).Validate() != nil {
		return status.Errorf(codes.InvalidArgument, "%d bytes at %d of %.300q", q.Size, q.Offset, q.Name)
	}
	r, err := s.keeper.store.Sound(stream.Context(), snapshot.Name(q.Name))
	if errors.Is(err, snapshot.ErrDamaged) {
		s.keeper.lose(stream.Context(), snapshot.Name(q.Name), err)
	}
	if err != nil {
		return s.status(err)
	}
	defer func() {
		if cerr := r.Close(); err == nil && cerr != nil {
			err = s.status(cerr)
		}
	}()
	at := min(q.Offset, r.Size())
	end := r.Size()
	if q.Size > 0 {
		end = min(end, at+min(q.Size, end))
	}
	buf := make([]byte, min(messageBytes, end-at))
	for at < end {
		n := int(min(int64(len(buf)), end-at))
		if _, err := r.ReadAt(buf[:n], at); err != nil && !errors.Is(err, io.EOF) {
			return s.status(fmt.Errorf("read %s: %w", q.Name, err))
		}
		if err := stream.Send(&controlpb.ObjectBytes{Data: buf[:n]}); err != nil {
			return err
		}
		at += int64(n)
	}
	return nil
}

func (s *service) List(q *controlpb.ListObjects, stream controlpb.Objects_ListServer) error {
	if err := s.keeper.store.List(stream.Context(), q.Prefix, stream.Send); err != nil {
		return s.status(err)
	}
	return nil
}
