// Package api answers clients, workers and other coordinators over gRPC.
//
// Handlers are thin: they validate, ask the node (through the interfaces in backend.go) and translate. Every error gets
// its stable code here, once. A follower forwards what needs the leader, one hop, marked so that it cannot go round;
// route.go is the one table that says which method needs whom.
//
// Never in here: Raft, files, decisions about jobs.
//
// Concurrency: a Server is immutable after New; handlers run on gRPC's goroutines and are awaited by the server's stop.
package api
