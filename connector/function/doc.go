// Package function makes sources and sinks of functions: the short way to whatever has no connector of its own.
//
// A source of this package has one split, hence one reading subtask. Its position is what the function calls its offset, in the
// encoding of flow/codec, with the number of records that were delivered from there (split.go). A sink hands over batches and is
// at-least-once.
//
// What it never does: retry, or keep an offset anywhere but in its split.
//
// Concurrency: as package connector says. The functions are shared by all subtasks of a process.
package function
