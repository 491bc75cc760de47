// Package suite is the verb jepsen: it lists the scenarios of fault injection, runs them against this very binary, and judges kept
// histories again.
//
// It knows the suite and the form of answers, nothing of coordinators or workers: what it starts are processes, as for any user.
//
// Concurrency: each function is called once per process, from the goroutine of the command line; scenarios run one after another.
package suite
