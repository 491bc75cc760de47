// Package process is the task-process mode of a job binary: a worker agent has started it and speaks to it over the
// private link of internal/pipe.
//
// It introduces itself, runs the user's build function when it is asked for the graph or when the first deployment
// arrives, starts the task runtime (worker/task) and the exchange (shuffle) of this process, and carries messages
// between them and the agent. It ends when it is told to, when it has failed as a whole, and when the agent is gone.
//
// What never lives here: operators, records, scheduling; the modes of an embedded run (flow/launch).
//
// The order of what the agent says is kept: one goroutine reads, one acts. A build function that does not return, or
// user code that does not stop, never keeps the process from noticing its end.
//
// Concurrency: Main is called once, on the main goroutine. Everything else is started through internal/run and ends
// with Main, except user code that does not return: the end of the process takes it along.
package process
