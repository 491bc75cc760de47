package worker

import (
	"container/list"
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/sluiceio/sluice/internal/pipe"
	"github.com/sluiceio/sluice/internal/run"
)

// handshakes is how many connections may be without a preface at a time. A newcomer beyond that displaces the oldest:
// a peer writes its preface as soon as it is connected, so whoever has waited longest is idle, and however many idle
// connections there are, none of them delays a peer.
const handshakes = 1024

// acceptPause is how long accepting pauses when the system has no descriptor to give.
const acceptPause = 20 * time.Millisecond

// dataPort hands data connections over to task processes. It reads the preface, answers with one byte and passes the
// descriptor on; the records that follow never come near the agent.
type dataPort struct {
	listener net.Listener
	timeout  time.Duration
	route    func(pipe.Preface) (pipe.Answer, *pipe.Sender)
	count    func(outcome string)
	log      hclog.Logger

	mu struct {
		sync.Mutex
		waiting *list.List // of net.Conn without a preface, oldest first
		closed  bool
	}
}

// run accepts connections until ctx is done, and returns when none is left with the agent.
func (d *dataPort) run(ctx context.Context) error {
	d.mu.waiting = list.New()
	g := run.NewGroup(ctx, "data port")
	g.Go("close", func(ctx context.Context) error {
		<-ctx.Done()
		d.close()
		return d.listener.Close()
	})
	g.Go("accept", func(ctx context.Context) error { return d.accept(ctx, g) })
	return g.Wait()
}

func (d *dataPort) accept(ctx context.Context, g *run.Group) error {
	for {
		conn, err := d.listener.Accept()
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
			d.count("accept-failed")
			d.log.Warn("data connection cannot be accepted", "error", err)
			timer := time.NewTimer(acceptPause)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return nil
			}
		}
	}
}

// admit notes a connection that still has to introduce itself, and displaces the oldest one if there are too many. It
// returns nil when the port is closed.
func (d *dataPort) admit(conn net.Conn) *list.Element {
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

func (d *dataPort) leave(at *list.Element) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.waiting.Remove(at) // nothing, if it was displaced
}

// close ends every handshake in progress.
func (d *dataPort) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.closed = true
	for e := d.mu.waiting.Front(); e != nil; e = e.Next() {
		_ = e.Value.(net.Conn).Close()
	}
}

// serve leads one connection to its process. The agent's own descriptor is closed in any case.
func (d *dataPort) serve(conn net.Conn, at *list.Element) {
	defer conn.Close()
	deadline := time.Now().Add(d.timeout)
	err := conn.SetDeadline(deadline)
	var preface pipe.Preface
	if err == nil {
		preface, err = pipe.ReadPreface(conn)
	}
	d.leave(at)
	if err != nil {
		d.count("bad-preface")
		d.log.Debug("data connection without a valid preface", "from", conn.RemoteAddr(), "error", err)
		return
	}
	answer, conns := d.route(preface)
	d.count(answer.String())
	if _, err := conn.Write([]byte{byte(answer)}); err != nil || answer != pipe.Accepted {
		return
	}
	raw, ok := conn.(syscall.Conn)
	if !ok {
		d.log.Error("data connection has no descriptor", "type", conn)
		return
	}
	if err := conns.Pass(deadline, raw, preface); err != nil {
		// The process is dying or stuck. The dialler sees the connection end, as it would have a moment later.
		d.count("not-passed")
		d.log.Debug("data connection was not taken by its process", "process", preface.Process, "error", err)
	}
}
