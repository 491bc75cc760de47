package join

import (
	"errors"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/operator/batch"
	"github.com/sluiceio/sluice/worker/operator/batch/queue"
	"github.com/sluiceio/sluice/worker/spill"
	"github.com/sluiceio/sluice/worker/task"
)

// core is what all levels of a join share.
type core[K comparable, B, P, Out any] struct {
	spec[K, B, P, Out]
	rt   *task.Runtime
	mem  *batch.Memory
	hash func(K) uint64
	emit func(Out)

	buildCodec *codec.Codec[B]
	probeCodec *codec.Codec[P]
	buildSize  *spill.Sizer[B]
	probeSize  *spill.Sizer[P]

	b B // the record that is being written down
	p P

	asked uint // pairs and records of groups, for looking up from time to time whether the attempt has to stop
}

// operator is a join of one subtask.
type operator[K comparable, B, P, Out any] struct {
	task.Base
	batch.Holder
	*core[K, B, P, Out]
	top   *pass[K, B, P, Out]
	early *queue.Queue[P] // nil: the build side has ended
	done  bool            // nothing more is to be emitted, be it because of a failure
}

var _ task.InputEnder = (*operator[int, int, int, int])(nil)

func open[K comparable, B, P, Out any](rt *task.Runtime, s spec[K, B, P, Out], out task.Push[Out]) (*operator[K, B, P, Out], error) {
	hash, err := codec.Hasher[K]()
	if err != nil {
		return nil, err
	}
	b, err := codec.Of[B](s.registry)
	if err != nil {
		return nil, err
	}
	p, err := codec.Of[P](s.registry)
	if err != nil {
		return nil, err
	}
	mem, err := batch.Open(rt)
	if err != nil {
		return nil, err
	}
	c := &core[K, B, P, Out]{
		spec: s, rt: rt, mem: mem, hash: hash, emit: out,
		buildCodec: b, probeCodec: p, buildSize: spill.SizerOf(b), probeSize: spill.SizerOf(p),
	}
	return &operator[K, B, P, Out]{core: c, top: newPass(c, 0, mem.FanOut(2), 0), early: queue.New(mem, p, c.probeSize)}, nil
}

func (o *operator[K, B, P, Out]) pushBuild(v B) {
	if o.done {
		return
	}
	kept, err := o.top.keep(v, o.rt.At)
	if !kept && err == nil {
		if err = o.early.Spill(); err == nil { // it is read once; a partition would be probed again and again
			err = o.top.build(v, o.rt.At)
		}
	}
	o.check(err)
}

func (o *operator[K, B, P, Out]) pushProbe(v P) {
	if o.done {
		return
	}
	at := o.rt.At
	if o.early == nil {
		o.check(o.top.probe(v, at))
		o.rt.At = at
		return
	}
	if k := o.probeKey(v); o.top.spilled(k) {
		o.check(o.top.probe(v, at))
		return
	}
	o.check(o.early.Add(v, at))
}

// check ends the attempt at an error.
func (o *operator[K, B, P, Out]) check(err error) {
	if err != nil {
		o.done = true
		o.rt.Fail(err)
	}
}

// OnInputEnd begins to probe when the build side has ended.
func (o *operator[K, B, P, Out]) OnInputEnd(input int) error {
	if input != o.input || o.done || o.early == nil {
		return nil
	}
	defer o.mem.Publish()
	if err := o.top.index(); err != nil {
		return err
	}
	early := o.early
	o.early = nil
	return early.Drain(o.top.probe)
}

// OnWatermark emits at the end what only then is known: pairs that were spilled, and records without a partner.
func (o *operator[K, B, P, Out]) OnWatermark(t element.Time) error {
	o.mem.Publish()
	if t != element.MaxTime || o.done {
		return nil
	}
	if err := o.OnInputEnd(o.input); err != nil { // if nobody has said so
		return err
	}
	o.done = true
	return o.top.finish()
}

// Close gives memory and disk back.
func (o *operator[K, B, P, Out]) Close() error {
	o.done = true
	o.top, o.early = nil, nil
	return errors.Join(o.mem.Close())
}

// pair emits a pair.
func (c *core[K, B, P, Out]) pair(p *P, pat element.Time, b *B, bat element.Time) {
	c.rt.At = max(pat, bat)
	c.match(*p, *b, c.emit)
}

// lookUp is why nothing more should be emitted. It is called per pair, and per record of a group, and asks now and then.
func (c *core[K, B, P, Out]) lookUp() error {
	if c.asked++; c.asked%lookUpEvery != 0 {
		return nil
	}
	return c.rt.Stopped()
}

// lookUpEvery is the number of pairs that may be emitted in vain after the attempt has been told to stop.
const lookUpEvery = 256

// noBuild and noProbe emit a record without a partner.
func (c *core[K, B, P, Out]) noBuild(p *P, at element.Time) error {
	if c.probeOnly == nil {
		return nil
	}
	c.rt.At = at
	c.probeOnly(*p, c.emit)
	return c.rt.Stopped()
}

func (c *core[K, B, P, Out]) noProbe(b *B, at element.Time) error {
	if c.buildOnly == nil {
		return nil
	}
	c.rt.At = at
	c.buildOnly(*b, c.emit)
	return c.rt.Stopped()
}
