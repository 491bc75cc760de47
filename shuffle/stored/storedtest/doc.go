// Package storedtest writes and reads stored results for the tests of those who keep and serve them, and need not know
// about records: a result of n records holds the numbers 0 to n-1.
//
// Linked into tests only. Concurrency: its functions may be called from any goroutine.
package storedtest
