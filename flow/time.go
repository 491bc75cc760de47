package flow

import (
	"time"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/flow/window"
	"github.com/sluiceio/sluice/worker/operator/stateless"
	"github.com/sluiceio/sluice/worker/task"
)

// Time is event time in microseconds since the Unix epoch, UTC. It is comparable and a good key, unlike time.Time.
type Time = element.Time

const (
	// MinTime precedes every record: the watermark before any promise was made.
	MinTime = element.MinTime
	// MaxTime follows every record: the watermark at the end of a bounded input.
	MaxTime = element.MaxTime
)

// At is the event time of t, cut to microseconds.
func At(t time.Time) Time { return element.At(t) }

// Window is a span of event time: Start is inside, End is not.
type Window = window.Window

// Windowed is what window aggregates emit. Its event time is Window.End − 1 µs.
type Windowed[K comparable, V any] struct {
	Key    K
	Window Window
	Value  V
}

// KV is a key with a value.
type KV[K comparable, V any] struct {
	Key   K
	Value V
}

// Self is the identity, for KeyBy on streams of keys.
func Self[T any](v T) T { return v }

// Timestamped gives each record its event time.
func Timestamped[T any, R interface{ Stamped[T] }](s Stream[T]) Stream[R] {
	u, _ := unary[T, R](s, "map", func(*node) task.Stage {
		return stateless.Timed(func(v T, at Time) R { return R(Stamped[T]{v, at}) })
	})
	return u
}

// Stamped is a record with its event time.
type Stamped[T any] struct {
	Value T
	Time  Time
}
