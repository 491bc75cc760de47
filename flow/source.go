package flow

import "time"

// From adds a source. The id is mandatory: read positions are state.
func (p *Pipeline) From[T any](id string, src Source[T], opts ...SourceOption[T]) Stream[T] {
	n := p.add("source")
	n.op.Id, n.op.GeneratedId, n.op.Bounded = id, false, src.Bounded()
	return derive[T](p, n)
}

// Of is a bounded source of the values given, for tests and examples.
func (p *Pipeline) Of[T any](id string, vs ...T) Stream[T] {
	n := p.add("source")
	n.op.Id, n.op.GeneratedId, n.op.Bounded = id, false, true
	return derive[T](p, n)
}

// SourceOption sets how a source stamps its records.
type SourceOption[T any] func(*sourceOptions[T])

type sourceOptions[T any] struct {
	time       func(T) Time
	outOfOrder time.Duration
	procTime   bool
}

// WatermarkOption sets how a source makes watermarks.
type WatermarkOption func(*watermarkOptions)

type watermarkOptions struct{ outOfOrder time.Duration }

// EventTime takes the event time of a record from f and makes watermarks that allow bounded disorder: per split, behind the
// largest time seen.
func EventTime[T any](f func(T) Time, opts ...WatermarkOption) SourceOption[T] {
	return func(o *sourceOptions[T]) { o.time = f }
}

// ProcessingTime stamps records with the clock of the machine that reads them. Such a source makes no watermarks before its
// end.
func ProcessingTime[T any]() SourceOption[T] {
	return func(o *sourceOptions[T]) { o.procTime = true }
}

// OutOfOrder allows records of a split to be late by up to d behind the newest one. Without it times must not fall.
func OutOfOrder(d time.Duration) WatermarkOption {
	return func(o *watermarkOptions) { o.outOfOrder = d }
}
