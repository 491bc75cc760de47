package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/snapshot"
)

// ReadObject streams an object of a checkpoint that is kept: clients need not reach workers. Whoever asks compares digests.
func (s *jobsServer) ReadObject(req *apipb.ReadObjectRequest, stream grpc.ServerStreamingServer[apipb.Chunk]) (err error) {
	if err := req.Validate(); err != nil {
		return invalid(err)
	}
	facts, err := s.facts.Read(stream.Context())
	if err != nil {
		return err
	}
	job := facts.Job(req.Job)
	if job == nil {
		return unknownJob(req.Job)
	}
	o, err := keptObject(job.Checkpoints(), req)
	if err != nil {
		return err
	}
	r, err := s.openObject(stream.Context(), facts, o)
	if err != nil {
		return unreadable(req, err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return sendChunks(objectReader{io.NewSectionReader(r, req.Offset, max(r.Size()-req.Offset, 0)), req}, stream.Send)
}

// keptObject finds an object among those of a kept checkpoint, with the stores that are to be asked.
func keptObject(c *jobpb.Checkpoints, req *apipb.ReadObjectRequest) (*jobpb.StoredObject, error) {
	i := slices.IndexFunc(c.GetCompleted(), func(d *jobpb.CheckpointDone) bool { return d.Id == req.Checkpoint })
	if i < 0 || !slices.Contains(c.Completed[i].Objects, req.Name) { // nil checkpoints: of a job that takes none
		return nil, &Refusal{
			Status: codes.NotFound, Code: snapshot.CodeFormat, Cause: fmt.Errorf("job %s keeps no checkpoint %d with an object %s", req.Job, req.Checkpoint, req.Name),
			Hints: []string{"sluice checkpoints " + req.Job + " shows those that are kept"},
		}
	}
	for _, o := range c.Objects {
		if o.Object.GetName() != req.Name {
			continue
		}
		switch n := int(req.Copy); {
		case n == 0:
			return o, nil
		case n <= len(o.Stores):
			return &jobpb.StoredObject{Object: o.Object, Stores: o.Stores[n-1 : n]}, nil
		default:
			return nil, &Refusal{Status: codes.OutOfRange, Code: snapshot.CodeRead, Cause: fmt.Errorf("object %s has %d copies", req.Name, len(o.Stores))}
		}
	}
	return nil, unreadable(req, snapshot.ErrNotFound)
}

func (s *Server) openObject(ctx context.Context, facts *state.View, o *jobpb.StoredObject) (snapshot.Reader, error) {
	if s.cfg.Snapshots == nil {
		return nil, errors.New("this coordinator has no stores of snapshots")
	}
	var addresses []*taskpb.StoreAddress
	for _, store := range o.Stores {
		if w := facts.Worker(store); w != nil {
			addresses = append(addresses, &taskpb.StoreAddress{Store: store, Address: w.Address})
		}
	}
	return s.cfg.Snapshots.Open(ctx, o, addresses)
}

// objectReader gives the errors of reading their code.
type objectReader struct {
	io.Reader
	req *apipb.ReadObjectRequest
}

func (r objectReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	return n, unreadable(r.req, err)
}

// unreadable is a copy, or all of them, that cannot be read now.
func unreadable(req *apipb.ReadObjectRequest, cause error) error {
	if errors.Is(cause, context.Canceled) || errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return &Refusal{
		Status: codes.FailedPrecondition, Code: snapshot.CodeRead, Cause: fmt.Errorf("checkpoint %d of job %s: %w", req.Checkpoint, req.Job, cause),
		Hints: []string{"bring back a worker whose data directory holds it: sluice checkpoints " + req.Job},
	}
}
