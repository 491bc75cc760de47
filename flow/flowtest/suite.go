package flowtest

import (
	"testing"

	"github.com/sluiceio/sluice/connector/suite"
)

// What conformance suites need to know of connectors: package connector/suite has them, for connectors that do not import flow.
type (
	// SourceSuite describes a bounded source under test.
	SourceSuite[T any] = suite.Source[T]
	// SinkSuite describes a sink under test.
	SinkSuite[T any] = suite.Sink[T]
	// SinkPlace is where a sink under test writes, as seen from outside.
	SinkPlace[T any] = suite.Place[T]
)

// ConformSource checks that a source delivers every record once, wherever its readers are stopped, moved and continued: after
// every record, from every position, with its splits in other hands.
func ConformSource[T any](t *testing.T, s SourceSuite[T]) { suite.TestSource(t, s) }

// ConformSink checks that what a sink has written is seen when its guarantee allows, once, and that it touches nothing else.
func ConformSink[T any](t *testing.T, s SinkSuite[T]) { suite.TestSink(t, s) }
