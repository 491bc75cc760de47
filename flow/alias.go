package flow

import (
	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/task"
)

// The contracts of connectors, so that jobs need not import package connector to use or to write one.
type (
	// Source reads records of type T; connectors make them.
	Source[T any] = connector.Source[T]
	// Sink writes records of type T; connectors make them.
	Sink[T any] = connector.Sink[T]
	// Reader is the reading end of a Source, one per subtask.
	Reader[T any] = connector.Reader[T]
	// Writer is the writing end of a Sink, one per subtask.
	Writer[T any] = connector.Writer[T]
	// Records is what a Reader fills.
	Records[T any] = connector.Records[T]
	// Enumerator discovers the splits of a Source.
	Enumerator = connector.Enumerator
	// SplitIndex numbers the splits of a Reader.
	SplitIndex = connector.SplitIndex
	// CheckpointID is the number of a checkpoint.
	CheckpointID = element.CheckpointID
	// Split is a share of a source's input.
	Split = connector.Split
	// Task is what a running attempt knows about itself.
	Task = connector.Task
	// Counter is what the code of an operator counts, by Inc. It belongs to the calls of its subtask.
	Counter = task.Count
	// Guarantee is what a sink promises.
	Guarantee = connector.Guarantee
)

const (
	// AtLeastOnce sinks may show a record more than once after a failure.
	AtLeastOnce = connector.AtLeastOnce
	// Idempotent sinks overwrite a repeated record with itself.
	Idempotent = connector.Idempotent
	// ExactlyOnce sinks show a record once.
	ExactlyOnce = connector.ExactlyOnce
)
