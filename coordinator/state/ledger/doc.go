// Package ledger is the record of a job's checkpoints and the only transitions that it has: request, start, complete, abort,
// confirm, and where objects are until a plan deletes them.
//
// A record (jobpb.Checkpoints) is immutable: a transition returns the next one, or an error that says why its precondition
// does not hold, and then nothing has changed. The invariants, which Check tests:
//
//   - ids grow, savepoints included, and none is used twice; one checkpoint at most is under way;
//   - completed ones are ordered by id, and none that is kept lacks an object of it, or has one that a plan deletes;
//   - a name stands for one object for ever: another digest under it is refused;
//   - what is confirmed has been completed.
//
// Data flow: coordinator/state decodes a command and checks epochs → a transition here → the next record of the job.
//
// Pure: no clock, no identity of its own making; time comes with the command. Never in here: who takes part and whether their
// epochs still hold (coordinator/state), when to trigger (coordinator/schedule), manifests (snapshot).
package ledger
