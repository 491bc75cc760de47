package pipe

import (
	"container/list"
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/sluiceio/sluice/internal/run"
)

// handshakes is how many connections may be without a preface at a time. A newcomer beyond that displaces the oldest:
// a peer writes its preface as soon as it is connected, so whoever has waited longest is idle, and however many idle
// connections there are, none of them delays a peer.
const handshakes = 1024

// Outcomes beside the answers.
const (
	OutcomeNotAccepted = "accept-failed" // the system gave no descriptor
	OutcomeBadPreface  = "bad-preface"   // too slow, displaced, or not a preface
	OutcomeOwn         = "agent"         // for the agent itself
	OutcomeNotPassed   = "not-passed"    // the process is dying or stuck; the dialler sees the connection end
)

// acceptPause is how long accepting pauses when the system has no descriptor to give.
const acceptPause = 20 * time.Millisecond

// Port is the single data port of a worker: it reads the preface of a connection, answers with one byte and passes the
// descriptor on. The records that follow never come near the agent, except those of the results that it keeps: a
// connection whose preface names no process is for the agent itself.
type Port struct {
	Listener net.Listener
	// Timeout bounds the handshake of one connection.
	Timeout time.Duration
	// Route decides where a connection goes; the sender matters for Accepted only. It must not block.
	Route func(Preface) (Answer, *Sender)
	// Own gets the connections for the agent itself; nil: there is nothing for them.
	Own *Own
	// Note hears what became of each connection: the answer, or one of the outcomes below, with its error. It must not
	// block.
	Note func(outcome string, err error)

	mu struct {
		sync.Mutex
		waiting *list.List // of net.Conn without a preface, oldest first
		closed  bool
	}
}

// Run accepts connections until ctx is done, and returns when none is left with the agent.
func (d *Port) Run(ctx context.Context) error {
	d.mu.waiting = list.New()
	g := run.NewGroup(ctx, "data port")
	g.Go("close", func(ctx context.Context) error {
		<-ctx.Done()
		d.close()
		return d.Listener.Close()
	})
	g.Go("accept", func(ctx context.Context) error { return d.accept(ctx, g) })
	return g.Wait()
}

func (d *Port) accept(ctx context.Context, g *run.Group) error {
	for {
		conn, err := d.Listener.Accept()
		switch {
		case err == nil:
			at := d.admit(conn)
			if at == nil {
				return nil
			}
			g.Go("handshake", func(context.Context) error {
				d.serve(conn, at)
				return nil
			})
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return nil
		default:
			// Out of descriptors, most likely. Those in use come back.
			d.Note(OutcomeNotAccepted, err)
			if !pause(ctx, acceptPause) {
				return nil
			}
		}
	}
}

// admit notes a connection that still has to introduce itself, and displaces the oldest one if there are too many. It
// returns nil when the port is closed.
func (d *Port) admit(conn net.Conn) *list.Element {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.closed {
		_ = conn.Close()
		return nil
	}
	if d.mu.waiting.Len() >= handshakes {
		oldest := d.mu.waiting.Front()
		d.mu.waiting.Remove(oldest)
		_ = oldest.Value.(net.Conn).Close()
	}
	return d.mu.waiting.PushBack(conn)
}

func (d *Port) leave(at *list.Element) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.waiting.Remove(at) // nothing, if it was displaced
}

// close ends every handshake in progress.
func (d *Port) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.closed = true
	for e := d.mu.waiting.Front(); e != nil; e = e.Next() {
		_ = e.Value.(net.Conn).Close()
	}
}

// serve leads one connection to its process, or to the agent. The agent's own descriptor is closed in any other case.
func (d *Port) serve(conn net.Conn, at *list.Element) {
	kept := false
	defer func() {
		if !kept {
			_ = conn.Close()
		}
	}()
	deadline := time.Now().Add(d.Timeout)
	err := conn.SetDeadline(deadline)
	var preface Preface
	if err == nil {
		preface, err = ReadPreface(conn)
	}
	d.leave(at)
	if err != nil {
		d.Note(OutcomeBadPreface, err)
		return
	}
	if preface.Process == 0 {
		kept = d.keep(conn)
		return
	}
	answer, conns := d.Route(preface)
	if _, err = conn.Write([]byte{byte(answer)}); answer != Accepted || err != nil {
		d.Note(answer.String(), err)
		return
	}
	raw, ok := conn.(syscall.Conn)
	if !ok {
		err = errors.New("the connection has no descriptor")
	} else {
		err = conns.Pass(deadline, raw, preface)
	}
	if err != nil {
		d.Note(OutcomeNotPassed, err)
		return
	}
	d.Note(answer.String(), nil)
}

// keep gives a connection to the agent itself. False: it is not wanted.
func (d *Port) keep(conn net.Conn) bool {
	answer := Accepted
	if d.Own == nil {
		answer = Gone
	}
	_, err := conn.Write([]byte{byte(answer)})
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil || answer != Accepted {
		d.Note(answer.String(), err)
		return false
	}
	if !d.Own.offer(conn) {
		d.Note(OutcomeNotPassed, errors.New("the agent is busy, or stops"))
		return false
	}
	d.Note(OutcomeOwn, nil)
	return true
}
