package task

import (
	"time"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
)

// ErrorPolicy says what becomes of a record that cannot be processed.
type ErrorPolicy uint8

const (
	// FailOnError ends the attempt.
	FailOnError ErrorPolicy = iota
	// SkipOnError drops the record and counts it.
	SkipOnError
)

// TimeOrigin says where the event time of a record comes from when there is no extractor.
type TimeOrigin uint8

const (
	// FromSource keeps what the reader has given (Records.Add).
	FromSource TimeOrigin = iota
	// FromClock stamps records with the clock of the reading machine.
	FromClock
)

// Watermarks says how a source makes watermarks. At its end a bounded source promises MaxTime in any case.
type Watermarks uint8

const (
	// WatermarksAuto is WatermarksBounded with an EventTime extractor, and WatermarksNone without.
	WatermarksAuto Watermarks = iota
	// WatermarksNone makes none: the source is idle for event time.
	WatermarksNone
	// WatermarksBounded promises the largest time of a split less OutOfOrder, at most once per batch and millisecond.
	WatermarksBounded
	// WatermarksPerRecord does so after each record.
	WatermarksPerRecord
)

// SourceOptions is how a pipeline reads a source. The zero value keeps the source's times and makes no watermarks.
type SourceOptions[T any] struct {
	// EventTime extracts the event time; nil: see Times.
	EventTime func(T) element.Time
	Times     TimeOrigin
	// Watermarks are per split and merged by the rule for channels.
	Watermarks Watermarks
	// OutOfOrder is how far behind the largest time of its split a record may be without being late.
	OutOfOrder time.Duration
	// IdleAfter takes a split that has had no record for so long out of the minimum; 0: never. A bounded source is
	// never idle, it only has not ended yet.
	IdleAfter time.Duration
	// OnError decides about records that the source could not decode.
	OnError ErrorPolicy
}

// SourceHead is a source, erased.
type SourceHead interface {
	// Bounded says whether the source ends by itself.
	Bounded() bool
	// sealed: sources are made by NewSource.
	sealed()
}

// NewSource erases a source. It opens nothing.
func NewSource[T any](s connector.Source[T], o SourceOptions[T]) SourceHead {
	return &source[T]{src: s, opts: o}
}

type source[T any] struct {
	src  connector.Source[T]
	opts SourceOptions[T]
}

func (s *source[T]) Bounded() bool { return s.src.Bounded() }
func (s *source[T]) sealed()       {}
