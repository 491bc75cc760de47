package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/sluiceio/sluice/coordinator/artifact"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/controlpb"
)

// script is a node whose leadership the test writes.
type script struct {
	Node
	mu      sync.Mutex
	leader  Leader
	changed chan struct{}
	conn    grpc.ClientConnInterface
}

func (s *script) Leader() (Leader, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leader, s.changed
}

// elect changes the leader and tells those who wait for it.
func (s *script) elect(l Leader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leader = l
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *script) Conn(string) (grpc.ClientConnInterface, error) { return s.conn, nil }

func newServer(t *testing.T, n *script) *Server {
	t.Helper()
	s, err := New(Config{ID: "me", NoLeaderWait: 5 * time.Second, Group: run.NewGroup(t.Context(), "api"), Log: hclog.NewNullLogger()}, n)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// services collects what is registered.
type services map[string]bool

func (s services) RegisterService(d *grpc.ServiceDesc, _ any) {
	for _, m := range d.Methods {
		s["/"+d.ServiceName+"/"+m.MethodName] = true
	}
	for _, m := range d.Streams {
		s["/"+d.ServiceName+"/"+m.StreamName] = true
	}
}

func (services) GetServiceInfo() map[string]grpc.ServiceInfo { return nil }

func TestEveryMethodHasARoute(t *testing.T) {
	server := newServer(t, &script{})
	registered := services{}
	server.Register(registered)
	controlpb.RegisterControlServer(registered, controlpb.UnimplementedControlServer{})
	for name := range registered {
		if _, ok := server.methods[name]; !ok {
			t.Errorf("%s has no route", name)
		}
	}
	for name := range server.methods {
		if !registered[name] {
			t.Errorf("a route for %s, which nobody serves", name)
		}
	}
}

func TestMethodWithoutRouteIsRefused(t *testing.T) {
	server := newServer(t, &script{})
	_, err := server.unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/x/Y"}, nil)
	if apipb.CodeOf(err) != codes.Unimplemented {
		t.Errorf("unary: %v", err)
	}
	err = server.stream(nil, nil, &grpc.StreamServerInfo{FullMethod: "/x/Y"}, nil)
	if apipb.CodeOf(err) != codes.Unimplemented {
		t.Errorf("stream: %v", err)
	}
}

func TestPanickingHandlerIsAnError(t *testing.T) {
	n := &script{leader: Leader{ID: "me", Here: true}, changed: make(chan struct{})}
	server := newServer(t, n)
	info := &grpc.UnaryServerInfo{FullMethod: apipb.Jobs_List_FullMethodName}
	_, err := server.unary(t.Context(), &apipb.ListRequest{}, info, func(context.Context, any) (any, error) { panic("boom") })
	if detail, _ := apipb.DetailOf(err); apipb.CodeOf(err) != codes.Internal || detail.GetCode() != CodeInternal {
		t.Errorf("%v", err)
	}
}

// far is a connection to a leader that answers as the test says.
type far struct {
	grpc.ClientConnInterface
	answer func(ctx context.Context, call int) error
	calls  int
}

func (f *far) Invoke(ctx context.Context, _ string, _, _ any, _ ...grpc.CallOption) error {
	f.calls++
	return f.answer(ctx, f.calls)
}

func TestForwardedCallMakesOneHop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &far{answer: func(ctx context.Context, _ int) error {
			md, _ := metadata.FromOutgoingContext(ctx)
			if got := md.Get(forwardedKey); len(got) != 1 || got[0] != "me" {
				t.Errorf("forwarded without a mark: %v", md)
			}
			return nil
		}}
		n := &script{leader: Leader{ID: "other", Address: "o:1", Term: 3}, changed: make(chan struct{}), conn: conn}
		server := newServer(t, n)
		info := &grpc.UnaryServerInfo{FullMethod: apipb.Jobs_List_FullMethodName}
		if _, err := server.unary(t.Context(), &apipb.ListRequest{}, info, nil); err != nil || conn.calls != 1 {
			t.Errorf("%v after %d calls", err, conn.calls)
		}
		came := metadata.NewIncomingContext(t.Context(), metadata.Pairs(forwardedKey, "third"))
		_, err := server.unary(came, &apipb.ListRequest{}, info, nil)
		if detail, _ := apipb.DetailOf(err); detail.GetCode() != CodeNoLeader || detail.Leader != "o:1" || conn.calls != 1 {
			t.Errorf("a second hop: %v after %d calls", err, conn.calls)
		}
		// A node that was elected and is not ready yet is waited for, even when the call was forwarded.
		n.elect(Leader{ID: "me"})
		time.AfterFunc(time.Second, func() { n.elect(Leader{ID: "me", Here: true}) })
		resp, err := server.unary(came, &apipb.ListRequest{}, info, func(context.Context, any) (any, error) { return "here", nil })
		if resp != "here" || err != nil {
			t.Errorf("%v, %v", resp, err)
		}
	})
}

