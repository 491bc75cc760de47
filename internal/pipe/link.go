package pipe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/protobuf/proto"
)

// Layout of a frame header; docs/format/pipe.md.
const (
	frameMagic      = uint32('S') | uint32('L')<<8 | uint32('P')<<16 | frameVersion<<24
	frameVersion    = 1
	frameHeaderSize = 12
	// MaxFrame bounds the body of one frame, in bytes. A plan with all its deployments is far below.
	MaxFrame = 64 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrFrame says that the peer does not speak this protocol, or that its bytes were damaged. The link is of no use
// any more.
var ErrFrame = errors.New("bad frame")

// Message is what travels on a Link: it is validated before it is trusted.
type Message interface {
	proto.Message
	Validate() error
}

// Link carries protobuf messages over a stream socket.
type Link struct {
	conn   net.Conn
	broken atomic.Bool // a frame was cut short: nothing may follow it
}

// NewLink takes over conn.
func NewLink(conn net.Conn) *Link { return &Link{conn: conn} }

// Send writes one message. It blocks while the peer does not read, until ctx is done. After a failure nothing can be sent
// any more, because what follows a cut message would be misread; what the peer has said can still be received.
func (l *Link) Send(ctx context.Context, m proto.Message) error {
	frame, err := appendFrame(nil, m)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	if l.broken.Load() {
		return fmt.Errorf("send: %w", net.ErrClosed)
	}
	fired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(fired)
		// Every send in progress fails with it. That is right: they wait for the same peer, and the frame that is
		// cut short ends the link for all of them.
		_ = l.conn.SetWriteDeadline(time.Unix(1, 0))
	})
	// One Write call is one frame: concurrent calls of net.Conn do not interleave.
	_, err = l.conn.Write(frame)
	if !stop() {
		<-fired
		if err == nil { // it was sent all the same
			err = l.conn.SetWriteDeadline(time.Time{})
		}
	}
	if err == nil {
		return nil
	}
	l.broken.Store(true)
	if half, ok := l.conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // the peer learns that no more comes; it may be gone already
	}
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("send: %w", cause)
	}
	return fmt.Errorf("send: %w", err)
}

// Receive reads the next message into m, which is emptied before. The peer's orderly end between two frames is io.EOF.
func (l *Link) Receive(m Message) error {
	body, err := readFrame(l.conn)
	if err != nil {
		return err
	}
	if err := proto.Unmarshal(body, m); err != nil {
		return fmt.Errorf("%w: %w", ErrFrame, err)
	}
	if err := m.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrFrame, err)
	}
	return nil
}

// SetReceiveDeadline bounds the receive in progress and later ones; zero: no bound.
func (l *Link) SetReceiveDeadline(t time.Time) error { return l.conn.SetReadDeadline(t) }

// Close ends the link. The peer reads what was sent before, then io.EOF.
func (l *Link) Close() error { return l.conn.Close() }

// appendFrame appends the frame of m to b.
func appendFrame(b []byte, m proto.Message) ([]byte, error) {
	size := proto.Size(m)
	if size > MaxFrame {
		return nil, fmt.Errorf("send: message of %d bytes is above the bound of %d", size, MaxFrame)
	}
	start := len(b)
	b = append(b, make([]byte, frameHeaderSize)...)
	b, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(b, m)
	if err != nil {
		return nil, fmt.Errorf("send: %w", err)
	}
	header, body := b[start:start+frameHeaderSize], b[start+frameHeaderSize:]
	binary.LittleEndian.PutUint32(header, frameMagic)
	binary.LittleEndian.PutUint32(header[4:], uint32(len(body)))
	binary.LittleEndian.PutUint32(header[8:], crc32.Checksum(body, castagnoli))
	return b, nil
}

// readFrame returns the body of the next frame.
func readFrame(r io.Reader) ([]byte, error) {
	var header [frameHeaderSize]byte
	if n, err := io.ReadFull(r, header[:]); err != nil {
		// A peer that ends without having read everything resets the socket: it is gone all the same.
		if errors.Is(err, io.EOF) || n == 0 && errors.Is(err, syscall.ECONNRESET) {
			return nil, io.EOF
		}
		return nil, fmt.Errorf("receive: %w", err)
	}
	if magic := binary.LittleEndian.Uint32(header[:]); magic != frameMagic {
		return nil, fmt.Errorf("%w: begins with %#08x", ErrFrame, magic)
	}
	size := binary.LittleEndian.Uint32(header[4:])
	if size > MaxFrame {
		return nil, fmt.Errorf("%w: %d bytes are above the bound of %d", ErrFrame, size, MaxFrame)
	}
	body, err := readBody(r, int(size))
	if err != nil {
		return nil, fmt.Errorf("receive: %w", err)
	}
	if sum := crc32.Checksum(body, castagnoli); sum != binary.LittleEndian.Uint32(header[8:]) {
		return nil, fmt.Errorf("%w: checksum differs", ErrFrame)
	}
	return body, nil
}

// bodyStep is how much memory a header alone can claim, in bytes.
const bodyStep = 1 << 20

// readBody reads size bytes; memory grows only as fast as bytes arrive.
func readBody(r io.Reader, size int) ([]byte, error) {
	body := make([]byte, min(size, bodyStep))
	for done := 0; ; {
		n, err := io.ReadFull(r, body[done:])
		done += n
		if errors.Is(err, io.EOF) {
			return nil, io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
		if done == size {
			return body, nil
		}
		body = append(body, make([]byte, min(size-done, len(body)))...)
	}
}
