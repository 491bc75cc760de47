//go:build unix

package pipe

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/internal/wire"
)

// limit bounds every wait of these tests; nothing comes near it.
const limit = 20 * time.Second

// passing is a descriptor socket with both of its ends.
func passing(t *testing.T) (*Sender, *Listener) {
	t.Helper()
	here, there, err := socketPair()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := unixConn(there)
	if err != nil {
		t.Fatal(err)
	}
	s, l := &Sender{conn: here}, &Listener{conn: conn}
	t.Cleanup(func() { _, _ = s.Close(), l.Close() })
	return s, l
}

// fixture is a data port before one task process.
type fixture struct {
	addr     string
	own      *Own
	listener *Listener
	outcomes chan string

	mu     sync.Mutex
	answer Answer
}

func (f *fixture) set(a Answer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = a
}

func newFixture(t *testing.T, timeout time.Duration) *fixture {
	t.Helper()
	l, err := wire.Policy{}.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	sender, listener := passing(t)
	f := &fixture{addr: l.Addr().String(), own: NewOwn(l.Addr()), listener: listener, outcomes: make(chan string, 1<<16)}
	port := &Port{
		Listener: l, Timeout: timeout, Own: f.own,
		Route: func(Preface) (Answer, *Sender) {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.answer, sender
		},
		Note: func(outcome string, _ error) { f.outcomes <- outcome },
	}
	g := run.NewGroup(t.Context(), "test")
	g.Go("port", port.Run)
	t.Cleanup(func() {
		g.Stop()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// expect waits for n outcomes of a kind.
func (f *fixture) expect(t *testing.T, outcome string, n int) {
	t.Helper()
	deadline := time.After(limit)
	for n > 0 {
		select {
		case got := <-f.outcomes:
			if got == outcome {
				n--
			}
		case <-deadline:
			t.Fatalf("%d more connections should have been %q", n, outcome)
		}
	}
}

func TestAConnectionIsHandedOverWithEveryByte(t *testing.T) {
	f := newFixture(t, limit)
	const connections = 32
	want := strings.Repeat("record ", 1000)
	g := run.NewGroup(t.Context(), "test")
	for range connections {
		g.Go("dial", func(ctx context.Context) error {
			conn, err := Dialer{}.Dial(ctx, f.addr, Preface{Job: HashJob("j"), Process: 1})
			if err != nil {
				return err
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, want); err != nil {
				return err
			}
			if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
				return err
			}
			echo, err := io.ReadAll(conn)
			if err == nil && string(echo) != want {
				err = errors.New("the echo differs")
			}
			return err
		})
	}
	for range connections {
		conn, err := f.listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		g.Go("echo", func(context.Context) error {
			defer conn.Close()
			_, err := io.Copy(conn, conn)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	f.expect(t, Accepted.String(), connections)
}

// The agent must not keep a copy: the end of the process's connection has to reach the dialler at once.
func TestTheAgentKeepsNoCopyOfAHandedOverConnection(t *testing.T) {
	f := newFixture(t, limit)
	conn, err := Dialer{}.Dial(t.Context(), f.addr, Preface{Process: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	f.expect(t, Accepted.String(), 1)
	accepted, err := f.listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := accepted.Close(); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatalf("read: %v, want the end", err)
	}
}

func TestAConnectionToNoProcessStaysWithTheAgent(t *testing.T) {
	f := newFixture(t, limit)
	g := run.NewGroup(t.Context(), "test")
	g.Go("agent", func(context.Context) error {
		conn, err := f.own.Accept()
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = io.Copy(conn, conn)
		return err
	})
	conn, err := Dialer{}.Dial(t.Context(), f.addr, Preface{Job: HashJob("j")})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	f.expect(t, OutcomeOwn, 1)
	if err := echo(conn, "results"); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

// deadlines remembers the last deadline.
type deadlines struct {
	net.Conn
	last time.Time
}

func (d *deadlines) SetDeadline(t time.Time) error {
	d.last = t
	return d.Conn.SetDeadline(t)
}

func TestTheDeadlineOfTheHandshakeEndsWithIt(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	d := &deadlines{Conn: here, last: time.Now().Add(limit)}
	port := &Port{Own: NewOwn(nil), Note: func(string, error) {}}
	g := run.NewGroup(t.Context(), "test")
	g.Go("read the answer", func(context.Context) error {
		_, err := io.ReadFull(there, make([]byte, 1))
		return err
	})
	if !port.keep(d) || !d.last.IsZero() {
		t.Errorf("the connection has the deadline %v", d.last)
	}
	if err := errors.Join(g.Wait(), port.Own.Close()); err != nil {
		t.Error(err)
	}
}

func echo(conn net.Conn, text string) error {
	if _, err := io.WriteString(conn, text); err != nil {
		return err
	}
	b := make([]byte, len(text))
	if _, err := io.ReadFull(conn, b); err != nil {
		return err
	}
	if string(b) != text {
		return errors.New("another text came back: " + string(b))
	}
	return nil
}

func TestAnAgentThatKeepsNothingSaysSo(t *testing.T) {
	l, err := wire.Policy{}.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := &Port{Listener: l, Timeout: limit, Note: func(string, error) {}, Route: func(Preface) (Answer, *Sender) {
		t.Error("process 0 was looked for")
		return NotYet, nil
	}}
	g := run.NewGroup(t.Context(), "test")
	g.Go("port", port.Run)
	if _, err := (Dialer{}).Dial(t.Context(), l.Addr().String(), Preface{Job: HashJob("j")}); !errors.Is(err, ErrGone) {
		t.Errorf("got %v", err)
	}
	g.Stop()
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

func TestConnectionsThatTheAgentDoesNotTakeEnd(t *testing.T) {
	f := newFixture(t, limit)
	var conns []net.Conn
	for range ownQueue + 1 {
		conn, err := Dialer{}.Dial(t.Context(), f.addr, Preface{})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns = append(conns, conn)
	}
	f.expect(t, OutcomeNotPassed, 1) // beyond the queue
	if err := f.own.Close(); err != nil {
		t.Fatal(err)
	}
	for _, conn := range conns {
		if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Fatal("a connection that nobody serves is open")
		}
	}
	if _, err := f.own.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept after the end: %v", err)
	}
	late, err := Dialer{}.Dial(t.Context(), f.addr, Preface{})
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	if _, err := late.Read(make([]byte, 1)); err == nil {
		t.Error("a connection after the end is open")
	}
}

func TestNotYetIsAskedAgainUntilTheProcessIsThere(t *testing.T) {
	f := newFixture(t, limit)
	f.set(NotYet)
	g := run.NewGroup(t.Context(), "test")
	g.Go("dial", func(ctx context.Context) error {
		conn, err := Dialer{ConnectTimeout: limit}.Dial(ctx, f.addr, Preface{Process: 1})
		if err != nil {
			return err
		}
		return conn.Close()
	})
	f.expect(t, NotYet.String(), 3)
	f.set(Accepted)
	f.expect(t, Accepted.String(), 1)
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

func TestNotYetEndsWithTheConnectTimeout(t *testing.T) {
	f := newFixture(t, limit)
	f.set(NotYet)
	_, err := Dialer{ConnectTimeout: 500 * time.Millisecond}.Dial(t.Context(), f.addr, Preface{Process: 1})
	if !errors.Is(err, ErrNotYet) {
		t.Fatalf("dial: %v, want ErrNotYet", err)
	}
}

func TestGoneIsFinal(t *testing.T) {
	f := newFixture(t, limit)
	f.set(Gone)
	_, err := Dialer{ConnectTimeout: limit}.Dial(t.Context(), f.addr, Preface{Process: 1})
	if !errors.Is(err, ErrGone) {
		t.Fatalf("dial: %v, want ErrGone", err)
	}
	f.expect(t, Gone.String(), 1)
	if n := len(f.outcomes); n > 0 {
		t.Errorf("asked %d more times", n)
	}
}

func TestAWorkerThatCannotBeReachedIsAskedAgain(t *testing.T) {
	l, err := wire.Policy{}.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = Dialer{ConnectTimeout: 500 * time.Millisecond}.Dial(t.Context(), addr, Preface{Process: 1})
	if !errors.Is(err, unix.ECONNREFUSED) {
		t.Fatalf("dial: %v, want the refusal, which is more use than the timeout", err)
	}
}

func TestGarbageOnTheDataPortHurtsNobody(t *testing.T) {
	f := newFixture(t, limit)
	for _, garbage := range []string{"GET / HTTP/1.1\r\nHost: worker\r\n\r\n" + strings.Repeat("x", 1<<20), strings.Repeat("\x00", PrefaceSize), "short"} {
		conn, err := wire.Policy{}.Dial(t.Context(), f.addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, garbage) // the port may close at any moment
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
		f.expect(t, OutcomeBadPreface, 1)
	}
	conn, err := Dialer{}.Dial(t.Context(), f.addr, Preface{Process: 1})
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}

func TestASlowPrefaceMeetsTheDeadline(t *testing.T) {
	f := newFixture(t, 50*time.Millisecond)
	conn, err := wire.Policy{}.Dial(t.Context(), f.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	p := Preface{Process: 1}.Encode()
	if _, err := conn.Write(p[:PrefaceSize-1]); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, unix.ECONNRESET) {
		t.Fatalf("read: %v, want the end", err)
	}
	f.expect(t, OutcomeBadPreface, 1)
}

// Ten times as many idle connections as there are places for handshakes: each newcomer displaces the oldest, so a peer
// is served at once, and the port never holds more than its bound.
func TestTenThousandIdleConnectionsDelayNobody(t *testing.T) {
	const idle = 10_000
	raiseDescriptorLimit(t, 2*idle+1000)
	f := newFixture(t, 10*time.Minute)
	conns := make([]net.Conn, idle)
	for i := range conns {
		var err error
		if conns[i], err = (wire.Policy{}).Dial(t.Context(), f.addr); err != nil {
			t.Fatal(err)
		}
	}
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	f.expect(t, OutcomeBadPreface, idle-handshakes) // displaced
	conn, err := Dialer{ConnectTimeout: limit}.Dial(t.Context(), f.addr, Preface{Process: 1})
	if err != nil {
		t.Fatalf("beside %d idle connections: %v", idle, err)
	}
	_ = conn.Close()
}

func raiseDescriptorLimit(t *testing.T, n uint64) {
	t.Helper()
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		t.Fatal(err)
	}
	if r.Cur < n {
		r.Cur = n
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
			t.Skipf("%d descriptors are needed: %v", n, err)
		}
	}
}

func TestTheEndOfTheAgentEndsAccept(t *testing.T) {
	sender, listener := passing(t)
	if err := sender.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := listener.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("accept: %v, want closed", err)
	}
}

func TestAMessageWithoutConnectionIsReportedAndSkipped(t *testing.T) {
	sender, listener := passing(t)
	var faults []error
	listener.Faults = func(err error) { faults = append(faults, err) }
	b := Preface{Process: 1}.Encode()
	if _, err := sender.conn.Write(b[:]); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe() // a descriptor, but no connection
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := sender.Pass(time.Now().Add(limit), w, Preface{Process: 1}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := wire.Policy{}.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := wire.Policy{}.Dial(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := sender.Pass(time.Now().Add(limit), conn.(*net.TCPConn), Preface{Process: 1}); err != nil {
		t.Fatal(err)
	}
	got, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = got.Close()
	if len(faults) != 2 {
		t.Errorf("faults: %v, want two", faults)
	}
	// The pipe's descriptor was closed by the receiver too, or this read would block.
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("read: %v, want the end: the receiver leaks descriptors", err)
	}
}

func TestPassingToAProcessThatDoesNotAcceptMeetsTheDeadline(t *testing.T) {
	sender, _ := passing(t)
	l, err := wire.Policy{}.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := wire.Policy{}.Dial(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range 1 << 16 {
		err := sender.Pass(time.Now().Add(20*time.Millisecond), conn.(*net.TCPConn), Preface{Process: 1})
		if err == nil {
			continue // the socket's buffer has room
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, unix.ETOOMANYREFS) {
			t.Fatalf("pass: %v, want the deadline", err)
		}
		return
	}
	t.Fatal("the socket's buffer has no end")
}
