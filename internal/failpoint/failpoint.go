package failpoint

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
)

// Environment is the variable that arms points of a process when it first hits one.
const Environment = "SLUICE_FAILPOINTS"

// armed holds every point that is armed; see the package comment for why it is a variable of the package. Its zero
// value means that the environment has not been looked at.
var armed registry

type registry struct {
	// idle is true when the environment was read and nothing is armed: the only word that Hit reads then.
	idle atomic.Bool

	mu struct {
		sync.Mutex
		read   bool // the environment was looked at
		points map[string]*point
	}
}

// point is one armed failpoint.
type point struct {
	spec spec
	hits atomic.Int64

	reached  chan struct{} // closed by the first hit that acts
	reach    sync.Once
	released chan struct{} // closed by Handle.Release
	release  sync.Once
}

func newPoint(s spec) *point {
	return &point{spec: s, reached: make(chan struct{}), released: make(chan struct{})}
}

// Hit is a place where the process may be broken. It returns nil unless the point is armed with an error, or waits and
// the context ends.
func Hit(ctx context.Context, name string) error {
	if armed.idle.Load() {
		return nil // short enough to be inlined at the caller
	}
	return hit(ctx, name)
}

func hit(ctx context.Context, name string) error {
	p := armed.find(ctx, name)
	if p == nil || !p.spec.selects(p.hits.Add(1)) {
		return nil
	}
	p.reach.Do(func() { close(p.reached) })
	return p.act(ctx)
}

type scopeKey struct{}

// WithScope names the part of the process that works under ctx, for example a node.
func WithScope(ctx context.Context, scope string) context.Context {
	return context.WithValue(ctx, scopeKey{}, scope)
}

func (r *registry) find(ctx context.Context, name string) *point {
	scope, _ := ctx.Value(scopeKey{}).(string)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.readEnvironment()
	if p := r.mu.points[name+"@"+scope]; p != nil && scope != "" {
		return p
	}
	return r.mu.points[name]
}

// readEnvironment panics on a variable that cannot be read: a process that ignored it would pass the very test that
// wanted to break it. Called with the lock held.
func (r *registry) readEnvironment() {
	if r.mu.read {
		return
	}
	r.mu.read = true
	r.mu.points = map[string]*point{}
	specs, err := parse(os.Getenv(Environment))
	if err != nil {
		panic(fmt.Sprintf("failpoint: %s: %v", Environment, err))
	}
	for _, s := range specs {
		r.mu.points[s.key] = newPoint(s)
	}
	r.idle.Store(len(specs) == 0)
}

func (r *registry) add(specs []spec) (map[string]*point, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.readEnvironment()
	for _, s := range specs {
		if r.mu.points[s.key] != nil {
			return nil, fmt.Errorf("%s is armed already", s.key)
		}
	}
	added := map[string]*point{}
	for _, s := range specs {
		p := newPoint(s)
		added[s.key], r.mu.points[s.key] = p, p
	}
	r.idle.Store(len(r.mu.points) == 0)
	return added, nil
}

func (r *registry) remove(points map[string]*point) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key := range points {
		delete(r.mu.points, key)
	}
	r.idle.Store(len(r.mu.points) == 0)
}

// TB is what Arm needs of a *testing.T.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Handle is the test's hold on the points that one call of Arm armed. Points are named as in the specification,
// with their scope.
type Handle struct {
	tb     TB
	points map[string]*point
}

// Arm arms points until the test ends. A point that was never hit fails the test: it broke nothing.
func Arm(tb TB, specification string) *Handle {
	tb.Helper()
	specs, err := parse(specification)
	if err != nil {
		tb.Fatalf("failpoint: %v", err)
	}
	points, err := armed.add(specs)
	if err != nil {
		tb.Fatalf("failpoint: %v", err)
	}
	h := &Handle{tb: tb, points: points}
	tb.Cleanup(func() {
		armed.remove(points)
		for key, p := range points {
			p.release.Do(func() { close(p.released) })
			if p.hits.Load() == 0 {
				tb.Errorf("failpoint %s was armed and never hit", key)
			}
		}
	})
	return h
}

func (h *Handle) point(key string) *point {
	h.tb.Helper()
	p := h.points[key]
	if p == nil {
		h.tb.Fatalf("failpoint %s was not armed by this handle", key)
	}
	return p
}

// Reached is closed when the point acts for the first time.
func (h *Handle) Reached(key string) <-chan struct{} { return h.point(key).reached }

// Hits counts the hits so far, those that the selection left out included.
func (h *Handle) Hits(key string) int64 { return h.point(key).hits.Load() }

// Release lets everybody go on who waits at a pause, now and later.
func (h *Handle) Release(key string) {
	p := h.point(key)
	p.release.Do(func() { close(p.released) })
}
