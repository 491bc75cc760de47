// Package launch holds the modes of a job binary: embedded run, plan, vet and help; as a task process it hands over to
// flow/launch/process.
//
// It is the only package that sees both the task runtime and the coordinator's pure packages. The embedded run is no
// second scheduler: one loop applies the commands of coordinator/schedule to an in-memory coordinator/state and performs
// its actions by direct calls on one worker/task.Process.
//
// Never here: operators, records, and anything that a job's author has to import.
//
// Concurrency: Main runs on the main goroutine. What the task runtime reports arrives as letters to the driver's loop, which
// alone touches state and leader.
package launch
