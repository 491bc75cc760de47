// Package mem keeps objects in memory: for embedded jobs that keep no files, and for tests.
//
// Nothing survives the process, so "durable" here means as long as the Store. Everything else is the contract of
// snapshot.Store. A Store may be used from any goroutine.
package mem
