// Package blob keeps objects of snapshots in a bucket of an object store, through gocloud.dev/blob: Amazon S3 and what speaks its
// protocol, Google Cloud Storage, Azure, a directory, memory. It is a module of its own, so that the libraries of clouds reach
// only programs that ask for them; which of these services a program can reach is decided by the drivers that it imports.
//
// The key of an object is its name. A write is conditional: a key that is there is never replaced, and a writer that finds one
// compares contents. An upload that breaks off leaves nothing that anybody can read; parts of it that the service keeps are for a rule of the bucket to
// remove. After a deletion an open reader may fail (ErrNotFound), and gives no other bytes.
//
// Never here: which objects are needed, how many copies there are (the service's business), credentials (the driver's).
//
// Concurrency: a Store may be used from any goroutine. A Draft belongs to one goroutine.
package blob
