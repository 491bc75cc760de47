package connector

import (
	"context"
	"log/slog"
	"slices"

	"github.com/sluiceio/sluice/flow/element"
)

// Split is a share of a source's input, opaque to the engine. ID is unique within the source; Data is what the
// connector needs to open it and, in a snapshot, where to continue. Version belongs to Data's encoding.
type Split struct {
	ID      string
	Version uint16
	Data    []byte
}

// Task is what a running attempt knows about itself.
type Task struct {
	Job      string // job id
	Operator string // operator id
	// Subtask is the index in [0, Parallelism).
	Subtask, Parallelism int
	// Attempt of this subtask: grows with every try in the life of the job.
	Attempt uint32
	// JobEpoch and RegionEpoch fence external names: output of a lower pair is void.
	JobEpoch, RegionEpoch uint64
	// Whole: every subtask of the job is in this process and ends with it, so nobody is left who wants what a process that
	// is gone had in progress. On a cluster it is false, and job ids are never used again.
	Whole bool
	Log   *slog.Logger
}

// Source reads records of type T. The value is shared by all subtasks of a process and must be immutable.
type Source[T any] interface {
	// Bounded says whether the input ends by itself. Called at plan time; must not touch the outside world.
	Bounded() bool
	// OpenEnumerator starts split discovery. It runs once per source, in a task process. restored is nil on a fresh
	// start. parallelism is the number of readers that will share the splits, a hint for generated inputs.
	OpenEnumerator(ctx context.Context, parallelism int, restored []byte) (Enumerator, error)
	// OpenReader starts the reader of one subtask, without any split.
	OpenReader(ctx context.Context, t *Task) (Reader[T], error)
}

// Enumerator discovers the splits of a source. Splits are handed to readers in the order of discovery; which reader
// gets which is decided by the coordinator and committed before the first record is read.
type Enumerator interface {
	// Next blocks until more splits are known or ctx is done; io.EOF ends a bounded source, with or after the last
	// splits.
	Next(ctx context.Context) ([]Split, error)
	Snapshot(id element.CheckpointID) ([]byte, error)
	Close() error
}

// PhasedEnumerator is an Enumerator whose splits have phases, counted from 0: those of a phase are given out when all splits of
// lower phases have been read to their end, by whichever reader. It discovers them in the order of phases. Splits of an
// ordinary Enumerator are of phase 0.
type PhasedEnumerator interface {
	Enumerator
	// Phase is that of a split that Next has returned. It depends on the split alone.
	Phase(s Split) int32
}

// PhasedSource is a Source with a PhasedEnumerator. All phases but the last one are bounded, whatever the source is: while
// they are read, a split yet to come may hold the oldest record of all.
type PhasedSource interface {
	// Phases is their number, 1 or more. Called at plan time; must not touch the outside world.
	Phases() int32
}

// Checker is a Source that may have been given arguments that make no sense. Check is called at plan time and must
// not touch the outside world; its error fails the plan (E018).
type Checker interface{ Check() error }

// SplitIndex numbers the splits of one reader in the order in which they were assigned, from 0.
type SplitIndex int32

// Reader reads the splits assigned to one subtask. All calls come from one goroutine.
type Reader[T any] interface {
	// Assign adds splits; SplitIndex counts on.
	Assign(splits []Split) error
	// Poll appends records to out until out is full, nothing more is at hand, or ctx is done (a control event waits).
	// It must not keep T values that out already holds. io.EOF: every split assigned so far is finished; the
	// engine then asks for more splits or ends the source. A reader without splits returns io.EOF at once.
	Poll(ctx context.Context, out *Records[T]) error
	// Describe is the human-readable place of a position, for error messages: file and row, topic and offset.
	Describe(s SplitIndex, pos int64) string
	// Snapshot returns the unfinished splits with their positions after the last Poll.
	Snapshot(id element.CheckpointID) ([]Split, error)
	// Committed: everything up to the snapshot of id is durable; acknowledge it upstream. May be repeated.
	Committed(ctx context.Context, id element.CheckpointID) error
	Close() error
}

// Pauser is a Reader that can leave some of its splits alone while it reads the others: what flow.Align asks for. A reader that
// reads one split after the other need not be one.
type Pauser interface {
	// Pause has Poll deliver nothing of these splits, and everything of the others, until it is called again. False: it cannot,
	// and none is paused. Called between polls. With every split paused, Poll may wait until ctx is done.
	Pause(splits []SplitIndex) bool
}

// RecordError is a record that could not be decoded; the operator's error policy decides what becomes of it.
type RecordError struct {
	Split SplitIndex
	Pos   int64
	Raw   []byte
	Err   error
}

// Records is what one Poll delivers. The engine empties and reuses it.
type Records[T any] struct {
	// Max is the number of records after which Poll should return.
	Max int

	element.Batch[T]
	// Splits and Pos run parallel to Vals.
	Splits []SplitIndex
	Pos    []int64
	Errors []RecordError
	Done   []SplitIndex
	Marks  []Mark
}

// Mark is a promise of the source itself: no record of the split with a time at or below At follows.
type Mark struct {
	Split SplitIndex
	At    element.Time
}

// Add delivers one record of split s. at is its event time if the source knows one; a source option of the pipeline
// may replace it. pos identifies the record for Reader.Describe.
func (r *Records[T]) Add(s SplitIndex, v T, at element.Time, pos int64) {
	r.Vals = append(r.Vals, v)
	r.Times = append(r.Times, at)
	r.Splits = append(r.Splits, s)
	r.Pos = append(r.Pos, pos)
}

// Extend delivers n records of split s at once and returns the places of their values, times and positions, which the caller fills
// in at once. It is Add for sources that make many records in a row: what is kept for each is looked up once.
func (r *Records[T]) Extend(s SplitIndex, n int) (vals []T, times []element.Time, pos []int64) {
	from := len(r.Vals)
	r.Vals = slices.Grow(r.Vals, n)[:from+n]
	r.Times = slices.Grow(r.Times, n)[:from+n]
	r.Pos = slices.Grow(r.Pos, n)[:from+n]
	r.Splits = slices.Grow(r.Splits, n)[:from+n]
	splits := r.Splits[from:]
	for i := range splits {
		splits[i] = s
	}
	return r.Vals[from:], r.Times[from:], r.Pos[from:]
}

// AddError delivers a record that could not be decoded.
func (r *Records[T]) AddError(s SplitIndex, raw []byte, pos int64, err error) {
	r.Errors = append(r.Errors, RecordError{Split: s, Pos: pos, Raw: raw, Err: err})
}

// Mark promises that no record of split s with a time at or below at follows those that were added, as sources can that know
// more of time than their records say. It counts beside the watermarks that the source option of the pipeline makes.
func (r *Records[T]) Mark(s SplitIndex, at element.Time) { r.Marks = append(r.Marks, Mark{s, at}) }

// Finish says that split s has delivered its last record.
func (r *Records[T]) Finish(s SplitIndex) { r.Done = append(r.Done, s) }

// Full reports whether Poll should return.
func (r *Records[T]) Full() bool { return len(r.Vals)+len(r.Errors) >= r.Max }

// Reset empties r and keeps its memory.
func (r *Records[T]) Reset() {
	r.Batch.Reset()
	clear(r.Errors)
	r.Splits, r.Pos, r.Errors, r.Done, r.Marks = r.Splits[:0], r.Pos[:0], r.Errors[:0], r.Done[:0], r.Marks[:0]
}
