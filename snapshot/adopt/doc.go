// Package adopt lets a job go on from a checkpoint that another plan has made: a savepoint of another job, a retained
// checkpoint of one that has ended, or the same job at another parallelism.
//
// It is a function from a manifest and a plan to a manifest: no object is read or written. Operators are matched by id. Keyed
// state goes to whoever owns the key groups now: a part that several subtasks need is named by each of them, narrowed to its
// groups. Splits that were not finished are shared out anew, with their positions; writers of sinks belong to the old index modulo the
// parallelism; clocks are the lowest of all subtasks, which is a lower bound for every key group. A subtask that had finished is no
// longer: its final state is what its successors begin with.
//
// Output that was prepared is left out: whoever adopts a checkpoint waits until all of it is visible.
//
// Positions in stored results cannot be adopted: the results belong to the plan that made them.
//
// Never here: reading a manifest (snapshot), deciding when (coordinator/schedule), what a schema is (flow/codec): whether two fit
// is for the caller to say.
package adopt
