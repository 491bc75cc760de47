package flow

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/worker/task"
)

// From adds a source. The id is mandatory: read positions are state.
func (p *Pipeline) From[T any](id string, src Source[T], opts ...SourceOption[T]) Stream[T] {
	where := caller()
	var o sourceOptions[T]
	for _, opt := range opts {
		opt(&o)
	}
	if o.err != nil {
		p.fault("E018", where, fmt.Sprintf("source %q: %v", id, o.err), o.fix)
	}
	src = replacedSource(p, id, where, src)
	if c, ok := src.(connector.Checker); ok {
		if err := c.Check(); err != nil {
			p.fault("E018", where, fmt.Sprintf("source %q: %v", id, err), "give it other arguments")
		}
	}
	n := p.add("source")
	n.name(id)
	n.op.Bounded, n.op.Stateful, n.policy = src.Bounded(), true, true
	n.op.Detail = detail(src)
	n.source = func() task.SourceHead {
		o.task.OnError = n.policyOf(p)
		return task.NewSource(src, o.task)
	}
	return derive[T](p, n)
}

// Of is a bounded source of the values given, for tests and examples.
func (p *Pipeline) Of[T any](id string, vs ...T) Stream[T] { return p.From(id, Values(vs...)) }

// SourceOption sets how a source stamps its records with event time. Without one the times that the connector gives are
// kept, and no watermark is made before the end.
type SourceOption[T any] func(*sourceOptions[T])

type sourceOptions[T any] struct {
	task task.SourceOptions[T]
	err  error
	fix  string // of err
}

// WatermarkOption sets how a source makes watermarks.
type WatermarkOption func(*watermarkOptions)

type watermarkOptions struct {
	outOfOrder time.Duration
	idleAfter  time.Duration
	every      bool
	group      string
	drift      time.Duration
	aligned    bool
}

// idleAfter is the default of IdleAfter.
const idleAfter = time.Minute

// EventTime takes the event time of a record from f and makes watermarks that allow bounded disorder: per split, behind the
// largest time seen.
func EventTime[T any](f func(T) Time, opts ...WatermarkOption) SourceOption[T] {
	return func(o *sourceOptions[T]) { o.marked(f, opts) }
}

// SourceTime keeps the times that the connector gives, and makes watermarks as EventTime does.
func SourceTime[T any](opts ...WatermarkOption) SourceOption[T] {
	return func(o *sourceOptions[T]) { o.marked(nil, opts) }
}

// EventTimeBy takes the event time of a record from f and the watermarks from a generator of each split, which gen makes. A
// generator is asked once per batch of records, or with EveryRecord after each of them, as punctuated streams need it.
func EventTimeBy[T any](f func(T) Time, gen func() WatermarkGenerator[T], opts ...WatermarkOption) SourceOption[T] {
	return func(o *sourceOptions[T]) {
		o.marked(f, opts)
		o.task.Generator = gen
		if o.task.OutOfOrder != 0 && o.err == nil {
			o.err, o.fix = errors.New("OutOfOrder beside a generator, which says itself what it promises"), "leave OutOfOrder out"
		}
	}
}

// WatermarkGenerator makes the watermarks of one split of a source.
type WatermarkGenerator[T any] = task.Generator[T]

func (o *sourceOptions[T]) marked(f func(T) Time, opts []WatermarkOption) {
	w := watermarkOptions{idleAfter: idleAfter}
	for _, opt := range opts {
		opt(&w)
	}
	o.task.EventTime, o.task.Watermarks = f, task.WatermarksBounded
	if w.every {
		o.task.Watermarks = task.WatermarksPerRecord
	}
	o.task.OutOfOrder, o.task.IdleAfter = w.outOfOrder, w.idleAfter
	o.task.Group, o.task.MaxDrift = w.group, w.drift
	switch {
	case w.outOfOrder < 0 || w.idleAfter < 0:
		o.err = fmt.Errorf("a negative duration (OutOfOrder %v, IdleAfter %v)", w.outOfOrder, w.idleAfter)
		o.fix = "use a duration that is zero or positive"
	case w.aligned && (w.group == "" || w.drift < time.Microsecond):
		o.err = fmt.Errorf("alignment group %q with a drift of %v", w.group, w.drift)
		o.fix = `flow.Align("name", d) with a drift of a microsecond or more`
	}
}

// ProcessingTime stamps records with the clock of the machine that reads them. Such a source makes no watermarks before its
// end.
func ProcessingTime[T any]() SourceOption[T] {
	return func(o *sourceOptions[T]) { o.task.Times = task.FromClock }
}

// OutOfOrder allows records of a split to be up to d behind the newest one. Without it a record that is older than
// the newest one of its split is late.
func OutOfOrder(d time.Duration) WatermarkOption {
	return func(o *watermarkOptions) { o.outOfOrder = d }
}

// EveryRecord makes a watermark after every record, instead of one per batch: what is late is then decided by the order of the
// records of a split alone. It costs a walk through the chain per record.
func EveryRecord() WatermarkOption {
	return func(o *watermarkOptions) { o.every = true }
}

// IdleAfter takes a split of an unbounded source that has had no record for d out of the watermark, so that it does not
// hold the others back. The default is a minute; 0 never does.
func IdleAfter(d time.Duration) WatermarkOption {
	return func(o *watermarkOptions) { o.idleAfter = d }
}

// Align keeps the splits of all sources with this group together in event time: one whose watermark is more than maxDrift ahead
// of the lowest one of the group is not read until the others have come closer, so that windows and joins need not hold what the
// slow ones have not reached yet. Splits that are idle, have ended, or have no watermark yet hold nobody, and results do not
// depend on it. Other processes are heard with the heartbeats: less drift than event time passes in a second makes fast sources
// wait for those, and while nothing is heard for ten seconds a process aligns its own splits only.
func Align(group string, maxDrift time.Duration) WatermarkOption {
	return func(o *watermarkOptions) { o.group, o.drift, o.aligned = group, maxDrift, true }
}
