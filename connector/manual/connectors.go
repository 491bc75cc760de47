package manual

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
)

// Connectors are the sources and sinks of one job, by id.
type Connectors struct {
	mu struct {
		sync.Mutex
		sources map[string]Feeder // *Feed[T]
		sinks   map[string]any    // *Basin[T]
	}
}

// Feeder is a Feed of any type.
type Feeder interface {
	// Watermark promises that no record with a time at or below at follows.
	Watermark(at element.Time) error
	// End says that no record follows.
	End()
}

// New has no sources and sinks yet.
func New() *Connectors {
	c := &Connectors{}
	c.mu.sources, c.mu.sinks = map[string]Feeder{}, map[string]any{}
	return c
}

// Source makes the Feed of an id, which stands for src and is bounded if that is.
func Source[T any](c *Connectors, id string, src connector.Source[T]) connector.Source[T] {
	f := newFeed[T]()
	f.bounded = src != nil && src.Bounded()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.sources[id] = f
	return f
}

// Sink makes the Basin of an id.
func Sink[T any](c *Connectors, id string) connector.Sink[T] {
	b := &Basin[T]{}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.sinks[id] = b
	return b
}

// FeedOf finds a source by id and type of its records.
func FeedOf[T any](c *Connectors, id string) (*Feed[T], error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return find[*Feed[T]](c.mu.sources, "source", id)
}

// BasinOf finds a sink by id and type of its records.
func BasinOf[T any](c *Connectors, id string) (*Basin[T], error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return find[*Basin[T]](c.mu.sinks, "sink", id)
}

// Feeder finds a source by id.
func (c *Connectors) Feeder(id string) (Feeder, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return find[Feeder](c.mu.sources, "source", id)
}

// Feeders are all sources.
func (c *Connectors) Feeders() []Feeder {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.mu.sources))
}

func find[C, A any](all map[string]A, what, id string) (found C, err error) {
	a, ok := all[id]
	if !ok {
		return found, fmt.Errorf("the job has no %s %q in the hands of the test; it has %s", what, id, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
	}
	if found, ok = any(a).(C); !ok {
		return found, fmt.Errorf("%s %q is a %T, not a %T", what, id, a, found)
	}
	return found, nil
}
