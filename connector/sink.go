package connector

import (
	"context"

	"github.com/sluiceio/sluice/flow/element"
)

// Guarantee is what a sink promises about records that are processed again after a failure.
type Guarantee uint8

const (
	// AtLeastOnce: a record may appear more than once.
	AtLeastOnce Guarantee = iota + 1
	// Idempotent: a repeated record overwrites itself.
	Idempotent
	// ExactlyOnce: output becomes visible by a commit that follows a completed checkpoint, once.
	ExactlyOnce
)

func (g Guarantee) String() string {
	switch g {
	case AtLeastOnce:
		return "at-least-once"
	case Idempotent:
		return "idempotent"
	case ExactlyOnce:
		return "exactly-once"
	}
	return "unspecified"
}

// Sink writes records of type T. The value is shared by all subtasks of a process and must be immutable.
type Sink[T any] interface {
	// Guarantee is shown by plan and status. Called at plan time.
	Guarantee() Guarantee
	// OpenWriter starts the writer of one attempt. restored holds the snapshots of the attempts that it continues.
	OpenWriter(ctx context.Context, t *Task, restored [][]byte) (Writer[T], error)
}

// CommittingSink is a Sink with two-phase commit. ExactlyOnce without it is an error at plan time (E024).
type CommittingSink interface {
	// OpenCommitter starts a committer, in any task process of the job. For AbortUnknown t is the attempt that begins;
	// for Commit and Abort, which may run where no attempt does, Subtask, Parallelism and Attempt are zero.
	OpenCommitter(ctx context.Context, t *Task) (Committer, error)
}

// Writer receives the records of one subtask. The order of calls is
//
//	Write* (Flush Prepare Snapshot Write*)* [Flush End Prepare] Close
type Writer[T any] interface {
	Write(ctx context.Context, v T, at element.Time) error
	// Flush returns when everything written so far has left the process. If the sink has no committer, it is also called
	// between records, about ten times a second while there are some.
	Flush(ctx context.Context) error
	// End says that no record follows; formats with a trailer write it now.
	End(ctx context.Context) error
	// Prepare makes everything written since the last Prepare durable but not yet visible. Once the engine has
	// recorded the result, it will be committed, whatever happens to this process.
	Prepare(ctx context.Context, id element.CheckpointID) ([]Committable, error)
	// Snapshot is the writer's own state after Prepare; nil if it has none.
	Snapshot(id element.CheckpointID) ([]byte, error)
	// Close releases resources. What was written and not prepared is discarded.
	Close() error
}

// NoCommit gives a plain writer the two-phase methods: nothing to prepare, no state.
type NoCommit struct{}

// Prepare has nothing to prepare.
func (NoCommit) Prepare(context.Context, element.CheckpointID) ([]Committable, error) {
	return nil, nil
}

// Snapshot has no state.
func (NoCommit) Snapshot(element.CheckpointID) ([]byte, error) { return nil, nil }

// Committable is prepared output: enough to make it visible, or to remove it, from any process of the job.
// Data is at most 64 KiB; it is stored by the coordinators.
type Committable struct {
	Subtask    int
	Checkpoint element.CheckpointID
	N          int // number within (subtask, checkpoint)
	Data       []byte
}

// CommitResult is the outcome for one committable.
type CommitResult uint8

const (
	// Committed: visible now.
	Committed CommitResult = iota
	// AlreadyCommitted: an earlier try had succeeded.
	AlreadyCommitted
	// RetryLater: the outside world is not ready.
	RetryLater
	// Lost: it can never be committed (a transaction timed out). Fails the job loudly.
	Lost
)

// Committer makes prepared output visible. Commit may run again after any crash, late, and at the same time as a
// commit of the same output by a process that is believed dead: it must be idempotent.
type Committer interface {
	// Commit is tried again after an error, until it succeeds; an error marked by Fatal fails the job.
	Commit(ctx context.Context, cs []Committable) ([]CommitResult, error)
	// Abort removes prepared output that will never be committed. Idempotent. It is tried again for a while.
	Abort(ctx context.Context, cs []Committable) error
	// AbortUnknown removes leftovers of lower epochs of this job, sink and subtask, except keep. After a change of
	// parallelism subtask i answers for all old subtasks whose index is i modulo the parallelism.
	AbortUnknown(ctx context.Context, keep []Committable) error
	Close() error
}
