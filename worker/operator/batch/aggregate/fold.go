package aggregate

import (
	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/operator/batch"
	"github.com/sluiceio/sluice/worker/operator/keyed"
	"github.com/sluiceio/sluice/worker/spill"
	"github.com/sluiceio/sluice/worker/task"
)

// Fold is what is kept per key.
type Fold[K comparable, In, Acc any] struct {
	Key func(In) K
	// First makes the accumulator of a key, Add adds a further record. They serve accumulators whose size is found by
	// looking at them.
	First func(v In) Acc
	Add   func(acc Acc, v In) Acc
	// Update does both, instead of First and Add, and says by how many bytes the accumulator has grown beyond its own
	// type. fresh says that it is zero.
	Update func(acc *Acc, v In, at element.Time, fresh bool) (grown int64)
	// Size is the memory of an accumulator beyond its own type; with Update only. nil: it never grows.
	Size func(acc *Acc) int64
	// Emit is called once per key at the end; nil: everything was emitted before.
	Emit     func(k K, acc *Acc) error
	Registry *codec.Registry
}

// Final emits the result of each key at the end of the input, with the time element.MaxTime.
func Final[K comparable, In, Acc, Out any](a keyed.Aggregation[K, In, Acc, Out]) task.StageOf[In, Out] {
	return func(rt *task.Runtime, out task.Push[Out]) (task.Push[In], task.Operator, error) {
		return Open(rt, Fold[K, In, Acc]{
			Key: a.Key, First: a.First, Add: a.Add, Registry: a.Registry,
			Emit: func(k K, acc *Acc) error {
				rt.At = element.MaxTime
				out(a.Result(k, *acc))
				return rt.Stopped()
			},
		})
	}
}

// Distinct emits the first record of each key, with its own event time, as soon as it is known to be the first.
func Distinct[K comparable, T any](key func(T) K, r *codec.Registry) task.StageOf[T, T] {
	return func(rt *task.Runtime, out task.Push[T]) (task.Push[T], task.Operator, error) {
		return Open(rt, Fold[K, T, struct{}]{
			Key: key, Registry: r,
			Update: func(_ *struct{}, v T, at element.Time, fresh bool) int64 {
				if fresh {
					rt.At = at
					out(v)
				}
				return 0
			},
		})
	}
}

// core is what all levels of an aggregation share.
type core[K comparable, In, Acc any] struct {
	Fold[K, In, Acc]
	rt    *task.Runtime
	mem   *batch.Memory
	hash  func(K) uint64
	codec *codec.Codec[In]
	saves *codec.Codec[saved[K, Acc]] // nil: accumulators do not grow

	keySize *spill.Sizer[K]
	inSize  *spill.Sizer[In]
	accSize *spill.Sizer[Acc]
	grows   bool

	record In // that is being written down
}

// saved is an accumulator on disk.
type saved[K comparable, Acc any] struct {
	Key K
	Acc Acc
}

// operator is an aggregation of one subtask.
type operator[K comparable, In, Acc any] struct {
	task.Base
	batch.Holder
	*core[K, In, Acc]
	top  *pass[K, In, Acc]
	done bool // nothing more is to be taken or emitted
}

// Open makes the operator.
func Open[K comparable, In, Acc any](rt *task.Runtime, f Fold[K, In, Acc]) (task.Push[In], task.Operator, error) {
	c := &core[K, In, Acc]{Fold: f, rt: rt}
	if err := c.compile(); err != nil {
		return nil, nil, err
	}
	var err error
	if c.mem, err = batch.Open(rt); err != nil {
		return nil, nil, err
	}
	// A partition that is closed takes a buffer and gives nothing back.
	c.mem.ReserveStreams(1<<c.mem.FanOut(1) + 4)
	o := &operator[K, In, Acc]{core: c, top: newPass(c, 0)}
	return o.push, o, nil
}

func (c *core[K, In, Acc]) compile() (err error) {
	if c.hash, err = codec.Hasher[K](); err != nil {
		return err
	}
	if c.codec, err = codec.Of[In](c.Registry); err != nil {
		return err
	}
	keys, err := codec.Of[K](c.Registry)
	if err != nil {
		return err
	}
	c.keySize, c.inSize = spill.SizerOf(keys), spill.SizerOf(c.codec)
	if c.Update != nil && c.Size == nil {
		return nil
	}
	accs, err := codec.Of[Acc](c.Registry)
	if err != nil {
		return err
	}
	c.accSize = spill.SizerOf(accs)
	if c.grows = c.Size != nil || !c.accSize.Fixed(); !c.grows {
		return nil
	}
	c.saves, err = codec.Of[saved[K, Acc]](c.Registry)
	return err
}

func (o *operator[K, In, Acc]) push(v In) {
	if o.done {
		return
	}
	// What nearly every record takes, written out: each call would copy the record once more.
	p := o.top
	k := p.key(v)
	t, hash := p.locate(k)
	r, i, w := t.find(k, hash)
	if r != nil && p.plain != nil {
		r.acc = p.plain(r.acc, v)
		return
	}
	at := o.rt.At
	var err error
	switch {
	case r == nil:
		err = p.unknown(t, w, k, hash, v, at)
	case p.grows:
		err = p.grow(t, i, v, at)
	default:
		p.fold(r, v, at)
	}
	if err != nil {
		o.done = true
		o.rt.Fail(err)
	}
	o.rt.At = at
}

// OnWatermark emits everything at the end of the input. Not in Finish: then consumers would already have been
// promised that nothing follows.
func (o *operator[K, In, Acc]) OnWatermark(t element.Time) error {
	o.mem.Publish()
	if t != element.MaxTime || o.done {
		return nil
	}
	o.done = true
	return o.top.finish()
}

// Close gives memory and disk back.
func (o *operator[K, In, Acc]) Close() error {
	o.done, o.top = true, nil
	return o.mem.Close()
}
