// Package peer is the default store of a cluster: every object lies in several workers' data directories.
//
// A task process writes its own worker's copy itself, by rename, and streams it to the agents of others, each of which has it on
// disk when it answers. A reader looks in its own worker's directory first, and then asks the agents that the facts name, by range: a
// restore reads the key groups that it needs and no others.
//
// Whoever opens an object gets bytes that were compared with its digest: here for the own directory, by the agent that serves
// it for others. A copy that is damaged, or out of reach, is passed over for the next one.
//
// Never here: which stores there are and who has what (facts), the agent's side (worker/chunks).
package peer
