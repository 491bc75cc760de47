package pipe

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// Sender passes connections to a task process.
type Sender struct{ conn *net.UnixConn }

// Pass gives the process its own copy of conn; the caller still has to close its own. It blocks while the process
// does not accept, at least until the deadline: the socket has one, and of calls at the same time the last one sets it.
func (s *Sender) Pass(deadline time.Time, conn syscall.Conn, p Preface) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return fmt.Errorf("pass connection: %w", err)
	}
	if err := s.conn.SetWriteDeadline(deadline); err != nil {
		return fmt.Errorf("pass connection: %w", err)
	}
	b := p.Encode()
	var sendErr error
	err = raw.Control(func(fd uintptr) {
		var n int
		if n, _, sendErr = s.conn.WriteMsgUnix(b[:], rights(int(fd)), nil); sendErr == nil && n < len(b) {
			// The rest could not be told from the next preface.
			sendErr = errors.Join(io.ErrShortWrite, s.conn.Close())
		}
	})
	if err = errors.Join(err, sendErr); err != nil {
		return fmt.Errorf("pass connection: %w", err)
	}
	return nil
}

// Close ends the sending side; Accept of the process fails then.
func (s *Sender) Close() error { return s.conn.Close() }

// Listener delivers the connections that the agent passes. It is a net.Listener.
type Listener struct {
	conn *net.UnixConn
	// Faults, if set before the first Accept, hears of connections that were passed but could not be taken over (no
	// free descriptor, for example). Their dialler sees them closed.
	Faults func(error)
}

var _ net.Listener = (*Listener)(nil)

// Accept blocks for the next connection. It returns net.ErrClosed after Close, and when the agent is gone.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.next()
		switch {
		case err == nil:
			return conn, nil
		case errors.Is(err, errNotTaken):
			if l.Faults != nil {
				l.Faults(err)
			}
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("accept: %w", net.ErrClosed)
		default:
			return nil, fmt.Errorf("accept: %w", err)
		}
	}
}

var errNotTaken = errors.New("connection could not be taken over")

// next reads one passed connection: a preface with one descriptor beside it.
func (l *Listener) next() (net.Conn, error) {
	var b [PrefaceSize]byte
	var files []*os.File
	var fault error                    // the preface is read to its end all the same, or the next one would be misread
	defer func() { closeAll(files) }() // FileConn makes a copy of its own
	oob := make([]byte, rightsSpace)
	for done := 0; done < len(b); {
		n, oobn, flags, _, err := l.conn.ReadMsgUnix(b[done:], oob)
		if err == nil && n == 0 {
			err = io.EOF
		}
		if err != nil {
			return nil, err
		}
		done += n
		got, err := received(oob[:oobn], flags)
		files = append(files, got...)
		fault = errors.Join(fault, err)
	}
	if _, err := DecodePreface(b); err != nil {
		return nil, err
	}
	if fault != nil {
		return nil, fmt.Errorf("%w: %w", errNotTaken, fault)
	}
	if len(files) != 1 {
		return nil, fmt.Errorf("%w: %d descriptors instead of one", errNotTaken, len(files))
	}
	conn, err := net.FileConn(files[0])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotTaken, err)
	}
	return conn, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// Close ends Accept.
func (l *Listener) Close() error { return l.conn.Close() }

// Addr names the link; there is no address that anyone could dial.
func (l *Listener) Addr() net.Addr { return l.conn.LocalAddr() }

// SetDeadline bounds the Accept in progress and later ones.
func (l *Listener) SetDeadline(t time.Time) error { return l.conn.SetReadDeadline(t) }
