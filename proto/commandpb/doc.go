// Package commandpb is the vocabulary of the Raft log: the commands that change the replicated facts, and the records
// that they make. A command says what shall be true and under which condition; whether it still holds is decided when
// it is applied.
//
// What stands in a log is read by every later release: fields are added, never given another meaning. No logic lives
// here beyond Validate. Messages are values; whoever holds one may read it from any goroutine as long as nobody writes.
package commandpb
