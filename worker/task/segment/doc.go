// Package segment puts what the subtasks of a task process write for a checkpoint into few objects.
//
// One goroutine per checkpoint appends the parts of all subtasks, in the order in which they come, to the open segment, and
// begins another when it has grown large. When every subtask that takes part has said that nothing more comes from it, what is
// open is committed, and then all of them acknowledge: an acknowledgement names nothing that is not durable.
//
// What lives here: packing, and the order of commit and acknowledgement. Never here: what a part holds, when a checkpoint
// begins, where objects go (snapshot.Stores).
//
// A store that fails costs the checkpoint and nothing else: every subtask declines it (E151) and goes on.
//
// Concurrency: all methods may be called from any goroutine and do not block. A subtask has at most one part under way, so that
// a slow store holds back snapshots, not memory. Reports are made without a lock.
package segment
