//go:build unix

package pipe

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/internal/wire"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// BenchmarkHandOver is one data connection from dial to accept in the process, against BenchmarkConnect, the same
// connection without a preface and without being passed on.
func BenchmarkHandOver(b *testing.B) {
	l, err := wire.Policy{}.Listen(b.Context(), "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	here, there, err := socketPair()
	if err != nil {
		b.Fatal(err)
	}
	conn, err := unixConn(there)
	if err != nil {
		b.Fatal(err)
	}
	sender, listener := &Sender{conn: here}, &Listener{conn: conn}
	port := &Port{
		Listener: l, Timeout: time.Minute, Note: func(string, error) {},
		Route: func(Preface) (Answer, *Sender) { return Accepted, sender },
	}
	g := run.NewGroup(context.Background(), "bench")
	g.Go("port", port.Run)
	for b.Loop() {
		c, err := Dialer{}.Dial(b.Context(), l.Addr().String(), Preface{Process: 1})
		if err != nil {
			b.Fatal(err)
		}
		accepted, err := listener.Accept()
		if err != nil {
			b.Fatal(err)
		}
		_, _ = c.Close(), accepted.Close()
	}
	g.Stop()
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	_, _ = sender.Close(), listener.Close()
}

func BenchmarkConnect(b *testing.B) {
	l, err := wire.Policy{}.Listen(b.Context(), "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	for b.Loop() {
		c, err := wire.Policy{}.Dial(b.Context(), l.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		accepted, err := l.Accept()
		if err != nil {
			b.Fatal(err)
		}
		_, _ = c.Close(), accepted.Close()
	}
}

// BenchmarkLink is one message through the link, written and read by one goroutine.
func BenchmarkLink(b *testing.B) {
	here, there, err := socketPair()
	if err != nil {
		b.Fatal(err)
	}
	conn, err := unixConn(there)
	if err != nil {
		b.Fatal(err)
	}
	from, to := NewLink(net.Conn(conn)), NewLink(here)
	m := &taskpb.TaskMessage{Message: &taskpb.TaskMessage_SplitRequest{SplitRequest: &taskpb.SplitRequest{
		Operator: 1, Chain: 1, Attempt: 1, RegionEpoch: 1,
	}}}
	b.ReportAllocs()
	for b.Loop() {
		if err := from.Send(b.Context(), m); err != nil {
			b.Fatal(err)
		}
		var got taskpb.TaskMessage
		if err := to.Receive(&got); err != nil {
			b.Fatal(err)
		}
	}
	_, _ = from.Close(), to.Close()
}
