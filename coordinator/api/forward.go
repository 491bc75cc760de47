package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/proto/apipb"
)

// forwardedKey marks a call that a coordinator has forwarded already; its value is that coordinator. The receiver answers
// it or refuses it, so a call makes one hop even while two nodes take each other for the leader.
const forwardedKey = "sluice-forwarded"

// Forwarded marks the calls of ctx as coming from another coordinator, which looks for the leader by itself.
func Forwarded(ctx context.Context, node string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, forwardedKey, node)
}

func isForwarded(ctx context.Context) bool {
	md, ok := metadata.FromIncomingContext(ctx)
	return ok && len(md.Get(forwardedKey)) > 0
}

// unary answers a call here or hands it to the leader. What the leader takes along when it dies is asked again of its
// successor if asking twice does no harm, so that a change of leadership costs a client time, not an error.
func (s *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	m, ok := s.methods[info.FullMethod]
	if !ok {
		return nil, apipb.NewError(codes.Unimplemented, nil, "method %s has no route", info.FullMethod)
	}
	if v, ok := req.(interface{ Validate() error }); ok {
		if err := v.Validate(); err != nil {
			return nil, invalid(err)
		}
	}
	here := func() (any, error) {
		resp, err := guarded(func() (any, error) { return handler(ctx, req) })
		return resp, s.Fail(err)
	}
	if m.need == anyone || m.need == leaderOrStale && stale(req) {
		return here()
	}
	patience := time.NewTimer(s.patience(ctx))
	defer patience.Stop()
	for {
		leader, err := s.awaitLeader(ctx, patience.C)
		if err != nil {
			return nil, err
		}
		asked := time.Now()
		var resp any
		if leader.Here {
			resp, err = here()
		} else {
			resp, err = s.forward(ctx, leader, m, info.FullMethod, req)
		}
		if err == nil {
			return resp, nil
		}
		if m.repeat != again || isForwarded(ctx) || !leaderLost(err) {
			return nil, err
		}
		if time.Since(asked) > s.cfg.NoLeaderWait {
			patience.Reset(s.patience(ctx)) // a long wait had a leader for most of its time
		}
		if !s.awaitChange(ctx, leader, patience.C) {
			return nil, err
		}
	}
}

