// Package checkpoint decides about the checkpoints of one job in the leader's memory: when one begins, which regions take part,
// which acknowledgements count, when it is whole, and when it is given up.
//
// What lives here: Cycle, the life of a job's checkpoints as one leader follows it, and what a manifest is composed of. What never
// does: the facts (coordinator/state issues the id and decides whether a completion counts), sessions and messages
// (coordinator/schedule), objects and their bytes (snapshot), clocks, goroutines.
//
// # The order of one checkpoint
//
//	Start ─facts─▶ Trigger to processes ─Ack─▶ all are here ─compose─▶ Store ─Stored─▶ Complete ─facts─▶ Notice to processes
//
// Step is level-triggered: it compares the facts with what it remembers and says what is missing. It remembers what a new
// leader can do without: whatever another leader started, a new one gives up first, and begins anew at once.
//
// # Invariants
//
// One checkpoint is under way at a time. Complete is said only when every subtask that has to has acknowledged by the attempt and
// in the epoch with which the checkpoint began, and when the manifest is durable and was read back. An acknowledgement counts
// only with a base that contains no less than what the attempt leaves out.
//
// Concurrency: a Cycle belongs to the goroutine of its leader.
package checkpoint
