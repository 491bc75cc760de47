package shuffle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/test/bufconn"

	"github.com/sluiceio/sluice/flow/element"
)

// faultyConn is the consumer's end of a connection whose incoming bytes are counted, cut off or flipped.
type faultyConn struct {
	net.Conn
	mu   sync.Mutex
	read int
	cut  int // close before byte cut; -1: never
	flip int // flip the lowest bit of byte flip; -1: never
}

func (c *faultyConn) Read(b []byte) (int, error) {
	c.mu.Lock()
	if left := c.cut - c.read; c.cut >= 0 && len(b) > left {
		b = b[:left]
	}
	c.mu.Unlock()
	if len(b) == 0 {
		return 0, errors.Join(io.ErrUnexpectedEOF, c.Close())
	}
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.flip - c.read; c.flip >= 0 && at >= 0 && at < n {
		b[at] ^= 1
	}
	c.read += n
	return n, err
}

// outcome of a small exchange of two channels over a connection that may be faulty.
type outcome struct {
	got              got
	consumer, p0, p1 error
	bytes            int
	stalled          bool
}

var smallExchange = got{
	{"1@5 one", "2@6 two", eventText(element.Event{Kind: element.Barrier, Checkpoint: 4}), "3@7 three", eventText(endOfInput)},
	{"9@5 nine", eventText(element.Event{Kind: element.Barrier, Checkpoint: 4}), eventText(endOfInput)},
}

// playSmall sends one channel's part of the small exchange: the records before the barrier, and those after it.
func playSmall(x *Writer[rec], before, after []rec) error {
	add := func(values []rec) error {
		for _, v := range values {
			if err := x.Add(0, v, element.Time(v.Key%8+4)); err != nil {
				return err
			}
		}
		return nil
	}
	if err := add(before); err != nil {
		return err
	}
	if err := x.Broadcast(element.Event{Kind: element.Barrier, Checkpoint: 4}); err != nil {
		return err
	}
	if err := add(after); err != nil {
		return err
	}
	return x.Broadcast(endOfInput)
}

// exchangeOver runs the small exchange; only the first connection is faulty.
func exchangeOver(t *testing.T, cut, flip int) (o outcome) {
	synctest.Test(t, func(t *testing.T) {
		l := bufconn.Listen(1 << 20)
		first := &faultyConn{cut: cut, flip: flip}
		used := false
		w := newRemote(t, worldConfig{memory: 8 << 20, listener: l, dial: func(ctx context.Context, _ Peer) (net.Conn, error) {
			c, err := l.DialContext(ctx)
			if err != nil || used {
				return c, err
			}
			used, first.Conn = true, c
			return first, nil
		}})
		ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Minute, errStalled)
		defer cancel()
		ctx, restart := context.WithCancelCause(ctx)
		defer restart(nil)
		writer := func(p int) *Writer[rec] {
			cfg := w.writerConfig(p, 1)
			cfg.Ctx = ctx
			return w.writerOf(cfg)
		}
		x0, x1, g := writer(0), writer(1), w.gate(0, 2)
		run := func(x *Writer[rec], before, after []rec) func() error {
			return w.do("produce", func() error {
				if err := playSmall(x, before, after); err != nil {
					return errors.Join(err, x.Close(err))
				}
				return x.Close(nil)
			})
		}
		p0 := run(x0, []rec{{1, "one"}, {2, "two"}}, []rec{{3, "three"}})
		p1 := run(x1, []rec{{9, "nine"}}, nil)
		o.got, o.consumer = g.drain()
		g.Close(o.consumer)
		if o.consumer != nil { // a failed subtask has its region restarted
			synctest.Wait()
			restart(errRestarted)
		}
		o.p0, o.p1 = p0(), p1()
		o.stalled = errors.Is(o.p0, errStalled) || errors.Is(o.p1, errStalled) || o.consumer != nil && strings.Contains(o.consumer.Error(), "nothing came")
		w.stop()
		first.mu.Lock()
		defer first.mu.Unlock()
		o.bytes = first.read
	})
	return o
}

var (
	errStalled   = errors.New("stalled")
	errRestarted = errors.New("restarted")
)

