// Package budget keeps the account of a process's network memory.
//
// What is reserved is a promise: everything that allocates buffers stays within its reservation.
//
// Never here: the buffers themselves.
//
// Concurrency: an Account may be used by any goroutine.
package budget
