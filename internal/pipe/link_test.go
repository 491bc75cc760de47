package pipe

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"net"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// links are the two ends of one inherited socket.
func links(t *testing.T) (agent, process *Link) {
	t.Helper()
	here, there, err := socketPair()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := unixConn(there)
	if err != nil {
		t.Fatal(err)
	}
	agent, process = NewLink(here), NewLink(conn)
	t.Cleanup(func() { _, _ = agent.Close(), process.Close() })
	return agent, process
}

func shutdown(reason string) *taskpb.AgentMessage {
	return &taskpb.AgentMessage{Message: &taskpb.AgentMessage_Shutdown{Shutdown: &taskpb.Shutdown{Reason: reason}}}
}

func TestMessagesArriveWholeAndInOrder(t *testing.T) {
	agent, process := links(t)
	sizes := []int{0, 1, 100, bodyStep - 1, bodyStep, bodyStep + 1, 5 * bodyStep}
	g := run.NewGroup(t.Context(), "test")
	g.Go("send", func(ctx context.Context) error {
		for _, n := range sizes {
			if err := agent.Send(ctx, shutdown(strings.Repeat("x", n))); err != nil {
				return err
			}
		}
		return agent.Close()
	})
	for _, n := range sizes {
		m := *new(taskpb.AgentMessage)
		if err := process.Receive(&m); err != nil {
			t.Fatalf("message of %d bytes: %v", n, err)
		}
		if got := len(m.GetShutdown().GetReason()); got != n {
			t.Fatalf("message of %d bytes arrived with %d", n, got)
		}
	}
	var m taskpb.AgentMessage
	if err := process.Receive(&m); !errors.Is(err, io.EOF) {
		t.Fatalf("after the last message: %v, want EOF", err)
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

func TestSendersAtTheSameTimeDoNotMixTheirMessages(t *testing.T) {
	agent, process := links(t)
	const senders, each = 8, 50
	g := run.NewGroup(t.Context(), "test")
	for i := range senders {
		g.Go("send", func(ctx context.Context) error {
			for range each {
				if err := agent.Send(ctx, shutdown(strings.Repeat(string(rune('a'+i)), 40_000))); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for range senders * each {
		var m taskpb.AgentMessage
		if err := process.Receive(&m); err != nil {
			t.Fatal(err)
		}
		r := m.GetShutdown().Reason
		if strings.Trim(r, r[:1]) != "" {
			t.Fatal("two messages were mixed")
		}
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

func TestSendToAPeerThatDoesNotReadEndsWithItsContext(t *testing.T) {
	agent, process := links(t)
	ctx, cancel := context.WithCancel(t.Context())
	g := run.NewGroup(t.Context(), "test")
	g.Go("peer", func(context.Context) error {
		defer cancel()
		_, err := io.ReadFull(process.conn, make([]byte, 1)) // the frame is on its way, and no more of it is read
		return err
	})
	err := agent.Send(ctx, shutdown(strings.Repeat("x", 16<<20)))
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("send: %v, want the context's end", err)
	}
	// The frame was cut short, so the link must be closed to everyone.
	if err := agent.Send(t.Context(), shutdown("next")); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("send after a cut frame: %v, want closed", err)
	}
}

// The last words of a dead process explain its death: a message that could not reach it must not make them unreadable.
func TestWhatADeadPeerHasSaidIsStillReceived(t *testing.T) {
	agent, process := links(t)
	for range 3 {
		if err := process.Send(t.Context(), shutdown("last words")); err != nil {
			t.Fatal(err)
		}
	}
	if err := agent.Send(t.Context(), shutdown("never read")); err != nil {
		t.Fatal(err)
	}
	if err := process.Close(); err != nil {
		t.Fatal(err)
	}
	if err := agent.Send(t.Context(), shutdown("too late")); err == nil {
		t.Fatal("a message reached a closed socket")
	}
	for range 3 {
		var m taskpb.AgentMessage
		if err := agent.Receive(&m); err != nil || m.GetShutdown().Reason != "last words" {
			t.Fatalf("%v, %v", &m, err)
		}
	}
	if err := agent.Receive(&taskpb.AgentMessage{}); !errors.Is(err, io.EOF) {
		t.Fatalf("then: %v, want EOF", err)
	}
}

func TestAMessageAboveTheBoundIsRefusedBySender(t *testing.T) {
	agent, process := links(t)
	if err := agent.Send(t.Context(), shutdown(strings.Repeat("x", MaxFrame+1))); err == nil {
		t.Fatal("was sent")
	}
	// Nothing was written: the link goes on.
	if err := agent.Send(t.Context(), shutdown("small")); err != nil {
		t.Fatal(err)
	}
	var m taskpb.AgentMessage
	if err := process.Receive(&m); err != nil || m.GetShutdown().Reason != "small" {
		t.Fatalf("%v, %v", &m, err)
	}
}

func TestWhatIsNoFrameIsRefused(t *testing.T) {
	good, err := appendFrame(nil, shutdown("good"))
	if err != nil {
		t.Fatal(err)
	}
	invalid, err := appendFrame(nil, &taskpb.AgentMessage{}) // a message without content is not valid
	if err != nil {
		t.Fatal(err)
	}
	edit := func(f func(b []byte)) []byte {
		b := bytes.Clone(good)
		f(b)
		return b
	}
	noProto := edit(func(b []byte) { b[frameHeaderSize] = 0xff })
	binary.LittleEndian.PutUint32(noProto[8:], crc32.Checksum(noProto[frameHeaderSize:], castagnoli))
	for name, b := range map[string][]byte{
		"text":        []byte("Hello, this program prints to descriptor three"),
		"version":     edit(func(b []byte) { b[3]++ }),
		"length":      edit(func(b []byte) { b[7] = 0xff }),
		"checksum":    edit(func(b []byte) { b[len(b)-1]++ }),
		"no protobuf": noProto,
		"not valid":   invalid,
	} {
		t.Run(name, func(t *testing.T) {
			agent, process := links(t)
			if _, err := agent.conn.Write(b); err != nil {
				t.Fatal(err)
			}
			var m taskpb.AgentMessage
			if err := process.Receive(&m); !errors.Is(err, ErrFrame) {
				t.Fatalf("received with %v, want ErrFrame", err)
			}
		})
	}
}

func TestAFrameCutByTheEndIsNoOrderlyEnd(t *testing.T) {
	good, err := appendFrame(nil, shutdown("good"))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, frameHeaderSize - 1, frameHeaderSize, len(good) - 1} {
		agent, process := links(t)
		if _, err := agent.conn.Write(good[:n]); err != nil {
			t.Fatal(err)
		}
		if err := agent.Close(); err != nil {
			t.Fatal(err)
		}
		var m taskpb.AgentMessage
		if err := process.Receive(&m); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut after %d bytes: %v, want an unexpected end", n, err)
		}
	}
}

func FuzzFrame(f *testing.F) {
	good, err := appendFrame(nil, shutdown("good"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		body, err := readFrame(bytes.NewReader(data))
		if err != nil {
			return
		}
		// What is accepted is exactly what would be written.
		var m taskpb.AgentMessage
		if proto.Unmarshal(body, &m) != nil {
			return
		}
		if !bytes.Equal(data[frameHeaderSize:frameHeaderSize+len(body)], body) {
			t.Fatal("the body is not what stands in the frame")
		}
	})
}
