package consensus

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/internal/wire"
)

// recorder is a transport that remembers what it is asked for.
type recorder struct {
	Base
	handler  func(raft.RPC)
	installs int
}

func (r *recorder) SetHeartbeatHandler(f func(raft.RPC)) { r.handler = f }

func (r *recorder) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, nil
}

func (r *recorder) InstallSnapshot(raft.ServerID, raft.ServerAddress, *raft.InstallSnapshotRequest, *raft.InstallSnapshotResponse, io.Reader) error {
	r.installs++
	return nil
}

func TestHeartbeatsStayOnTheMainGoroutine(t *testing.T) {
	base := &recorder{}
	NewTransport(base, nil).SetHeartbeatHandler(func(raft.RPC) {})
	if base.handler != nil {
		t.Error("the fast path for heartbeats is open")
	}
}

func TestNothingIsPipelined(t *testing.T) {
	_, err := NewTransport(&recorder{}, nil).AppendEntriesPipeline("a", "b")
	if !errors.Is(err, raft.ErrPipelineReplicationNotSupported) {
		t.Errorf("pipelining answers %v", err)
	}
}

func TestRepeatedSnapshotsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []int
		base := &recorder{}
		tr := NewTransport(base, func(to raft.ServerID, n int) {
			if to != "slow" {
				t.Errorf("told about %s", to)
			}
			told = append(told, n)
		})
		install := func(to raft.ServerID) {
			if err := tr.InstallSnapshot(to, "x", nil, nil, &bytes.Buffer{}); err != nil {
				t.Fatal(err)
			}
		}
		for range 4 {
			install("slow")
			<-time.After(time.Minute)
		}
		for range 6 { // one every six minutes is nothing to tell
			install("fine")
			<-time.After(6 * time.Minute)
		}
		if len(told) != 2 || told[0] != 3 || told[1] != 4 {
			t.Errorf("told %v, want the third and the fourth", told)
		}
		if base.installs != 10 {
			t.Errorf("%d snapshots were sent, want 10", base.installs)
		}
	})
}

