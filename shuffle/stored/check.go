package stored

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluiceio/sluice/proto/exchangepb"
	"github.com/sluiceio/sluice/shuffle"
)

// Unreadable are the partitions that r has not read to their end, that are said to be finished, and that cannot be read. A
// subtask that has found one of them lost asks for it before it fails: what is lost is seldom lost alone, and what is
// known at once is made again at once. Files are looked at as far as opening them does, by whoever holds them; who has not
// answered when ctx ends has said nothing.
func (r *Reader[T]) Unreadable(ctx context.Context) []Name {
	if r.closed || r.at.Producer >= len(r.cfg.Producers) {
		return nil
	}
	return r.cfg.Exchange.check(ctx, r.cfg.Producers[r.at.Producer:])
}

// found collects what several tasks find.
type found struct {
	sync.Mutex
	lost []Name
}

func (f *found) add(names ...Name) {
	f.Lock()
	defer f.Unlock()
	f.lost = append(f.lost, names...)
}

// check finds those of some finished partitions that cannot be read.
func (x *Exchange) check(ctx context.Context, producers []Producer) []Name {
	var here []Name
	there := map[shuffle.Peer][]Name{}
	for _, p := range producers {
		switch {
		case !p.Stored:
		case p.Peer == nil:
			here = append(here, p.Name)
		case x.cfg.Dial != nil:
			there[*p.Peer] = append(there[*p.Peer], p.Name)
		}
	}
	var all found
	var pending sync.WaitGroup
	begin := func(name string, look func(context.Context) []Name) {
		pending.Add(1)
		// In the exchange's group, which closes the connections when all that uses them has ended.
		if !x.launch(task{name, func(group context.Context) {
			defer pending.Done()
			ctx, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			defer context.AfterFunc(group, func() { cancel(errStopped) })()
			all.add(look(ctx)...)
		}}) {
			pending.Done()
		}
	}
	if len(here) > 0 {
		begin("check results", func(ctx context.Context) []Name { return x.cfg.Store.unreadable(ctx, here) })
	}
	for peer, names := range there { // any order: sorted below
		begin("check results of worker "+peer.Worker, func(ctx context.Context) []Name { return x.ask(ctx, peer, names) })
	}
	pending.Wait()
	slices.SortFunc(all.lost, Name.Compare)
	return all.lost
}

// ask has the agent of another worker look.
func (x *Exchange) ask(ctx context.Context, peer shuffle.Peer, names []Name) (lost []Name) {
	c, err := x.conns.acquire(peer)
	if err == nil {
		for some := range slices.Chunk(names, exchangepb.MaxChecked) {
			var answer exchangepb.CheckAnswer
			if err = c.Invoke(ctx, checkMethod, checkRequest(peer, some), &answer); err == nil {
				err = answer.Validate(len(some))
			}
			if err != nil {
				break
			}
			for _, i := range answer.GetLost() {
				lost = append(lost, some[i])
			}
		}
		err = errors.Join(err, x.conns.release(c))
	}
	if err != nil {
		x.log.Debug("stored results could not be checked", "worker", peer.Worker, "error", err)
	}
	return lost
}

func checkRequest(peer shuffle.Peer, names []Name) *exchangepb.CheckRequest {
	r := &exchangepb.CheckRequest{Protocol: exchangepb.Protocol, Worker: peer.Worker, Job: names[0].Job, JobEpoch: names[0].JobEpoch}
	for _, n := range names { // of one edge, so of one job
		r.Partitions = append(r.Partitions, &exchangepb.CheckedPartition{
			Region: n.Region, RegionEpoch: n.RegionEpoch, Edge: n.Edge, Producer: n.Producer, Attempt: n.Attempt,
		})
	}
	return r
}

// Audit looks at all partitions of a job that this store knows of. Those that are lost are taken off the books, so that no
// inventory names them any more, and returned in the order of their names.
func (s *Store) Audit(ctx context.Context, job string) []Name {
	var names []Name
	s.mu.Lock()
	for n := range s.mu.known {
		if n.Job == job {
			names = append(names, n)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(names, Name.Compare)
	lost := s.unreadable(ctx, names)
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(lost, func(n Name) bool {
		bytes, known := s.mu.known[n]
		delete(s.mu.known, n)
		s.mu.bytes -= bytes
		return !known // it was dropped meanwhile
	})
}

// unreadable are those of the partitions that are lost, in order.
func (s *Store) unreadable(ctx context.Context, names []Name) (lost []Name) {
	for _, n := range names {
		if ctx.Err() != nil {
			return lost
		}
		o, err := s.open(n)
		if err == nil {
			err = o.close()
		}
		if errors.Is(err, ErrLost) {
			lost = append(lost, n)
		}
	}
	return lost
}

// check answers a CheckRequest.
func (s *Server) check(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	r := &exchangepb.CheckRequest{}
	if err := decode(r); err != nil {
		return nil, err
	}
	if err := r.Validate(); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if r.GetProtocol() != exchangepb.Protocol {
		return nil, status.Error(codes.InvalidArgument, fmt.Sprintf("protocol %d, this agent speaks %d", r.GetProtocol(), exchangepb.Protocol))
	}
	if err := s.meant(r.GetWorker()); err != nil {
		return nil, err
	}
	names := make([]Name, 0, len(r.GetPartitions()))
	at := map[Name]int32{}
	for i, p := range r.GetPartitions() {
		n := Name{
			Job: r.GetJob(), JobEpoch: r.GetJobEpoch(), Region: p.GetRegion(), RegionEpoch: p.GetRegionEpoch(),
			Edge: p.GetEdge(), Producer: p.GetProducer(), Attempt: p.GetAttempt(),
		}
		if err := n.Validate(); err != nil {
			return nil, status.Error(codes.InvalidArgument, err.Error())
		}
		if _, twice := at[n]; !twice {
			at[n] = int32(i)
			names = append(names, n)
		}
	}
	a := &exchangepb.CheckAnswer{}
	for _, n := range s.Store.unreadable(ctx, names) {
		a.Lost = append(a.Lost, at[n])
	}
	if len(a.Lost) > 0 {
		s.Suspect(r.GetJob())
		s.Log.Error("stored results cannot be read", "job", r.GetJob(), "partitions", len(a.Lost))
	}
	return a, nil
}

// meant refuses a request that is for another worker, which listened here before.
func (s *Server) meant(worker string) error {
	if worker != "" && s.Worker != "" && worker != s.Worker {
		return status.Errorf(codes.FailedPrecondition, "this is worker %s, not %s", s.Worker, worker)
	}
	return nil
}
