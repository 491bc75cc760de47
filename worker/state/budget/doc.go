// Package budget divides the state memory of a task process among the tables that hold it.
//
// Every table has a Share, and says how much it uses. A table that is alone may use all; when the total is used up,
// those above their fair part are told by how much they are above, and make room until they are not. Fixed shares
// (what Badger needs) cannot make room; they are taken off the total, down to a half.
//
// Never here: how room is made (worker/state), and the memory of records, joins and sorts.
//
// Concurrency: a Budget may be used by any goroutine; a Share belongs to one.
package budget
