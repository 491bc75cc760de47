package flowtest

import (
	"github.com/sluiceio/sluice/connector/collect"
	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/flow/launch"
)

// Collected is a sink that keeps what the job has committed: Values, and Times, their event times, hold the records of
// subtask 0 first, each subtask's in the order of writing. Run empties it before it begins.
type Collected[T any] struct {
	*collect.Records[T]
	id string
}

// Sink makes To(id, …) write into the returned collection.
func Sink[T any](id string) *Collected[T] { return &Collected[T]{collect.New[T](), id} }

// prepare forgets what an earlier run has left.
func (c *Collected[T]) prepare(p *flow.Pipeline, _ *launch.Embedding) {
	c.Reset()
	p.ReplaceSink(c.id, flow.Sink[T](c.Records))
}