func TestClosedLayerKeepsNoConnection(t *testing.T) {
	policy := wire.Policy{}
	l, err := policy.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	layer := newStreamLayer(Network{Listener: l, Dialer: policy, Advertise: "example:7"})
	if got := layer.Addr().String(); got != "example:7" {
		t.Errorf("the layer says it is at %s", got)
	}
	accepted := make(chan net.Conn, 1)
	g := run.NewGroup(t.Context(), "accept")
	g.Go("accept", func(context.Context) error {
		c, err := layer.Accept()
		accepted <- c
		return err
	})
	out, err := layer.Dial(raft.ServerAddress(l.Addr().String()), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	<-accepted
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := layer.Close(); err != nil {
		t.Fatal(err)
	}
	// The peer sees the end: nothing holds the accepted side open.
	if err := out.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !isReset(err) {
		t.Errorf("the other end reads %v", err)
	}
	if _, err := layer.Accept(); err == nil {
		t.Error("a closed layer accepts")
	}
}

func isReset(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && !op.Timeout()
}

func TestNetworkTransportTalksOverTheLayer(t *testing.T) {
	policy := wire.Policy{}
	var ends []Base
	for range 2 {
		l, err := policy.Listen(t.Context(), "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, NewNetworkTransport(Network{
			Listener: l, Dialer: policy, Advertise: l.Addr().String(), Timeout: 5 * time.Second, Log: hclog.NewNullLogger(),
		}))
	}
	g := run.NewGroup(t.Context(), "answer")
	g.Go("answer", func(ctx context.Context) error {
		select {
		case rpc := <-ends[1].Consumer():
			rpc.Respond(&raft.RequestVoteResponse{Term: rpc.Command.(*raft.RequestVoteRequest).Term + 1}, nil)
		case <-ctx.Done():
		}
		return nil
	})
	var resp raft.RequestVoteResponse
	if err := ends[0].RequestVote("b", ends[1].LocalAddr(), &raft.RequestVoteRequest{Term: 41}, &resp); err != nil || resp.Term != 42 {
		t.Errorf("response %v, %v", resp, err)
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, e := range ends {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// lame is a transport to a follower that is away until it is back.
type lame struct {
	Base
	away    atomic.Bool
	entries atomic.Int32
}

func (l *lame) AppendEntries(_ raft.ServerID, _ raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if l.away.Load() {
		return errors.New("connection refused")
	}
	if len(args.Entries) > 0 {
		l.entries.Add(1)
	}
	resp.Success = true
	return nil
}

func TestFollowerThatIsBackGetsItsEntriesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &lame{}
		base.away.Store(true)
		tr := NewTransport(base, nil)
		heartbeat, entries := &raft.AppendEntriesRequest{Term: 1}, &raft.AppendEntriesRequest{Term: 1, PrevLogEntry: 3, Entries: []*raft.Log{{}}}
		type outcome struct {
			err  error
			resp raft.AppendEntriesResponse
		}
		send := func(args *raft.AppendEntriesRequest) (o outcome) {
			o.err = tr.AppendEntries("f", "f:1", args, &o.resp)
			return o
		}
		if o := send(heartbeat); o.err == nil {
			t.Error("a heartbeat to a follower that is away succeeded")
		}
		start := time.Now()
		if o := send(entries); o.err == nil || time.Since(start) != holdBack {
			t.Errorf("held back for %s: %v", time.Since(start), o.err)
		}
		g := run.NewGroup(t.Context(), "replicate")
		sent := make(chan outcome, 1)
		g.Go("replicate", func(context.Context) error { sent <- send(entries); return nil })
		<-time.After(20 * time.Second)
		base.away.Store(false)
		start = time.Now()
		if o := send(heartbeat); o.err != nil {
			t.Fatal(o.err)
		}
		if o := <-sent; o.err != nil || !o.resp.Success || time.Since(start) != 0 || base.entries.Load() != 1 {
			t.Errorf("after %s: %v, %v", time.Since(start), o.err, o.resp)
		}
		// Shutdown does not wait.
		base.away.Store(true)
		g.Go("replicate", func(context.Context) error { sent <- send(entries); return nil })
		synctest.Wait()
		tr.Interrupt()
		tr.Interrupt()
		if o := <-sent; o.err == nil {
			t.Error("interrupted without an error")
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
	})
}

// pipes is a listener whose connections are made by hand.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) { return <-p, nil }
func (p pipes) Close() error              { return nil }
func (p pipes) Addr() net.Addr            { return address("pipes") }

func TestASilentStrangerIsCutOffAndAQuietPeerIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, speaks := range []bool{false, true} {
			l := make(pipes, 1)
			layer := newStreamLayer(Network{Listener: l})
			near, far := net.Pipe()
			l <- near
			c, err := layer.Accept()
			if err != nil {
				t.Fatal(err)
			}
			g := run.NewGroup(t.Context(), "peer")
			g.Go("speak", func(context.Context) error {
				<-time.After(firstByteLimit / 2)
				if !speaks {
					return nil
				}
				_, err := far.Write([]byte("a"))
				<-time.After(time.Hour)
				return errors.Join(err, far.Close())
			})
			start := time.Now()
			b := make([]byte, 1)
			n, err := c.Read(b)
			if speaks != (n == 1 && err == nil) {
				t.Errorf("speaks %v: read %d, %v", speaks, n, err)
			}
			if speaks {
				if _, err := c.Read(b); !errors.Is(err, io.EOF) {
					t.Errorf("a peer that is quiet for an hour and leaves ends as %v", err)
				}
			} else if took := time.Since(start); took != firstByteLimit {
				t.Errorf("a silent one was cut off after %v", took)
			}
			if err := errors.Join(g.Wait(), layer.Close()); err != nil {
				t.Error(err)
			}
			_ = far.Close()
		}
	})
}