func (o outcome) check(t *testing.T, what string) {
	t.Helper()
	for ch, elements := range o.got {
		for i, e := range elements {
			if i >= len(smallExchange[ch]) || e != smallExchange[ch][i] {
				t.Fatalf("%s: channel %d delivered %q", what, ch, elements)
			}
		}
	}
	complete := slices.EqualFunc(o.got, smallExchange, slices.Equal[[]string])
	var loss *LossError
	switch {
	case o.consumer == nil && !complete:
		t.Fatalf("%s: the consumer is content with %q", what, o.got)
	case o.consumer != nil && !o.stalled && !errors.As(o.consumer, &loss):
		t.Fatalf("%s: the consumer fails with %v, no loss", what, o.consumer)
	case o.consumer != nil && (o.p0 == nil && len(o.got[0]) < len(smallExchange[0]) && !delivered(o.consumer) ||
		o.p1 == nil && len(o.got[1]) < len(smallExchange[1]) && !delivered(o.consumer)):
		t.Fatalf("%s: a producer is content (%v, %v) though its consumer has %q: %v", what, o.p0, o.p1, o.got, o.consumer)
	}
}

// delivered: the gate fails as a whole, so what has arrived on the other channel may not have been read any more.
func delivered(err error) bool {
	var loss *LossError
	return errors.As(err, &loss)
}

// A connection that is cut after any number of bytes never lets an exchange end with less than everything.
func TestAConnectionCutAnywhereIsALossOrNothing(t *testing.T) {
	whole := exchangeOver(t, -1, -1)
	if whole.check(t, "uncut"); whole.consumer != nil || whole.p0 != nil || whole.p1 != nil {
		t.Fatalf("uncut: %v, %v, %v", whole.consumer, whole.p0, whole.p1)
	}
	losses := 0
	for n := range whole.bytes {
		o := exchangeOver(t, n, -1)
		o.check(t, fmt.Sprintf("cut after %d of %d bytes", n, whole.bytes))
		if o.stalled {
			t.Fatalf("cut after %d bytes: stalled: %v, %v, %v", n, o.consumer, o.p0, o.p1)
		}
		if o.consumer != nil {
			losses++
		}
	}
	if losses < whole.bytes/3 {
		t.Errorf("only %d of %d cuts were losses", losses, whole.bytes)
	}
}

// A flipped bit never becomes a wrong record. In a payload it names the channel; in what belongs to HTTP/2 it may
// also pass unnoticed, or silence the connection.
func TestAFlippedBitIsNeverDelivered(t *testing.T) {
	whole := exchangeOver(t, -1, -1)
	corrupt, stalled := 0, 0
	for n := range whole.bytes {
		o := exchangeOver(t, -1, n)
		o.check(t, fmt.Sprintf("byte %d of %d flipped", n, whole.bytes))
		var loss *LossError
		if errors.As(o.consumer, &loss) && loss.Reason == Corrupt {
			corrupt++
			if loss.Edge != 3 || loss.Consumer != 0 || loss.Producer < 0 || loss.Producer > 1 {
				t.Errorf("byte %d: %v", n, loss)
			}
		}
		if o.stalled {
			stalled++
		}
	}
	if corrupt < 50 || stalled > whole.bytes/10 {
		t.Errorf("of %d flipped bytes %d were found corrupt, %d silenced the connection", whole.bytes, corrupt, stalled)
	}
}

func TestAProcessThatIsGoneIsALossAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		l := bufconn.Listen(1 << 10)
		w := newRemote(t, worldConfig{memory: 8 << 20, listener: l, dial: func(context.Context, Peer) (net.Conn, error) {
			return nil, fmt.Errorf("preface answered: %w", ErrGone)
		}})
		g := w.gate(0, 1)
		loss := wantLoss(t, errOf(g), Gone, 0, 0)
		if time.Since(begin) > time.Second || !strings.Contains(loss.Error(), "process 1 on w1 (pipe)") {
			t.Errorf("after %v: %v", time.Since(begin), loss)
		}
		g.Close(loss)
		w.stop()
	})
}

