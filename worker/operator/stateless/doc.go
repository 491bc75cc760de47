// Package stateless holds the operators that keep nothing between records: map, filter, flatmap, peek, union.
//
// Each is a function that returns a task.StageOf: the typed inside of a chain, without interface calls or allocation per
// record. None of them touches Cursor.At: what is emitted has the time of the record that it was made from.
//
// Never here: state, timers, connectors, and the public API (flow).
//
// Concurrency: a stage may be built any number of times; what Build returns belongs to the goroutine of its subtask. User
// functions are shared by all subtasks of the process, except the one that MapWith opens.
package stateless
