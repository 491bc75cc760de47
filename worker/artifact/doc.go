// Package artifact keeps the job binaries that a worker needs: content-addressed files, fetched once, verified before
// they are run, removed by age when they exceed a bound.
//
// A file appears under its digest only after every byte has arrived, was hashed and synced (write, sync, rename, sync
// the directory); a file that is found at start is hashed again before its first use, because it is about to be
// executed.
//
// What never lives here: where a binary comes from (the caller's Fetch) and what it is started with.
//
// Concurrency: all methods may be called from any goroutine. One caller prepares a digest, others that want it wait
// for it; nobody waits while holding the lock.
package artifact