// The worker of the producer is not up yet, or answers "not yet": that alone is no failure.
func TestAPeerThatComesLateIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bufconn.Listen(1 << 20)
		begin := time.Now()
		var tries atomic.Int64
		w := newRemote(t, worldConfig{memory: 8 << 20, listener: l, dial: func(ctx context.Context, _ Peer) (net.Conn, error) {
			if tries.Add(1); time.Since(begin) < 3*time.Second {
				return nil, errors.New("connection refused")
			}
			return l.DialContext(ctx)
		}})
		g := w.gate(0, 1)
		<-time.After(5 * time.Second) // fake; connected, but the producer is not deployed
		if _, ok, err := g.Next(); ok || err != nil {
			t.Fatalf("%v, %v", ok, err)
		}
		if n := tries.Load(); n < 10 || n > 40 {
			t.Errorf("dialled %d times in 3 seconds", n)
		}
		x := w.writer(0, 1)
		if err := errors.Join(x.Broadcast(endOfInput), x.Close(nil)); err != nil {
			t.Fatal(err)
		}
		if _, err := g.drain(); err != nil {
			t.Fatal(err)
		}
		g.Close(nil)
		w.stop()
	})
}

func TestAPeerThatNeverComesIsNamedInTheLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bufconn.Listen(1 << 10)
		w := newRemote(t, worldConfig{memory: 8 << 20, listener: l, dial: func(context.Context, Peer) (net.Conn, error) {
			return nil, errors.New("no route to host")
		}})
		g := w.gate(0, 1)
		loss := wantLoss(t, errOf(g), Timeout, 0, 0)
		for _, part := range []string{"process 1 on w1 (pipe)", "no route to host"} {
			if !strings.Contains(loss.Error(), part) {
				t.Errorf("%v does not say %s", loss, part)
			}
		}
		g.Close(loss)
		w.stop()
	})
}

// A dial that hangs is given up and tried again, and the loss says so.
func TestADialThatHangsIsNamedInTheLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int64
		w := newRemote(t, worldConfig{memory: 8 << 20, listener: bufconn.Listen(1 << 10), dial: func(ctx context.Context, _ Peer) (net.Conn, error) {
			tries.Add(1)
			<-ctx.Done()
			return nil, fmt.Errorf("waiting for the agent: %w", ctx.Err())
		}})
		g := w.gate(0, 1)
		loss := wantLoss(t, errOf(g), Timeout, 0, 0)
		if !strings.Contains(loss.Error(), "waiting for the agent") || tries.Load() < 3 {
			t.Errorf("after %d tries: %v", tries.Load(), loss)
		}
		g.Close(loss)
		w.stop()
	})
}

// A stream that breaks takes the open channels with it; one that still asks goes on to ask.
func TestABrokenStreamCostsOnlyTheOpenChannels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bufconn.Listen(1 << 20)
		var conns []net.Conn
		w := newRemote(t, worldConfig{memory: 8 << 20, listener: l, dial: func(ctx context.Context, _ Peer) (net.Conn, error) {
			c, err := l.DialContext(ctx)
			conns = append(conns, c)
			return c, err
		}})
		x := w.writer(0, 2)
		opened := w.gate(0, 1)
		cfg := w.gateConfig(1, 1)
		cfg.RegionEpoch, cfg.Producers[0].Attempt = 2, 2 // newer than the writer: asks and asks
		asking := w.gateOf(cfg)
		synctest.Wait()
		if err := conns[0].Close(); err != nil {
			t.Fatal(err)
		}
		wantLoss(t, errOf(opened), Broken, 0, 0)
		synctest.Wait()
		wantLoss(t, x.Flush(), Broken, 0, 0)
		_ = x.Close(errors.New("restart"))
		opened.Close(errors.New("restart"))
		wcfg := w.writerConfig(0, 2)
		wcfg.RegionEpoch, wcfg.Attempt = 2, 2
		wcfg.Consumers = wcfg.Consumers[1:]
		again := w.writerOf(wcfg)
		if err := errors.Join(again.Broadcast(endOfInput), again.Close(nil)); err != nil {
			t.Fatal(err)
		}
		if _, err := asking.drain(); err != nil {
			t.Fatal(err)
		}
		if len(conns) != 2 {
			t.Errorf("%d connections", len(conns))
		}
		asking.Close(nil)
		w.stop()
	})
}
