package pipe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/sluiceio/sluice/internal/wire"
)

// ErrGone says that the process that a connection was meant for has ended.
var ErrGone = errors.New("task process is gone")

// ErrNotYet says that the process did not become reachable within the connect timeout.
var ErrNotYet = errors.New("task process is not there yet")

// Waits between two tries of a Dialer.
const (
	firstRetry = 5 * time.Millisecond
	lastRetry  = 250 * time.Millisecond
)

// Dialer opens data connections to task processes. The zero value dials loopback with a timeout of 10 s.
type Dialer struct {
	Policy wire.Policy
	// ConnectTimeout bounds all tries together; 0: 10 s.
	ConnectTimeout time.Duration
}

// Dial connects to the task process that p names, through the data port of its worker. A worker that cannot be
// reached and one that knows nothing of the process yet are asked again, with growing pauses, until the connect
// timeout; that the process is gone is final. The deadline of ctx is obeyed when it is nearer.
func (d Dialer) Dial(ctx context.Context, addr string, p Preface) (net.Conn, error) {
	timeout := d.ConnectTimeout
	if timeout <= 0 {
		timeout = 10 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var last error // of a try that had its time
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		conn, err := d.try(ctx, addr, p)
		if err == nil {
			return conn, nil
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		if errors.Is(err, ErrGone) || !pause(ctx, wait) {
			return nil, fmt.Errorf("connect to process %d at %s: %w", p.Process, addr, last)
		}
	}
}

// pause waits for d, or returns false when ctx is done before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (d Dialer) try(ctx context.Context, addr string, p Preface) (net.Conn, error) {
	conn, err := d.Policy.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	if err := introduce(ctx, conn, p); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// introduce writes the preface and reads the answer.
func introduce(ctx context.Context, conn net.Conn, p Preface) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	b := p.Encode()
	if _, err := conn.Write(b[:]); err != nil {
		return fmt.Errorf("write preface: %w", err)
	}
	var answer [1]byte
	if _, err := io.ReadFull(conn, answer[:]); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if !stop() {
		// The deadline may be set at any moment from now on: the connection must not be handed out.
		return context.Cause(ctx)
	}
	switch a := Answer(answer[0]); a {
	case Accepted:
		return nil
	case NotYet:
		return ErrNotYet
	case Gone:
		return ErrGone
	default:
		return fmt.Errorf("%w: unknown %s", ErrPreface, a)
	}
}
