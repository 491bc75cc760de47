// Package param binds the parameters of a job, which are text on a command line and in a job record, to the fields of
// its configuration struct.
//
// The struct is the only channel from the command line to the subtasks: what Values returns is stored with the job, and every
// task process binds exactly that. Secrets stay references in all of it.
//
// It knows nothing of pipelines, opens nothing but a revealed Secret, and reports every fault at once.
//
// Concurrency: a Set belongs to one goroutine; a Secret is a value.
package param
