package chain

import (
	"time"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// StepTime is what a step should take at most, so that a slow function does not delay letters and flushes by as many of
// its calls as a batch has records. Steps shrink until they fit.
const StepTime = time.Millisecond

// Head drives a chain: a source, or the gates of the edges that lead to it. It belongs to the loop of its subtask.
type Head interface {
	// Step handles at most limit records, and at most one batch of one input. What it says about events goes down the
	// chain before it returns.
	Step(limit int) (Progress, error)
	// Assigned takes splits.
	Assigned(a *taskpb.AssignSplits) error
	// OnTime does what was due at or before now, and returns when it wants to be called again; zero: not by the clock.
	OnTime(now time.Time) (next time.Time, err error)
	// Position describes the record in flight.
	Position() string
	// Close gives up the inputs; nil: they have ended.
	Close(err error) error
	// Received is what was taken from the inputs.
	Received() Received
	// OnAligned sets who freezes the chain when a barrier has come through all channels: since is when the first one had. It
	// is called once, before the first step, and only for subtasks that take part in checkpoints.
	OnAligned(freeze func(id element.CheckpointID, since time.Time) error)
	// Trigger says that a checkpoint has begun, Abort that one was given up, Completed that it is completed and that the
	// subtask took part in it.
	Trigger(id element.CheckpointID) error
	Abort(id element.CheckpointID)
	Completed(id element.CheckpointID)
	// Save adds to s what the head has for a checkpoint that is being frozen.
	Save(id element.CheckpointID, s *snapshotpb.SubtaskState) error
	// Restore says again how far time had come. Called behind the tables are there, before the first step.
	Restore() error
	// Clock tells which inputs hold the clock. Called between steps, by the loop.
	Clock(c *taskpb.Clock)
}

// Progress is what a step has found.
type Progress struct {
	State State
	// Records handled in this step.
	Records int
	// Waited is the part of the step that was spent in waiting for input.
	Waited time.Duration
	// Empty: the input had nothing, so whatever is buffered would wait for its next record.
	Empty bool
}

// State of a head.
type State uint8

const (
	// Working: there may be more at once.
	Working State = iota
	// Starved: nothing until a notification, a letter or a deadline.
	Starved
	// Ended: the inputs have ended, and the chain has finished.
	Ended
)

// Received counts what a head has taken from its inputs.
type Received struct {
	Records int64
	Bytes   int64 // encoded
	Stored  int64 // of these, read from stored results
}
