package task

import (
	"context"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/worker/task/chain"
	"github.com/sluiceio/sluice/worker/task/edge"
	"github.com/sluiceio/sluice/worker/task/fault"
	"github.com/sluiceio/sluice/worker/task/reject"
	"github.com/sluiceio/sluice/worker/task/source"
)

// The names that operators are written against. What they mean stands where they are defined: inside a subtask is
// package chain, its ends are edge and source.
type (
	// Push is the typed inside of a chain.
	Push[T any] = chain.Push[T]
	// Stage is the typed part of one input of an operator, erased.
	Stage = chain.Stage
	// StageOf is a Stage by a typed function.
	StageOf[In, Out any] = chain.StageOf[In, Out]
	// Operator is the control side of one operator of one subtask.
	Operator = chain.Operator
	// InputEnder is an Operator that wants to know which of its inputs has ended.
	InputEnder = chain.InputEnder
	// Occasioned is an Operator that knows more about what it does than which event it handles.
	Occasioned = chain.Occasioned
	// Holder is an Operator that holds watermarks back.
	Holder = chain.Holder
	// Relay is a Holder that passes on itself what it holds back.
	Relay = chain.Relay
	// Listener is an Operator for which something happens outside the loop.
	Listener = chain.Listener
	// Limiter is an Operator that takes so many records at a time.
	Limiter = chain.Limiter
	// Waker is an Operator that works by the clock.
	Waker = chain.Waker
	// Restorer is an Operator that derives something from its tables.
	Restorer = chain.Restorer
	// StateMemory is what the process gives to the state of its operators.
	StateMemory = chain.StateMemory
	// Base is an Operator that ignores every event and has no state.
	Base = chain.Base
	// Reloader is an Operator that can load again what it has loaded before.
	Reloader = chain.Reloader
	// Runtime is what one operator of one subtask knows about its surroundings.
	Runtime = chain.Runtime
	// Cursor is where the loop of a subtask stands.
	Cursor = chain.Cursor
	// Counters are what only operators can count.
	Counters = chain.Counters
	// Count is a number that user code counts.
	Count = chain.Count
	// Batch is what a batch operator works with beyond its state.
	Batch = chain.Batch
	// KeyGroups is a range of key groups.
	KeyGroups = chain.KeyGroups

	// ErrorPolicy says what becomes of a record that cannot be processed.
	ErrorPolicy = reject.Policy
	// Failed decides about a record that has failed for good.
	Failed[T any] = reject.Failed[T]
	// DeadLetter is a record that an operator could not process.
	DeadLetter = reject.DeadLetter

	// Exchange is both ends of one logical edge.
	Exchange = edge.Exchange

	// SourceHead is a source, erased.
	SourceHead = source.Source
	// SourceOptions is how a pipeline reads a source.
	SourceOptions[T any] = source.Options[T]
	// Generator makes the watermarks of one split.
	Generator[T any] = source.Generator[T]
	// PhasedEnumerator is an enumerator whose splits have phases.
	PhasedEnumerator = source.Phased
	// TimeOrigin says where the event time of a record comes from when there is no extractor.
	TimeOrigin = source.TimeOrigin
	// Watermarks says how a source makes watermarks.
	Watermarks = source.Watermarks
)

// Values of the types above.
const (
	FailOnError   = reject.Fail
	SkipOnError   = reject.Skip
	LetterOnError = reject.Letter

	FromSource = source.FromSource
	FromClock  = source.FromClock

	WatermarksAuto      = source.WatermarksAuto
	WatermarksNone      = source.WatermarksNone
	WatermarksBounded   = source.WatermarksBounded
	WatermarksPerRecord = source.WatermarksPerRecord
)

// NewRuntime is the surroundings of a single operator outside a Process, for harnesses.
func NewRuntime(ctx context.Context, operator string) *Runtime {
	return chain.NewRuntime(ctx, operator)
}

// LookAhead has f called with the records that are pushed next into the input whose stage is being built.
func LookAhead[T any](rt *Runtime, most int, f func(next []T)) { chain.LookAhead(rt, most, f) }

// AheadOf is what LookAhead was told for an input, for harnesses; most is 0 if it was not called.
func AheadOf[T any](rt *Runtime, input int) (most int, f func(next []T)) {
	return chain.AheadOf[T](rt, input)
}

// Shared is the value that the stages of one operator with several inputs have in common.
func Shared[S any](rt *Runtime, make func() (S, error)) (S, error) { return chain.Shared(rt, make) }

// SideOutput is where an operator emits to its side output of this name, to be called while it is built.
func SideOutput[T any](rt *Runtime, port string) (Push[T], error) {
	return chain.SideOutput[T](rt, port)
}

// NewFailed makes the decision of an error policy for an operator without keys.
func NewFailed[T any](rt *Runtime, p ErrorPolicy) (Failed[T], error) { return reject.New[T](rt, p) }

// NewKeyedFailed makes the decision of an error policy for an operator with keys.
func NewKeyedFailed[K comparable, T any](rt *Runtime, p ErrorPolicy, key func(T) K) (Failed[T], error) {
	return reject.Keyed(rt, p, key)
}

// FailsAlways reports whether no error policy counts for err.
func FailsAlways(err error) bool { return reject.Final(err) }

// Protect calls f and turns a panic into the failure that it is, with its stack. For user code that runs outside the loop.
func Protect(f func() error) error { return fault.Protect(f) }

// NewSource erases a source. It opens nothing.
func NewSource[T any](s connector.Source[T], o SourceOptions[T]) SourceHead { return source.New(s, o) }

// NewExchange serves edges that route without looking at the record.
func NewExchange[T any](c *codec.Codec[T]) Exchange { return edge.New(c) }

// NewKeyedExchange routes by key group.
func NewKeyedExchange[K comparable, T any](c *codec.Codec[T], key func(T) K, hash func(K) uint64) Exchange {
	return edge.NewKeyed(c, key, hash)
}

// NewCustomExchange routes by the user's own function: the index of one of the consumers.
func NewCustomExchange[T any](c *codec.Codec[T], route func(v T, consumers int) int) Exchange {
	return edge.NewCustom(c, route)
}