// guarded turns a panic of a handler into an error: one request that meets a bug must not end the coordinator for all.
func guarded(call func() (any, error)) (resp any, err error) {
	defer func() {
		if v := recover(); v != nil {
			resp, err = nil, &run.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return call()
}

// forward makes the one hop.
func (s *Server) forward(ctx context.Context, leader Leader, m method, name string, req any) (any, error) {
	conn, err := s.dialer.Conn(leader.Address)
	if err != nil {
		return nil, s.Fail(fmt.Errorf("connect to leader %s: %w", leader.ID, err))
	}
	reigning, release := s.whileLeading(Forwarded(ctx, s.cfg.ID), leader)
	defer release()
	resp := m.out.New().Interface()
	if err := conn.Invoke(reigning, name, req, resp); err != nil {
		return nil, s.lost(ctx, leader, superseded(reigning, err))
	}
	return resp, nil
}

// errSuperseded ends what was asked of a leader that says nothing and has a successor.
var errSuperseded = errors.New("it has a successor and does not answer")

// answerGrace is how long a leader that has a successor may still answer. One that runs knows within a moment that it
// does not lead any more and says so, or tells that it has just handed over as it was asked to; one that is paused, or
// cut off with its connections open, would keep the caller waiting until these break.
const answerGrace = time.Second

// whileLeading bounds ctx by the reign of a leader. release has to be called.
func (s *Server) whileLeading(ctx context.Context, leader Leader) (reigning context.Context, release func()) {
	reigning, cancel := context.WithCancelCause(ctx)
	watch := run.NewGroup(reigning, "reign of "+leader.ID)
	watch.Go("watch", func(ctx context.Context) error {
		if s.awaitSuccessor(ctx, leader) {
			cancel(errSuperseded)
		}
		return nil
	})
	return reigning, func() {
		cancel(nil)
		_ = watch.Wait() // it returns no error
	}
}

// awaitSuccessor returns when another leader has been known for the grace; false: ctx has ended.
func (s *Server) awaitSuccessor(ctx context.Context, old Leader) bool {
	for {
		leader, changed := s.leadership.Leader()
		if leader.ID != "" && (leader.ID != old.ID || leader.Term != old.Term) {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
	grace := time.NewTimer(answerGrace)
	defer grace.Stop()
	select {
	case <-grace.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// superseded is err, or that of a lost leader if that is why the call has ended.
func superseded(reigning context.Context, err error) error {
	if errors.Is(context.Cause(reigning), errSuperseded) {
		return apipb.NewError(codes.Unavailable, nil, "%s", errSuperseded)
	}
	return err
}

// lost gives an error of the connection to the leader the form that clients know. Errors that the leader said pass.
func (s *Server) lost(ctx context.Context, leader Leader, err error) error {
	if _, coded := apipb.DetailOf(err); coded || apipb.CodeOf(err) != codes.Unavailable || ctx.Err() != nil {
		return err
	}
	return apipb.NewError(codes.Unavailable, &apipb.ErrorDetail{
		Code: CodeNoLeader, Retryable: true, UnknownOutcome: true,
		Hints: []string{"ask again with the same request id: it is done once, however often it is asked"},
	}, "leader %s was lost in the middle of the call: %s", leader.ID, apipb.MessageOf(err))
}

// leaderLost: another leader may answer the call.
func leaderLost(err error) bool {
	detail, ok := apipb.DetailOf(err)
	return ok && apipb.CodeOf(err) == codes.Unavailable && (detail.Code == CodeNoLeader || detail.Code == CodeUnknownOutcome)
}

// replyReserve is the part of a deadline that is kept for saying why.
const replyReserve = 200 * time.Millisecond

// patience is how long a call may wait for a leader.
func (s *Server) patience(ctx context.Context) time.Duration {
	wait := s.cfg.NoLeaderWait
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		left -= min(replyReserve, left/4)
		wait = min(wait, left)
	}
	return wait
}

// awaitLeader returns a leader that can be asked: this node, or one whose address is known.
func (s *Server) awaitLeader(ctx context.Context, patience <-chan time.Time) (Leader, error) {
	forwarded := isForwarded(ctx)
	for {
		leader, changed := s.leadership.Leader()
		switch {
		case leader.Here:
			return leader, nil
		case forwarded && leader.ID != s.cfg.ID:
			return Leader{}, s.noLeader(ErrNotLeader)
		case leader.ID != "" && leader.ID != s.cfg.ID && leader.Address != "":
			return leader, nil
		}
		select {
		case <-changed:
		case <-patience:
			return Leader{}, s.noLeader(fmt.Errorf("none was elected in time"))
		case <-ctx.Done():
			return Leader{}, s.Fail(context.Cause(ctx))
		}
	}
}

// retryPause keeps a follower that has not noticed yet from asking a dead leader over and over.
const retryPause = 50 * time.Millisecond

// awaitChange waits until it is worth asking again: leadership has moved, or a moment has passed. It reports false when
// the call's time is over.
func (s *Server) awaitChange(ctx context.Context, old Leader, patience <-chan time.Time) bool {
	leader, changed := s.leadership.Leader()
	if leader.ID != old.ID || leader.Term != old.Term || leader.Here != old.Here {
		return true
	}
	pause := time.NewTimer(retryPause)
	defer pause.Stop()
	select {
	case <-changed:
		return true
	case <-pause.C:
		return true
	case <-patience:
		return false
	case <-ctx.Done():
		return false
	}
}

// stream answers a streaming call here or relays it to the leader.
func (s *Server) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	m, ok := s.methods[info.FullMethod]
	if !ok {
		return apipb.NewError(codes.Unimplemented, nil, "method %s has no route", info.FullMethod)
	}
	here := func() error {
		_, err := guarded(func() (any, error) { return nil, handler(srv, ss) })
		return s.Fail(err)
	}
	if m.need == anyone {
		return here()
	}
	ctx := ss.Context()
	patience := time.NewTimer(s.patience(ctx))
	defer patience.Stop()
	leader, err := s.awaitLeader(ctx, patience.C)
	if err != nil {
		return err
	}
	if leader.Here {
		return here()
	}
	conn, err := s.dialer.Conn(leader.Address)
	if err != nil {
		return s.Fail(fmt.Errorf("connect to leader %s: %w", leader.ID, err))
	}
	reigning, release := s.whileLeading(Forwarded(ctx, s.cfg.ID), leader)
	defer release()
	desc := &grpc.StreamDesc{ClientStreams: m.clientStream, ServerStreams: m.serverStream}
	up, err := conn.NewStream(reigning, desc, info.FullMethod)
	if err != nil {
		return s.lost(ctx, leader, superseded(reigning, err))
	}
	if err := s.relay(ss, up, m); err != nil {
		return s.Fail(s.lost(ctx, leader, superseded(reigning, err)))
	}
	return nil
}

// relay copies a call whose one side is a single message; a call that streams both ways is never forwarded.
func (s *Server) relay(down grpc.ServerStream, up grpc.ClientStream, m method) error {
	if err := s.relayRequests(down, up, m); err != nil {
		return err
	}
	for {
		resp := m.out.New().Interface()
		if err := up.RecvMsg(resp); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := down.SendMsg(resp); err != nil {
			return err
		}
		if !m.serverStream {
			return nil
		}
	}
}

func (s *Server) relayRequests(down grpc.ServerStream, up grpc.ClientStream, m method) error {
	requests := receive(down.Context(), s.cfg.Group, func() (proto.Message, error) {
		req := m.in.New().Interface()
		return req, down.RecvMsg(req)
	})
	for {
		req, err := requests.next(down.Context())
		if errors.Is(err, io.EOF) {
			return up.CloseSend()
		} else if err != nil {
			return err
		}
		if err := up.SendMsg(req); errors.Is(err, io.EOF) {
			return nil // the leader has answered already: its answer says why
		} else if err != nil {
			return err
		}
		if !m.clientStream {
			return up.CloseSend()
		}
	}
}