func TestLostLeaderIsAskedAgainOnlyWhereThatIsHarmless(t *testing.T) {
	for _, c := range []struct {
		method string
		req    any
		calls  int // 0: as often as time allows
	}{
		{apipb.Jobs_Submit_FullMethodName, &apipb.ListRequest{}, 0},
		{apipb.Jobs_Cancel_FullMethodName, &apipb.CancelRequest{Job: "j-1"}, 0},
		{apipb.Cluster_RemovePeer_FullMethodName, &apipb.RemovePeerRequest{Id: "x"}, 1},
		{apipb.Cluster_TransferLeader_FullMethodName, &apipb.TransferLeaderRequest{}, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			conn := &far{answer: func(context.Context, int) error { return apipb.NewError(codes.Unavailable, nil, "connection refused") }}
			n := &script{leader: Leader{ID: "other", Address: "o:1"}, changed: make(chan struct{}), conn: conn}
			start := time.Now()
			_, err := newServer(t, n).unary(t.Context(), c.req, &grpc.UnaryServerInfo{FullMethod: c.method}, nil)
			detail, _ := apipb.DetailOf(err)
			if apipb.CodeOf(err) != codes.Unavailable || detail.GetCode() != CodeNoLeader || !detail.UnknownOutcome || !detail.Retryable {
				t.Errorf("%s: %v", c.method, err)
			}
			if c.calls > 0 && conn.calls != c.calls || c.calls == 0 && (conn.calls < 10 || time.Since(start) != 5*time.Second) {
				t.Errorf("%s: asked %d times within %s", c.method, conn.calls, time.Since(start))
			}
		})
	}
}

func TestLeaderThatComesBackAnswersTheSameCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &far{answer: func(_ context.Context, call int) error {
			if call < 4 {
				return apipb.NewError(codes.Unavailable, nil, "connection refused")
			}
			return nil
		}}
		n := &script{leader: Leader{ID: "other", Address: "o:1"}, changed: make(chan struct{}), conn: conn}
		if _, err := newServer(t, n).unary(t.Context(), &apipb.ListRequest{}, &grpc.UnaryServerInfo{FullMethod: apipb.Jobs_List_FullMethodName}, nil); err != nil {
			t.Errorf("%v after %d calls", err, conn.calls)
		}
		// What the leader refuses for good is not asked again.
		conn.calls, conn.answer = 0, func(context.Context, int) error { return unknownJob("j-1") }
		_, err := newServer(t, n).unary(t.Context(), &apipb.StatusRequest{Job: "j-1"}, &grpc.UnaryServerInfo{FullMethod: apipb.Jobs_Status_FullMethodName}, nil)
		if apipb.CodeOf(err) != codes.NotFound || conn.calls != 1 {
			t.Errorf("%v after %d calls", err, conn.calls)
		}
	})
}

// A paused leader keeps its connections open and says nothing. Its successor answers, and not only when the client gives up.
func TestASilentLeaderIsLeftForItsSuccessor(t *testing.T) {
	silent := func(ctx context.Context) error {
		<-ctx.Done()
		return apipb.NewError(codes.Canceled, nil, "context canceled")
	}
	for _, c := range []struct {
		method string
		req    any
		ok     bool
	}{
		{apipb.Jobs_Status_FullMethodName, &apipb.StatusRequest{Job: "j-1"}, true},
		{apipb.Cluster_RemovePeer_FullMethodName, &apipb.RemovePeerRequest{Id: "x"}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			conn := &far{answer: func(ctx context.Context, call int) error {
				if call == 1 {
					return silent(ctx)
				}
				return nil
			}}
			n := &script{leader: Leader{ID: "other", Address: "o:1", Term: 3}, changed: make(chan struct{}), conn: conn}
			time.AfterFunc(time.Second, func() { n.elect(Leader{Term: 3}) }) // nobody is no successor
			time.AfterFunc(2*time.Second, func() { n.elect(Leader{ID: "third", Address: "t:1", Term: 4}) })
			start := time.Now()
			_, err := newServer(t, n).unary(t.Context(), c.req, &grpc.UnaryServerInfo{FullMethod: c.method}, nil)
			if took := time.Since(start); took != 2*time.Second+answerGrace {
				t.Errorf("%s: it took %v", c.method, took)
			}
			detail, _ := apipb.DetailOf(err)
			if c.ok && err != nil || !c.ok && (detail.GetCode() != CodeNoLeader || !detail.UnknownOutcome) {
				t.Errorf("%s: %v", c.method, err)
			}
		})
	}
}

// A transfer answers after leadership has moved.
func TestALeaderThatHandsOverMaySaySo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &script{leader: Leader{ID: "other", Address: "o:1", Term: 3}, changed: make(chan struct{})}
		n.conn = &far{answer: func(ctx context.Context, _ int) error {
			n.elect(Leader{ID: "third", Address: "t:1", Term: 4})
			select {
			case <-time.After(answerGrace / 2):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		_, err := newServer(t, n).unary(t.Context(), &apipb.TransferLeaderRequest{}, &grpc.UnaryServerInfo{FullMethod: apipb.Cluster_TransferLeader_FullMethodName}, nil)
		if err != nil {
			t.Error(err)
		}
	})
}

// mute is a connection whose streams stay silent.
type mute struct{ grpc.ClientConnInterface }

