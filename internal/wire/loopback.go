package wire

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// The ports that FreeLoopback draws from. Systems take the local ports of outgoing connections from above (Linux from
// 32768, others from 49152 on), so that a node which was stopped finds its port free when it comes back: with a port
// that the system chose, any connection of any process may have it by then.
const (
	firstPort = 20_000
	lastPort  = 32_000
)

var drawn struct {
	sync.Mutex
	ports map[int]bool // never drawn again by this process
}

// FreeLoopback draws n different loopback addresses on which nothing listens at this moment, for clusters on one machine,
// whose nodes must know their addresses before they start and keep them over restarts. No two calls in a process return
// the same address. Another process may still take one before it is used; the listener then fails, loudly.
func FreeLoopback(ctx context.Context, n int) ([]string, error) {
	drawn.Lock()
	defer drawn.Unlock()
	if drawn.ports == nil {
		drawn.ports = map[int]bool{}
	}
	var free []string
	last := context.Cause(ctx)
	for range 100 * (n + 10) {
		if len(free) == n || ctx.Err() != nil {
			break
		}
		port := firstPort + rand.IntN(lastPort-firstPort)
		if drawn.ports[port] {
			continue
		}
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		l, err := Policy{}.Listen(ctx, address)
		if err != nil {
			last = err
			continue
		}
		if err := l.Close(); err != nil {
			return nil, err
		}
		drawn.ports[port] = true
		free = append(free, address)
	}
	if len(free) == n {
		return free, nil
	}
	return nil, fmt.Errorf("draw %d free ports between %d and %d: %w", n, firstPort, lastPort, last)
}
