package join

import (
	"time"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/worker/state"
	"github.com/sluiceio/sluice/worker/state/handle"
	"github.com/sluiceio/sluice/worker/task"
)

// Latest completes the left records with the newest right one of their key.
type Latest[K comparable, L, R, Out any] struct {
	LeftKey  func(L) K
	RightKey func(R) K
	// Found is called with the right record that has the latest event time of those that have arrived, of equal ones the
	// last; Missing if there is none. What they emit has the time of the left record.
	Found   func(l L, r R, emit func(Out))
	Missing func(l L, emit func(Out))
	// TTL is how long a right record counts after its arrival; 0: for ever.
	TTL time.Duration
	// Registry has the codecs of the pipeline; nil: none.
	Registry *codec.Registry
}

// Stages are the inputs, left and right.
func (s Latest[K, L, R, Out]) Stages() (task.StageOf[L, Out], task.StageOf[R, Out]) {
	return stages(func(rt *task.Runtime, out task.Push[Out]) (operator[L, R], error) {
		dir, err := state.NewDirectory[K](rt.Options("", s.Registry))
		if err != nil {
			return nil, err
		}
		rt.Keep(dir.Table())
		newest, err := handle.ValueOf[Stamped[R]](dir, "latest", handle.Config{After: s.TTL})
		return &latest[K, L, R, Out]{spec: s, rt: rt, dir: dir, newest: newest, emit: out}, err
	})
}

type latest[K comparable, L, R, Out any] struct {
	task.Base
	spec   Latest[K, L, R, Out]
	rt     *task.Runtime
	dir    *state.Directory[K]
	newest *handle.Value[Stamped[R]]
	emit   func(Out)
}

func (o *latest[K, L, R, Out]) pushLeft(v L) {
	k := o.spec.LeftKey(v)
	o.dir.Seek(k, o.dir.Hash(k))
	if r, ok := o.newest.Load(); ok {
		o.spec.Found(v, r.V, o.emit)
		return
	}
	o.spec.Missing(v, o.emit)
}

func (o *latest[K, L, R, Out]) pushRight(v R) {
	k := o.spec.RightKey(v)
	o.dir.Seek(k, o.dir.Hash(k))
	if r, ok := o.newest.Load(); ok && r.At > o.rt.At {
		return
	}
	o.newest.Set(Stamped[R]{o.rt.At, v})
}
