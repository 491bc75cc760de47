// Package chunks is the store of a worker: the objects of snapshots in its data directory, for task processes here, for other workers
// and for leaders.
//
// Task processes of this worker write their objects into the directory themselves; everybody else calls the Objects service. What is
// there stays there, over restarts of the agent and of the machine, until a leader sends a committed plan of deletion: objects belong to
// the store, not to an incarnation. An object that is found to differ from its digest is removed and reported: it is no copy any more.
//
// Never here: who needs what (coordinator), what is in an object (snapshot/chunk).
package chunks
