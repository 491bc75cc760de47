package stored

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/internal/wire"
	"github.com/sluiceio/sluice/proto/exchangepb"
	"github.com/sluiceio/sluice/shuffle/stored/partition"
)

// servedChunks bounds the memory of an agent for reads under way: buffers of 64 KiB. A buffer is taken for a chunk that
// the reader has room for, so all of them come back, however slow some readers are with what they have.
const servedChunks = 256

// Outcomes of reads.
const (
	OutcomeServed  = "served"  // to the end
	OutcomeLost    = "lost"    // the partition is missing or damaged
	OutcomeRefused = "refused" // a request that makes no sense, or is meant for another worker
	OutcomeBroken  = "broken"  // the reader went away, or the agent was short of something
)

// Server answers reads of the partitions of a store: the agent's side.
type Server struct {
	Store  *Store
	Worker string       // id of this worker: a read that is meant for another one is refused
	Log    hclog.Logger // nil: none
	// Note, if set, hears of the end of each read, and how many bytes of data files it has sent. It must not block.
	Note func(outcome string, bytes int64)
	// Suspect, if set, hears of jobs of which a partition was found to be lost. It must not block.
	Suspect func(job string)
}

// Serve answers on the connections of l until ctx ends and waits for everything that it has started. It closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	if s.Log == nil {
		s.Log = hclog.NewNullLogger()
	}
	if s.Note == nil {
		s.Note = func(string, int64) {}
	}
	if s.Suspect == nil {
		s.Suspect = func(string) {}
	}
	chunks := newChunkPool(servedChunks)
	server := wire.Policy{}.Server( // of connections that were accepted elsewhere
		grpc.ForceServerCodecV2(passThrough{}),
		grpc.MaxRecvMsgSize(maxRequest),
		grpc.InitialWindowSize(64<<10), grpc.InitialConnWindowSize(64<<10), // readers say little
		grpc.ReadBufferSize(8<<10), grpc.WriteBufferSize(ioBuffer),
		grpc.WaitForHandlers(true),
	)
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: serviceName,
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: checkName, Handler: s.check}},
		Streams: []grpc.StreamDesc{{
			StreamName: streamName, ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, st grpc.ServerStream) error { return s.handle(st, chunks) },
		}},
	}, nil)
	g := run.NewGroup(ctx, "serve results")
	g.Go("stop", func(ctx context.Context) error {
		<-ctx.Done()
		server.Stop()
		return nil
	})
	g.Go("serve", func(context.Context) error {
		if err := server.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			return err
		}
		return nil
	})
	return g.Wait()
}

// handle serves one read.
func (s *Server) handle(st grpc.ServerStream, chunks *chunkPool) error {
	r, n, err := s.admit(st)
	var sent int64
	if err == nil {
		sent, err = s.read(st, chunks, r, n)
	}
	outcome := OutcomeServed
	var lost *LostError
	var asked *AskedError
	switch {
	case err == nil:
	case errors.As(err, &lost):
		outcome = OutcomeLost
		s.Suspect(n.Job)
		s.Log.Error("stored result cannot be read", "job", n.Job, "partition", n.String(), "error", lost.Cause)
		err = status.Error(codes.DataLoss, lost.Cause.Error())
	case errors.As(err, &asked):
		outcome, err = OutcomeRefused, status.Error(codes.InvalidArgument, asked.Cause.Error())
	case status.Code(err) == codes.InvalidArgument, status.Code(err) == codes.FailedPrecondition:
		outcome = OutcomeRefused
	case st.Context().Err() != nil:
		outcome, err = OutcomeBroken, status.FromContextError(st.Context().Err()).Err()
	default:
		outcome, err = OutcomeBroken, status.Error(codes.Unavailable, err.Error())
	}
	s.Note(outcome, sent)
	return err
}

