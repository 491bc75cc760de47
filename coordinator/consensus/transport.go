package consensus

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// Base is what Transport needs from the transport that it guards.
type Base interface {
	raft.Transport
	raft.WithPreVote
	raft.WithClose
}

// Transport is the only transport that this project gives to Raft.
//
// # Heartbeats take the main road
//
// SetHeartbeatHandler does nothing. Raft offers a fast path on which the transport answers a heartbeat itself, by
// calling into Raft from the connection's goroutine while Raft's main goroutine may be in the middle of a request from
// another leader. The handler there is appendEntries itself, "only to be called from the main thread": it moves
// the term and the role without a lock, so that a follower that grants a vote in the same instant can be left with a
// term that it never stored, or answer an old leader after it has voted for a new one (raft issue 695; the code path
// is unchanged in v1.8.0). The fast path exists so that a follower that waits for its disk does not look dead.
// We prefer that it does: a disk that stands still for an election timeout is reason enough to elect someone whose
// disk does not, and the timeouts are chosen for it (ten times the measured fsync).
//
// # One request at a time
//
// AppendEntriesPipeline refuses. Pipelining has been measured by its authors to worsen latency under load (raft pull
// request 541), and a synchronous request is the simpler path to reason about. The network transport is also
// configured with MaxRPCsInFlight 1; refusing here makes every other transport behave alike.
//
// # A follower that is back is not kept waiting
//
// Raft backs off from a follower that does not answer, by count of failures, to ten seconds. Nothing interrupts such a
// pause, so a follower that was away for a while and is back (its heartbeats say so) gets no entries for up to ten
// seconds; if another one is lost in that time, the cluster commits nothing although a quorum is there. So a request
// with entries that fails waits here, for as long as the follower is away (holdBack at most), and is sent once more as
// soon as a heartbeat to it has succeeded: Raft counts few failures, and hears of success at once. (Answering for the
// follower, so that Raft does not count, was rejected: an answer renews the leader's lease.)
//
// # Snapshots over and over
//
// A follower that cannot keep up with the log while it installs a snapshot gets another one, for ever; nothing in Raft says
// so. Transport counts installs for each follower and reports the third within ten minutes, and every later one.
type Transport struct {
	Base
	onInstalls func(to raft.ServerID, installs int)

	interrupted chan struct{} // closed by Interrupt

	mu struct {
		sync.Mutex
		installs map[raft.ServerID][]time.Time   // within installWindow, oldest first
		back     map[raft.ServerID]chan struct{} // closed at the next heartbeat that succeeds
		over     bool
	}
}

const (
	installWindow  = 10 * time.Minute
	installsToTell = 3
	holdBack       = time.Minute
)

// NewTransport guards base. onInstalls is called when a follower was sent a snapshot repeatedly.
func NewTransport(base Base, onInstalls func(to raft.ServerID, installs int)) *Transport {
	t := &Transport{Base: base, onInstalls: onInstalls, interrupted: make(chan struct{})}
	t.mu.installs = make(map[raft.ServerID][]time.Time)
	t.mu.back = make(map[raft.ServerID]chan struct{})
	return t
}

// Interrupt ends every wait for a follower, now and later. It belongs before the shutdown of Raft, which waits for its
// requests.
func (t *Transport) Interrupt() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.mu.over {
		t.mu.over = true
		close(t.interrupted)
	}
}

// AppendEntries sends entries or a heartbeat.
func (t *Transport) AppendEntries(
	id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse,
) error {
	err := t.Base.AppendEntries(id, target, args, resp)
	switch {
	case isHeartbeat(args):
		if err == nil {
			t.isBack(id)
		}
		return err
	case err == nil:
		return nil
	}
	limit := time.NewTimer(holdBack)
	defer limit.Stop()
	select {
	case <-t.untilBack(id):
		return t.Base.AppendEntries(id, target, args, resp)
	case <-limit.C:
	case <-t.interrupted:
	}
	return err
}

// isHeartbeat recognises what Raft's own transports recognise.
func isHeartbeat(a *raft.AppendEntriesRequest) bool {
	return a.Term != 0 && a.PrevLogEntry == 0 && a.PrevLogTerm == 0 && len(a.Entries) == 0 && a.LeaderCommitIndex == 0
}

func (t *Transport) untilBack(id raft.ServerID) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.back[id] == nil {
		t.mu.back[id] = make(chan struct{})
	}
	return t.mu.back[id]
}

