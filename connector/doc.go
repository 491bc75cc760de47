// Package connector holds the contracts of sources and sinks.
//
// A connector implements them in a package connector/NAME, which imports this package, flow/element and flow/codec
// and never flow or worker: users see the contracts as aliases in package flow, the task loop drives them, and
// neither knows any implementation.
//
// Concurrency: an Enumerator is used by one goroutine; a Reader, a Writer and a Committer each by the goroutine of
// one subtask. Instances of different subtasks share nothing but the Source or Sink value that opened them, which
// must therefore be immutable.
package connector
