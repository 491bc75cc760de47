// Package reject decides about records that cannot be processed: it fails the attempt, drops the record, tries it again, or makes
// a letter of it that goes on as a stream of its own.
//
// What lives here: policies and their text in the graph, letters, tries. What never does: who calls what for a record, and where
// letters end.
//
// A policy decides about errors. What panics, or is marked as fatal, fails the attempt whatever it says. When an attempt has to
// stop, errors of that are nobody's fault: nothing is dropped and no letter is written.
//
// A letter is emitted through a port of its operator, like a record of a side output: at the moment of the failure, in the
// goroutine of the subtask, with the event time of the record. So letters are as often there as any other output of the attempt.
//
// Concurrency: a Failed belongs to the goroutine of its subtask.
package reject