// admit reads and judges the request.
func (s *Server) admit(st grpc.ServerStream) (*exchangepb.ReadRequest, Name, error) {
	var m exchangepb.FromReader
	if err := st.RecvMsg(&m); err != nil {
		return nil, Name{}, err
	}
	refuse := func(err error) (*exchangepb.ReadRequest, Name, error) {
		return nil, Name{}, status.Error(codes.InvalidArgument, err.Error())
	}
	if err := m.Validate(); err != nil {
		return refuse(err)
	}
	r := m.GetRequest()
	if r == nil {
		return refuse(errors.New("the first message is no request"))
	}
	if r.GetProtocol() != exchangepb.Protocol {
		return refuse(fmt.Errorf("protocol %d, this agent speaks %d", r.GetProtocol(), exchangepb.Protocol))
	}
	n := Name{
		Job: r.GetJob(), JobEpoch: r.GetJobEpoch(), Region: r.GetRegion(), RegionEpoch: r.GetRegionEpoch(),
		Edge: r.GetEdge(), Producer: r.GetProducer(), Attempt: r.GetAttempt(),
	}
	if err := n.Validate(); err != nil {
		return refuse(err)
	}
	if err := s.meant(r.GetWorker()); err != nil {
		return nil, n, err
	}
	return r, n, st.SendHeader(metadata.MD{}) // the request is accepted, although the partition may have to be waited for
}

// read sends a subpartition, as far as the reader grants.
func (s *Server) read(st grpc.ServerStream, chunks *chunkPool, r *exchangepb.ReadRequest, n Name) (sent int64, err error) {
	ctx := st.Context()
	if !r.GetStored() {
		if err := s.Store.Wait(ctx, n); err != nil {
			return 0, err
		}
	}
	o, err := s.Store.open(n)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	scan, err := o.scan(r.GetConsumer(), r.GetBlock())
	if err != nil {
		return 0, err
	}
	granted := int(r.GetChunks())
	for {
		for granted == 0 {
			var m exchangepb.FromReader
			if err := st.RecvMsg(&m); err != nil {
				return sent, err
			}
			if err := m.Validate(); err != nil || m.GetMore() == nil {
				return sent, status.Error(codes.InvalidArgument, "after the request only grants may follow")
			}
			granted += int(m.GetMore().GetChunks())
		}
		b, err := chunks.take(ctx)
		if err != nil {
			return sent, err
		}
		k, err := scan.Next(*b)
		if err != nil {
			chunks.Put(b)
			if errors.Is(err, io.EOF) {
				return sent, sendEnd(st, o, scan.Blocks())
			}
			return sent, lossOf(n, err)
		}
		*b = (*b)[:k]
		if err := st.SendMsg(&outbound{mem.BufferSlice{kindOfChunk, mem.NewBuffer(b, chunks)}}); err != nil {
			return sent, err
		}
		sent += int64(k)
		granted--
	}
}

var kindOfChunk = mem.SliceBuffer{kindChunk}

func sendEnd(st grpc.ServerStream, o *opened, blocks int64) error {
	b, err := proto.Marshal(&exchangepb.ReadEnd{TimeUs: int64(o.End), Blocks: blocks})
	if err != nil {
		return err
	}
	return st.SendMsg(&outbound{mem.BufferSlice{mem.SliceBuffer{kindEnd}, mem.SliceBuffer(b)}})
}

// chunkPool lends buffers for chunks. It is the mem.BufferPool to which the transport returns them.
type chunkPool struct {
	free   chan *[]byte
	unmade chan struct{} // a token per buffer that was never allocated
}

func newChunkPool(n int) *chunkPool {
	p := &chunkPool{free: make(chan *[]byte, n), unmade: make(chan struct{}, n)}
	for range n {
		p.unmade <- struct{}{}
	}
	return p
}

// take waits for a buffer of MaxBlock bytes.
func (p *chunkPool) take(ctx context.Context) (*[]byte, error) {
	select {
	case b := <-p.free:
		return b, nil
	default:
	}
	select {
	case b := <-p.free:
		return b, nil
	case <-p.unmade:
		b := make([]byte, partition.MaxBlock)
		return &b, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Get completes mem.BufferPool. The transport does not allocate from this pool.
func (p *chunkPool) Get(length int) *[]byte {
	b := make([]byte, length)
	return &b
}

// Put takes a buffer back, from any goroutine.
func (p *chunkPool) Put(b *[]byte) {
	*b = (*b)[:cap(*b)]
	p.free <- b // there is room for all of them
}
