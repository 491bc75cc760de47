package state

import (
	"context"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/snapshot/chunk"
)

// Table is what the driver of checkpoints sees of a table of an operator: a Directory, Spaces, or one of package unkeyed.
// An operator may have several; their names (Options.Table) tell them apart in chunks.
type Table interface {
	// Freeze fixes the state at the barrier of a checkpoint.
	Freeze(element.CheckpointID, Extent) (*Snapshot, error)
	// Completed, Aborted and Rewind tell what became of it. Base is the last completed one.
	Completed(element.CheckpointID)
	Aborted(element.CheckpointID)
	Rewind(element.CheckpointID) error
	Base() element.CheckpointID
	// Import takes what the subtask that owns the key groups in [first, end) has of a chain of chunks, oldest first. Restored
	// ends it.
	Import(ctx context.Context, chain []*chunk.Reader, first, end int) error
	Restored(element.CheckpointID)
	// Maintain is called once per batch.
	Maintain(work int) error
	Err() error
	Bytes() int
	Close() error
}

var (
	_ Table = (*directory)(nil)
	_ Table = (*spaces)(nil)
)
