package clustertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"google.golang.org/grpc/test/bufconn"
)

// Network is an in-memory network of named hosts. A host that is cut off loses every connection at once and can neither
// dial nor be dialled, like a machine whose power fails. All methods may be called from any goroutine.
type Network struct {
	mu struct {
		sync.Mutex
		listeners map[string]*listener // by address
		cut       map[string]bool      // by host
		conns     map[*conn]struct{}
	}
}

// NewNetwork makes an empty network.
func NewNetwork() *Network {
	n := &Network{}
	n.mu.listeners = make(map[string]*listener)
	n.mu.cut = make(map[string]bool)
	n.mu.conns = make(map[*conn]struct{})
	return n
}

const bufferBytes = 256 << 10

var errCut = errors.New("the network is cut")

// Listen opens an address (host:port) on a host of the network.
func (n *Network) Listen(address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	l := &listener{Listener: bufconn.Listen(bufferBytes), network: n, address: address, host: host}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.listeners[address] != nil {
		return nil, fmt.Errorf("address %s is in use", address)
	}
	n.mu.listeners[address] = l
	return l, nil
}

// Dialer dials in the name of a host.
func (n *Network) Dialer(host string) func(ctx context.Context, address string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		to, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		n.mu.Lock()
		l := n.mu.listeners[address]
		cut := n.mu.cut[host] || n.mu.cut[to]
		n.mu.Unlock()
		if cut {
			return nil, fmt.Errorf("dial %s: %w", address, errCut)
		}
		if l == nil {
			return nil, fmt.Errorf("dial %s: connection refused", address)
		}
		raw, err := l.Listener.(*bufconn.Listener).DialContext(ctx)
		if err != nil {
			return nil, fmt.Errorf("dial %s: %w", address, err)
		}
		c := &conn{Conn: raw, network: n, from: host, to: to}
		n.mu.Lock()
		defer n.mu.Unlock()
		n.mu.conns[c] = struct{}{}
		return c, nil
	}
}

// Cut takes a host off the network.
func (n *Network) Cut(host string) {
	n.mu.Lock()
	n.mu.cut[host] = true
	var gone []*conn
	for c := range n.mu.conns {
		if c.from == host || c.to == host {
			gone = append(gone, c)
		}
	}
	n.mu.Unlock()
	for _, c := range gone {
		// Only tells the other end that the pipe is closed; there is nothing to do about an error.
		_ = c.Close()
	}
}

// Heal brings a host back.
func (n *Network) Heal(host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.mu.cut, host)
}

type listener struct {
	net.Listener
	network *Network
	address string
	host    string
}

func (l *listener) Addr() net.Addr { return addr(l.address) }

func (l *listener) Close() error {
	l.network.mu.Lock()
	if l.network.mu.listeners[l.address] == l {
		delete(l.network.mu.listeners, l.address)
	}
	l.network.mu.Unlock()
	return l.Listener.Close()
}

type addr string

func (addr) Network() string  { return "mem" }
func (a addr) String() string { return string(a) }

type conn struct {
	net.Conn
	network  *Network
	from, to string
}

func (c *conn) Close() error {
	c.network.mu.Lock()
	delete(c.network.mu.conns, c)
	c.network.mu.Unlock()
	return c.Conn.Close()
}
