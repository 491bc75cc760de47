// Package formation decides when coordinators without state may become a cluster.
//
// It only remembers who was seen and compares what everybody has seen; who asks whom, and what follows, is the node's
// business. It never writes anything.
//
// Concurrency: a Gathering may be used from any goroutine.
package formation
