package link

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/internal/wire"
)

// echo is a proxy "a" → "b" before a server that sends back what it gets.
func echo(t *testing.T) (*Mesh, func() net.Conn) {
	t.Helper()
	g := run.NewGroup(t.Context(), "echo")
	t.Cleanup(func() {
		g.Stop()
		if err := g.Wait(); err != nil && !errors.Is(err, run.ErrStopped) {
			t.Error(err)
		}
	})
	l, err := wire.Policy{}.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g.Go("close", func(ctx context.Context) error {
		<-ctx.Done()
		return l.Close()
	})
	g.Go("server", func(context.Context) error {
		for {
			c, err := l.Accept()
			if err != nil {
				return nil
			}
			g.Go("connection", func(context.Context) error {
				defer c.Close()
				_, _ = io.Copy(c, c)
				return nil
			})
		}
	})
	free, err := wire.FreeLoopback(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	m := NewMesh(1)
	p := Proxy{Listen: free[0], Target: l.Addr().String(), To: "b", From: func(string) string { return "a" }}
	if err := m.Serve(t.Context(), g, p); err != nil {
		t.Fatal(err)
	}
	return m, func() net.Conn {
		c, err := wire.Policy{}.Dial(t.Context(), p.Listen)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
}

// says sends a text and returns what comes back within the time.
func says(t *testing.T, c net.Conn, text string, limit time.Duration) (string, error) {
	t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		return "", err
	}
	if err := c.SetReadDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, len(text))
	n, err := io.ReadFull(c, buf)
	return string(buf[:n]), err
}

const (
	soon = 10 * time.Second
	long = 100 * time.Millisecond // nothing comes
)

func TestWhatACutHoldsBackArrivesWhenItIsHealed(t *testing.T) {
	for _, d := range []Direction{{"a", "b"}, {"b", "a"}, {Any, "b"}, {"b", Any}} {
		m, dial := echo(t)
		c := dial()
		if got, err := says(t, c, "one", soon); got != "one" {
			t.Fatal(got, err)
		}
		m.Set(d, Rule{Cut: true})
		if got, err := says(t, c, "two", long); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%v is cut, yet %q, %v", d, got, err)
		}
		late := dial()
		if got, err := says(t, late, "new", long); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%v is cut, yet a new connection: %q, %v", d, got, err)
		}
		if m.Hits() == 0 {
			t.Error("the cut took no effect")
		}
		m.Heal()
		if got, err := says(t, c, "!", soon); got != "t" { // of two: what was held back comes first
			t.Errorf("%q, %v", got, err)
		}
	}
}

func TestOtherLinksAreNotTouched(t *testing.T) {
	m, dial := echo(t)
	m.Set(Direction{"c", "b"}, Rule{Cut: true})
	m.Set(Direction{"c", Any}, Rule{Swallow: true})
	if got, err := says(t, dial(), "one", soon); got != "one" {
		t.Error(got, err)
	}
}

func TestAConnectionEndsAfterItsBytesInTheMiddleOfAFrame(t *testing.T) {
	m, dial := echo(t)
	m.Set(Direction{"a", "b"}, Rule{CutAfter: 5})
	c := dial()
	if got, err := says(t, c, "abc", soon); got != "abc" {
		t.Fatal(got, err)
	}
	got, err := says(t, c, "defgh", soon)
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) || len(got) > 2 {
		t.Errorf("%q, %v", got, err)
	}
}

func TestAnswersAreLostOrConnectionsReset(t *testing.T) {
	m, dial := echo(t)
	c := dial()
	m.Set(Direction{"b", "a"}, Rule{Swallow: true})
	if got, err := says(t, c, "lost", long); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%q, %v", got, err)
	}
	m.Clear(Direction{"b", "a"})
	if got, err := says(t, c, "kept", soon); got != "kept" {
		t.Errorf("%q, %v", got, err)
	}
	m.Set(Direction{"a", "b"}, Rule{Reset: 1})
	if _, err := says(t, c, "x", soon); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("not reset: %v", err)
	}
}

func TestDelayAndBandwidthTakeTheirTime(t *testing.T) {
	m, dial := echo(t)
	c := dial()
	m.Set(Direction{"a", "b"}, Rule{Delay: 60 * time.Millisecond})
	m.Set(Direction{"b", "a"}, Rule{Bandwidth: 100})
	begun := time.Now()
	if got, err := says(t, c, "0123456789", soon); got != "0123456789" {
		t.Fatal(got, err)
	}
	if took := time.Since(begun); took < 160*time.Millisecond {
		t.Errorf("60 ms and 10 bytes at 100 a second took %v", took)
	}
}
