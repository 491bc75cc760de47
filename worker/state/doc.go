// Package state is typed keyed state: what an operator remembers per key, in memory as long as it fits, and in snapshots.
//
// A Directory maps the keys of one operator of one subtask to rows. It is probed once per record (Seek); the handles of
// package handle then address the current row, and do not know the type of the key. A key without any state has no row:
// reading it creates nothing. Spaces are directories by window or pane, which come and go as a whole.
//
// # Epochs
//
// Between two barriers lies an epoch. The first change of a unit (the value of a key, an entry of a map, a run of a list)
// in an epoch marks it in the dirty set of the open segment and keeps its pre-image there; all further changes of the
// epoch cost one comparison. So
//
//   - Freeze (at a barrier) closes the segments, whatever the size of the state;
//   - a Snapshot then writes the units of the dirty sets into parts, in steps between records; a unit that changes
//     before its turn is written at that moment;
//   - Completed drops the segments of a checkpoint; Aborted gives them to the next one; Rewind puts pre-images back.
//
// A flat type (codec.Flat) is copied at its first write. Any other is encoded at its first access, reads included, and
// the access counts as a write: a reader may keep changing, after the barrier, what a slice or pointer leads to.
//
// # Memory
//
// With a budget and an overflow (Options), units leave memory when it is short and come back when they are asked for.
// References (Ref, Peek) hold until the next Seek: what a callback may hold on to is never evicted.
//
// docs/design/state.md is the contract; the packages below are its parts.
//
// Never here: files, clocks but the one that is given, and goroutines but the helpers of an import, which end with it.
//
// Concurrency: everything belongs to the goroutine of one subtask, but Parts, which belong to whoever has taken them.
package state
