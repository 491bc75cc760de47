// Package column is the tables that keyed state lies in: rows by key, and the columns of values, maps and lists on them,
// with their changes by epoch, and what moves between memory and the overflow.
//
// Package state is the door: a Directory finds the row of a key here and knows its type; everything below the key is
// here. docs/design/state.md is the contract.
//
// # Invariants
//
// For every unit (row, entry of a map, run of a list), the value as of the base is the pre-image of the oldest segment
// that has the unit in its dirty set, or the unit itself if none has. A unit in memory is known by its id in all segments
// of its column; one in the overflow by its record alone: eviction takes it out of the segments, and its return puts it
// back. A row is in memory as long as one of its units is.
//
// The types of values are known by their form alone, so that this code is made once, not for every type of a job; Value,
// List and Map are the typed doors of it.
//
// Never here: the type of keys, goroutines, clocks but the one that is given. Concurrency: a Table and its columns belong
// to the goroutine of one subtask.
package column
