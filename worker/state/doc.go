// Package state is typed keyed state: what an operator remembers per key.
//
// A Directory maps the keys of one operator of one subtask to rows. It is probed once per record (Seek); the handles
// (Value, List, Map, Reducing, Aggregating) then address the current row, and do not know the type of the key. The
// first value state lies in the row itself, the others are columns by row. A key without any state has no row: reading
// it creates nothing.
//
// # Epochs
//
// Between two barriers lies an epoch. The first change of a cell in an epoch marks it in the dirty set of the open
// segment and keeps its pre-image there; all further changes of the epoch cost one comparison. So
//
//   - Freeze (at a barrier) closes the segment: O(1), whatever the size of the state;
//   - a Snapshot then writes the cells of the dirty sets into a chunk, in steps between records; a cell that changes
//     before its turn is written at that moment (copy on write, a bounded piece of work per record);
//   - Completed drops the segments of a checkpoint; Aborted gives them to the next one; Rewind puts pre-images back.
//
// The invariant: for every cell, the value as of the last completed checkpoint is the pre-image of the oldest segment
// that has it in its dirty set, or the cell itself if none has.
//
// A flat type (codec.Flat) is copied at its first write. Any other is encoded at its first access, reads included, and
// the access counts as a write: a reader may keep changing, after the barrier, what a slice or pointer leads to.
//
// Cells and rows of cleared states stay until no segment can bring them back; then they are reused.
//
// # Columns
//
// A kind of state is a column: what Freeze, snapshots, rewinds and restores ask of it is one interface, and the change
// tracking that all share is changes. Keyed timers will be one more column, with an index beside it that is rebuilt
// from it.
//
// Never here: I/O, goroutines, clocks.
//
// Concurrency: a Directory, its handles and its Snapshots belong to the goroutine of one subtask. A finished
// Snapshot's chunk.Writer may be handed to another one.
package state
