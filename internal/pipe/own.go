package pipe

import (
	"fmt"
	"net"
	"sync"
)

// ownQueue is how many connections for the agent may wait to be accepted. One beyond that is closed; its dialler tries
// again.
const ownQueue = 64

// Own is a net.Listener for the connections of a data port that are for the agent itself: those whose preface names no
// process.
type Own struct {
	addr  net.Addr
	conns chan net.Conn
	done  chan struct{}

	mu struct {
		sync.Mutex
		closed bool
	}
}

var _ net.Listener = (*Own)(nil)

// NewOwn makes a listener whose address is said to be addr, that of the port.
func NewOwn(addr net.Addr) *Own {
	return &Own{addr: addr, conns: make(chan net.Conn, ownQueue), done: make(chan struct{})}
}

// offer hands a connection over. False: it stays the caller's.
func (o *Own) offer(conn net.Conn) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.closed {
		return false
	}
	select {
	case o.conns <- conn:
		return true
	default:
		return false
	}
}

// Accept blocks for the next connection. It returns net.ErrClosed after Close.
func (o *Own) Accept() (net.Conn, error) {
	select {
	case conn := <-o.conns:
		return conn, nil
	case <-o.done:
		return nil, fmt.Errorf("accept: %w", net.ErrClosed)
	}
}

// Close ends Accept and the connections that nobody has accepted.
func (o *Own) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.closed {
		return nil
	}
	o.mu.closed = true
	close(o.done)
	for {
		select {
		case conn := <-o.conns:
			_ = conn.Close()
		default:
			return nil
		}
	}
}

// Addr is the address of the port.
func (o *Own) Addr() net.Addr { return o.addr }
