// Package bundle is a savepoint in a directory of its own: one manifest, every object that it names, and a record that says so
// (docs/format/savepoint.md).
//
// All names in it are relative, so the directory can be moved and copied. It is written under another name and renamed at the end:
// a directory that has the record is whole, or somebody has damaged it since.
//
// Never here: where the objects come from (snapshot.Stores, or the API), what is in them, what a job does with them (adopt).
//
// Concurrency: a Writer belongs to one goroutine.
package bundle