func (t *Transport) isBack(id raft.ServerID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if back := t.mu.back[id]; back != nil {
		delete(t.mu.back, id)
		close(back)
	}
}

// SetHeartbeatHandler leaves heartbeats on the main goroutine; see Transport.
func (t *Transport) SetHeartbeatHandler(func(raft.RPC)) {}

// AppendEntriesPipeline refuses to pipeline; see Transport.
func (t *Transport) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

// InstallSnapshot sends a snapshot and counts it.
func (t *Transport) InstallSnapshot(
	id raft.ServerID, target raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader,
) error {
	if n := t.countInstall(id, time.Now()); n >= installsToTell {
		t.onInstalls(id, n)
	}
	return t.Base.InstallSnapshot(id, target, args, resp, data)
}

func (t *Transport) countInstall(id raft.ServerID, now time.Time) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	recent := t.mu.installs[id]
	for len(recent) > 0 && now.Sub(recent[0]) > installWindow {
		recent = recent[1:]
	}
	recent = append(recent, now)
	t.mu.installs[id] = recent
	return len(recent)
}

// Dialer opens connections; wire.Policy is one.
type Dialer interface {
	Dial(ctx context.Context, addr string) (net.Conn, error)
}

// Network describes the connections of a network transport.
type Network struct {
	Listener net.Listener
	Dialer   Dialer
	// Advertise is the address by which others reach the listener.
	Advertise string
	// Timeout bounds a request; one that carries a snapshot gets more by its size.
	Timeout time.Duration
	Log     hclog.Logger
}

// poolPerPeer is the number of idle connections kept to each peer: one for log entries, one for heartbeats, one for votes.
const poolPerPeer = 3

// NewNetworkTransport speaks Raft over a listener, which it owns from now on.
func NewNetworkTransport(n Network) Base {
	return raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream:          newStreamLayer(n),
		MaxPool:         poolPerPeer,
		MaxRPCsInFlight: 1,
		Timeout:         n.Timeout,
		Logger:          n.Log,
	})
}

// streamLayer accepts and dials for Raft's network transport. It remembers what it accepted, because that transport
// forgets: without it, closing would leave connections and their goroutines to the mercy of the peers.
type streamLayer struct {
	net.Listener
	dialer    Dialer
	advertise string

	mu struct {
		sync.Mutex
		accepted map[*acceptedConn]struct{}
		closed   bool
	}
}

func newStreamLayer(n Network) *streamLayer {
	s := &streamLayer{Listener: n.Listener, dialer: n.Dialer, advertise: n.Advertise}
	s.mu.accepted = make(map[*acceptedConn]struct{})
	return s
}

// Addr is the advertised address, not the listener's.
func (s *streamLayer) Addr() net.Addr { return address(s.advertise) }

// Dial connects to a peer.
func (s *streamLayer) Dial(addr raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return s.dialer.Dial(ctx, string(addr))
}

// Accept waits for a peer.
func (s *streamLayer) Accept() (net.Conn, error) {
	conn, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if err := conn.SetReadDeadline(time.Now().Add(firstByteLimit)); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	c := &acceptedConn{Conn: conn, layer: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return nil, errors.Join(net.ErrClosed, conn.Close())
	}
	s.mu.accepted[c] = struct{}{}
	return c, nil
}

// Close ends the listener and every accepted connection.
func (s *streamLayer) Close() error {
	s.mu.Lock()
	s.mu.closed = true
	open := s.mu.accepted
	s.mu.accepted = nil
	s.mu.Unlock()
	errs := []error{s.Listener.Close()}
	for c := range open {
		errs = append(errs, c.Conn.Close())
	}
	return errors.Join(errs...)
}

// firstByteLimit is how long a peer may stay silent after it has connected. A peer connects when it has something to say,
// and keeps the connection afterwards, so only strangers are cut off.
const firstByteLimit = 10 * time.Second

// acceptedConn is read by one goroutine.
type acceptedConn struct {
	net.Conn
	layer *streamLayer
	heard bool
}

func (c *acceptedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && !c.heard {
		c.heard = true
		if lifted := c.SetReadDeadline(time.Time{}); err == nil {
			err = lifted
		}
	}
	return n, err
}

func (c *acceptedConn) Close() error {
	c.layer.mu.Lock()
	delete(c.layer.mu.accepted, c)
	c.layer.mu.Unlock()
	return c.Conn.Close()
}

// address is a host:port that is advertised and not necessarily bound.
type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }
