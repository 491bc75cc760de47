// Package flow is the public SDK: typed streams, keyed streams and windows, from which a job is built.
//
// A job is a function that adds sources, operators and sinks to a Pipeline, and a main function that hands it to
// Main:
//
//	type Config struct {
//		In string `flag:"in" default:"./*.txt" help:"files to read"`
//	}
//
//	func build(p *flow.Pipeline, cfg *Config) error {
//		p.From("lines", file.Lines(cfg.In)).
//			FlatMapSeq(strings.FieldsSeq).
//			KeyBy(flow.Self).
//			Count().ID("count").
//			To("out", stdout.Sink[flow.KV[string, int64]]())
//		return nil
//	}
//
//	func main() { flow.Main("wordcount", build) }
//
// The binary runs the job in its own process, prints its plan (./job plan), checks it (./job vet), and runs as a task
// process when a worker starts it. build is a pure function of its configuration: it opens nothing, reads no clock
// and no environment, and gives the same graph each time. Every process of the job calls it again, and a task process
// whose graph differs from the submitted one refuses to work.
//
// # Rules of streams
//
// A Stream is a value; using it twice branches the pipeline. ID, Parallelism, OnError and SlotGroup belong to the operator
// that produced the stream; Exchange, Rebalance, Rescale, Global and Broadcast belong to the edges that leave this
// value of it.
//
// A method of Stream[T] never mentions a stream whose element type is built from T (Stream[[]T], Stream[KV[K,T]]): Go
// rejects that as an instantiation cycle. Such transforms are functions, chained by Then.
//
// Functions given to operators are shared by all subtasks of a process and must not write what they capture; MapWith and
// Process make one instance per subtask. Records are shared, too, when a stream branches: a function must not change
// what slices, maps and pointers of its argument lead to, nor of what it has emitted: a processor that goes on changing
// its state emits a copy.
//
// A record that crosses to another process is encoded; within one it is handed over as it is. The encoding keeps times in
// UTC and leaves out fields with the tag `flow:"-"`, so nothing should depend on them behind an exchange.
//
// # What is here and what is not
//
// This package holds types, documentation and wiring. What operators do lives in worker/operator, assigners in
// flow/window, the modes of a job binary in flow/launch; connectors live in connector/NAME and never import it.
//
// Concurrency: a Pipeline and its streams are used by one goroutine, inside build. Contexts and state handles are valid
// only during the call that they were given to.
package flow
