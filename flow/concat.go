package flow

import "github.com/sluiceio/sluice/connector/concat"

// Concat reads history to its end and then live, as one source: files first, then what is new. All splits of history are read
// to their end, by all subtasks, before any split of live is given out. history must be bounded (E018); the source is bounded
// if live is.
//
// Event time goes on where history has left it: a live record that is older is late. While history is read the clock stands
// still, because a part of it that is yet to come may hold the oldest record of all.
func Concat[T any](history, live Source[T]) Source[T] { return concat.Sources(history, live) }
