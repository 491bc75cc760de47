// Package link is a mesh of TCP proxies between nodes, each direction of which can be hurt on its own: cut, slowed, narrowed, cut
// off after a number of bytes, or deprived of its answers.
//
// A proxy stands in front of one port of one node; the others are told its address. Who has dialled is asked of the caller of
// Serve, by the address of the connection. What a cut holds back is delivered when it is healed, as a network does that loses
// packets and repeats them; a connection that is dialled over a cut hangs until then. Nothing is reordered or doubled within a connection,
// because TCP does neither.
//
// Concurrency: a Mesh may be used by any goroutine; its proxies run in a group of the caller's and end with its context.
package link