func (mute) NewStream(ctx context.Context, _ *grpc.StreamDesc, _ string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	return silentStream{ctx: ctx}, nil
}

type silentStream struct {
	grpc.ClientStream
	ctx context.Context
}

func (s silentStream) SendMsg(any) error { return nil }
func (s silentStream) CloseSend() error  { return nil }
func (s silentStream) RecvMsg(any) error {
	<-s.ctx.Done()
	return apipb.NewError(codes.Canceled, nil, "context canceled")
}

// caller is the near end of a stream with one request.
type caller struct {
	grpc.ServerStream
	ctx context.Context
}

func (c caller) Context() context.Context { return c.ctx }
func (c caller) RecvMsg(any) error        { return nil }

func TestAStreamOfASilentLeaderEndsWhenItHasASuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &script{leader: Leader{ID: "other", Address: "o:1", Term: 3}, changed: make(chan struct{}), conn: mute{}}
		time.AfterFunc(2*time.Second, func() { n.elect(Leader{ID: "third", Address: "t:1", Term: 4}) })
		start := time.Now()
		err := newServer(t, n).stream(nil, caller{ctx: t.Context()}, &grpc.StreamServerInfo{FullMethod: apipb.Jobs_Events_FullMethodName}, nil)
		if detail, _ := apipb.DetailOf(err); detail.GetCode() != CodeNoLeader || !detail.Retryable || time.Since(start) != 2*time.Second+answerGrace {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

func TestErrorsHaveStableCodes(t *testing.T) {
	s := newServer(t, &script{leader: Leader{Address: "l:1"}})
	for _, c := range []struct {
		err     error
		code    codes.Code
		stable  string
		unknown bool
	}{
		{fmt.Errorf("read: %w", ErrNotLeader), codes.Unavailable, "E069", false},
		{&ProposalError{Cause: errors.New("x")}, codes.Unavailable, "E069", false},
		{fmt.Errorf("submit: %w", &ProposalError{Cause: errors.New("x"), Outcome: Unknown}), codes.Unavailable, "E070", true},
		{&Refusal{Status: codes.NotFound, Code: "E076", Cause: errors.New("x")}, codes.NotFound, "E076", false},
		{context.DeadlineExceeded, codes.DeadlineExceeded, "", false},
		{fmt.Errorf("%w: %w", artifact.ErrDigest, io.EOF), codes.InvalidArgument, "E074", false},
		{artifact.ErrMissing, codes.NotFound, "E103", false},
		{errIdle, codes.DeadlineExceeded, "E074", false},
		{apipb.NewError(codes.Aborted, nil, "from elsewhere"), codes.Aborted, "", false},
		{errors.New("a bug"), codes.Internal, "E081", false},
		{refused(state.Result{Status: state.Refused, Code: state.CodeFull}), codes.ResourceExhausted, "E108", false},
		{refused(state.Result{Status: state.Refused, Code: state.CodeNoJob}), codes.NotFound, "E102", false},
		{refused(state.Result{Status: state.Refused, Message: "x"}), codes.FailedPrecondition, "E075", false},
	} {
		got := s.Fail(c.err)
		detail, _ := apipb.DetailOf(got)
		if apipb.CodeOf(got) != c.code || detail.GetCode() != c.stable || detail.GetUnknownOutcome() != c.unknown {
			t.Errorf("%v became %v (%v)", c.err, got, detail)
		}
		if again := s.Fail(got); again != got {
			t.Errorf("%v was coded twice: %v", got, again)
		}
	}
	if s.Fail(nil) != nil {
		t.Error("nothing became an error")
	}
	// The leader's address is told with every refusal.
	if detail, _ := apipb.DetailOf(s.Fail(ErrNotLeader)); detail.Leader != "l:1" {
		t.Errorf("no hint to the leader: %v", detail)
	}
}

func TestInvalidRequestsReachNoHandler(t *testing.T) {
	server := newServer(t, &script{leader: Leader{ID: "me", Here: true}})
	for method, req := range map[string]any{
		apipb.Jobs_Submit_FullMethodName:         &apipb.SubmitRequest{},
		apipb.Jobs_Status_FullMethodName:         &apipb.StatusRequest{Job: strings.Repeat("x", 1000)},
		apipb.Cluster_AddPeer_FullMethodName:     &apipb.AddPeerRequest{Id: "a"},
		apipb.Cluster_DrainWorker_FullMethodName: &apipb.DrainWorkerRequest{},
		apipb.Node_Hello_FullMethodName:          &apipb.HelloRequest{},
		apipb.Artifacts_Stat_FullMethodName:      &apipb.StatRequest{Digest: "../x"},
	} {
		_, err := server.unary(t.Context(), req, &grpc.UnaryServerInfo{FullMethod: method}, func(context.Context, any) (any, error) {
			t.Errorf("%s: %v was handled", method, req)
			return nil, nil
		})
		if detail, _ := apipb.DetailOf(err); apipb.CodeOf(err) != codes.InvalidArgument || detail.GetCode() != "E075" {
			t.Errorf("%s: %v", method, err)
		}
	}
}
