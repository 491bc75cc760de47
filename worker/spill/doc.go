// Package spill is where batch operators put what exceeds their memory, and how they count that memory.
//
// An Area is a directory of the process, made once and shared by all subtasks. A Budget is one operator's share of the
// memory: everything that the operator holds is taken from it before it is made, buffers and tables included. A File is
// an unlinked file of one operator with any number of streams in it (partitions, runs): a Writer[T] appends records to
// a stream in blocks with checksums, a Reader[T] reads a finished stream, in the order of writing. The format is
// docs/format/spill.md.
//
// A file is removed from its directory right after it was created, so that the operating system takes its blocks back
// whatever ends the process. Open files are few: one per File, and an operator has one per level of its recursion and side.
//
// Never here: what is spilled when (worker/operator/batch), files that outlive their process.
//
// Concurrency: an Area may be used by any goroutine. Budgets, files, writers and readers belong to the goroutine of one
// subtask. Nothing is started.
package spill
