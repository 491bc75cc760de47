// Package chain is what runs inside one subtask: the typed operators, joined by direct calls, and the control events
// that pass through them.
//
// What lives here: Push and Stage (how types are erased and asserted once), Operator (the control side), Runtime and
// Cursor (what an operator knows and where the subtask stands), Chain (the tree of operators, the order of events in
// it, and whom to blame for a panic). What never does: where records come from (edge, source), threads, attempts and
// deployments (task), operator logic (worker/operator).
//
// The names that authors of operators need are those of package task, which repeats them.
//
// Concurrency: everything here belongs to the goroutine of its subtask.
package chain
