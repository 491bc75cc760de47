package sample

import (
	"math/rand/v2"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/operator/batch"
	"github.com/sluiceio/sluice/worker/task"
)

// Sample is what one subtask knows of its keys.
type Sample[K any] struct {
	Seen int64 // records that the keys stand for
	Keys []K
}

// Size is the most keys of a sample.
const Size = 4096

// Keys draws a sample and emits one Sample when the input has ended. The same input gives the same sample in every
// attempt: chance is seeded by the name of the subtask.
func Keys[K, T any](key func(T) K) task.StageOf[T, Sample[K]] {
	return func(rt *task.Runtime, out task.Push[Sample[K]]) (task.Push[T], task.Operator, error) {
		hash, err := codec.Hasher[string]()
		if err != nil {
			return nil, nil, err
		}
		o := &keys[K]{rt: rt, out: out, rand: rand.New(rand.NewPCG(hash(rt.Task.Operator), uint64(rt.Task.Subtask)))}
		return func(v T) { o.add(key(v)) }, o, nil
	}
}

// keys is a reservoir: each record so far is in the sample with the same probability.
type keys[K any] struct {
	task.Base
	batch.Holder
	rt     *task.Runtime
	out    task.Push[Sample[K]]
	rand   *rand.Rand
	sample Sample[K]
	ended  bool
}

func (o *keys[K]) add(k K) {
	s := &o.sample
	if s.Seen++; len(s.Keys) < Size {
		s.Keys = append(s.Keys, k)
		return
	}
	if i := o.rand.Int64N(s.Seen); i < Size {
		s.Keys[i] = k
	}
}

// OnWatermark emits the sample at the end.
func (o *keys[K]) OnWatermark(t element.Time) error {
	if t == element.MaxTime && !o.ended {
		o.ended = true
		o.rt.At = t
		o.out(o.sample)
	}
	return nil
}
