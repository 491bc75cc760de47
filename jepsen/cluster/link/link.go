package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/internal/wire"
)

// Any stands for every node, or for one that is not known.
const Any = "*"

// Rule is what happens to the bytes from one node to another, whoever has dialled.
type Rule struct {
	Cut           bool // held back
	Delay, Jitter time.Duration
	// Reset is the chance that a piece of at most 32 KiB ends its connection instead of arriving.
	Reset float64
	// CutAfter ends a connection that has carried so many bytes this way; 0: never. A frame is then torn.
	CutAfter int64
	// Swallow loses the bytes: of answers, it is "done, but nobody learned of it".
	Swallow   bool
	Bandwidth int64 // bytes per second of each connection; 0: no bound
}

// Direction of a link.
type Direction struct{ From, To string }

// Mesh has the rules of all links.
type Mesh struct {
	seed uint64

	mu struct {
		sync.Mutex
		rules   map[Direction]Rule
		changed chan struct{} // closed and replaced with each change
		conns   uint64
		hits    map[Direction]int64 // connections that a rule has ended or held back
	}
}

// NewMesh has no rules. Its chances are drawn from a seed.
func NewMesh(seed uint64) *Mesh {
	m := &Mesh{seed: seed}
	m.mu.rules, m.mu.hits = map[Direction]Rule{}, map[Direction]int64{}
	m.mu.changed = make(chan struct{})
	return m
}

// Set a rule for a direction; either end may be Any. The most exact rule counts.
func (m *Mesh) Set(d Direction, r Rule) { m.change(func() { m.mu.rules[d] = r }) }

// Clear the rule of a direction.
func (m *Mesh) Clear(d Direction) { m.change(func() { delete(m.mu.rules, d) }) }

// Heal everything.
func (m *Mesh) Heal() { m.change(func() { clear(m.mu.rules) }) }

func (m *Mesh) change(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
	close(m.mu.changed)
	m.mu.changed = make(chan struct{})
}

// Hits are the connections that rules have held back or ended so far.
func (m *Mesh) Hits() (n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range m.mu.hits {
		n += h
	}
	return n
}

func (m *Mesh) hit(d Direction) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.hits[d]++
}

func (m *Mesh) rule(d Direction) (Rule, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range []Direction{d, {d.From, Any}, {Any, d.To}, {Any, Any}} {
		if r, ok := m.mu.rules[k]; ok {
			return r, m.mu.changed
		}
	}
	return Rule{}, m.mu.changed
}

// Proxy is one port of a node.
type Proxy struct {
	Listen, Target string
	To             string                     // name of the node behind it
	From           func(remote string) string // name of the node that has dialled, by the address of its end; Any: unknown
}

// Serve takes connections until ctx ends. The address must be free; a port that is taken is an error at once.
func (m *Mesh) Serve(ctx context.Context, g *run.Group, p Proxy) error {
	l, err := wire.Policy{}.Listen(ctx, p.Listen)
	if err != nil {
		return fmt.Errorf("proxy of %s: %w", p.To, err)
	}
	g.Go("close proxy "+p.Listen, func(ctx context.Context) error {
		<-ctx.Done()
		return l.Close()
	})
	g.Go("proxy "+p.Listen, func(ctx context.Context) error {
		for {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("proxy of %s: %w", p.To, err)
			}
			g.Go("connection", func(ctx context.Context) error {
				m.connection(ctx, p, c)
				return nil
			})
		}
	})
	return nil
}

// connection joins two ends. Whatever ends it is a fault of the network as far as the ends can tell.
func (m *Mesh) connection(ctx context.Context, p Proxy, near net.Conn) {
	defer near.Close()
	there := Direction{p.From(near.RemoteAddr().String()), p.To}
	back := Direction{there.To, there.From}
	for _, d := range []Direction{there, back} { // the first packets go both ways
		if m.pass(ctx, d) != nil {
			return
		}
	}
	far, err := wire.Policy{}.Dial(ctx, p.Target)
	if err != nil {
		return
	}
	defer far.Close()
	g := run.NewGroup(ctx, "connection")
	g.Go("end", func(ctx context.Context) error {
		<-ctx.Done()
		return errors.Join(near.Close(), far.Close())
	})
	g.Go("there", func(ctx context.Context) error { return m.pump(ctx, there, near, far) })
	g.Go("back", func(ctx context.Context) error { return m.pump(ctx, back, far, near) })
	_ = g.Wait() // the ends have noticed
}

// pass waits while a direction is cut.
func (m *Mesh) pass(ctx context.Context, d Direction) error {
	for first := true; ; first = false {
		r, changed := m.rule(d)
		if !r.Cut {
			return nil
		}
		if first {
			m.hit(d)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

var errEnded = errors.New("the connection was ended")

// pump carries one direction of a connection. Its error ends both.
func (m *Mesh) pump(ctx context.Context, d Direction, from io.Reader, to io.Writer) error {
	m.mu.Lock()
	m.mu.conns++
	rnd := rand.New(rand.NewPCG(m.seed, m.mu.conns))
	m.mu.Unlock()
	buf := make([]byte, 32<<10)
	carried := int64(0)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if err := m.carry(ctx, d, buf[:n], &carried, rnd, to); err != nil {
				return err
			}
		}
		if err != nil {
			return errEnded // also at the end of the stream: half-closed connections are not used by anybody here
		}
	}
}

func (m *Mesh) carry(ctx context.Context, d Direction, piece []byte, carried *int64, rnd *rand.Rand, to io.Writer) error {
	if err := m.pass(ctx, d); err != nil {
		return err
	}
	r, _ := m.rule(d)
	wait := r.Delay
	if r.Jitter > 0 {
		wait += time.Duration(rnd.Int64N(int64(r.Jitter)))
	}
	if r.Bandwidth > 0 {
		wait += time.Duration(float64(len(piece)) / float64(r.Bandwidth) * float64(time.Second))
	}
	if wait > 0 {
		if err := pause(ctx, wait); err != nil {
			return err
		}
	}
	switch {
	case r.Swallow:
		m.hit(d)
		return nil
	case r.Reset > 0 && rnd.Float64() < r.Reset:
		m.hit(d)
		return errEnded
	case r.CutAfter > 0 && *carried+int64(len(piece)) >= r.CutAfter:
		m.hit(d)
		_, err := to.Write(piece[:max(0, min(int64(len(piece)), r.CutAfter-*carried))])
		return errors.Join(errEnded, err)
	}
	*carried += int64(len(piece))
	if _, err := to.Write(piece); err != nil {
		return errEnded
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
