// Package epoch is time as keyed state knows it: epochs, which lie between barriers and rewinds, and what becomes of them.
//
// Epochs are undecided until their checkpoint completes (then they are forgotten), is aborted (then they become one with
// the next), or a rewind undoes them. Members (the tables of an operator) keep a segment of changes for each undecided
// epoch, by the same index, and follow: Freeze, Drop, Merge, Rewind.
//
// Here is also what crosses time: the Snapshot of a barrier, written step by step while the operator goes on; the
// journals of changed units that have left memory, which are parts of the next snapshots; and the images in the records
// of such units, which carry their undo lists (docs/format/overflow.md).
//
// Never here: types of values, tables, and what leaves memory when.
//
// Concurrency: everything belongs to the goroutine of one subtask, but a Part, which belongs to whoever has taken it.
package epoch
