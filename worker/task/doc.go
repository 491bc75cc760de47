// Package task runs the subtasks of a job: it wires chains of typed operators, drives each with one loop, and follows
// the deployments that its host passes on.
//
// What lives here: the program of a job, wiring, the loop and its mailbox, attempts and their fences, sinks and the
// commit of their output; and the names that operators are written against. What a subtask is made of has rooms of its
// own: chain (operators, events, whom to blame), edge (gates, outlets, partitioners, phases), source (readers, splits,
// discovery), layout (the plan as wiring needs it), mark (watermarks), mail, commit, fault. What never lives here:
// operator logic (worker/operator), the public API (flow), scheduling decisions (coordinator), the transport of batches
// and the files of results (shuffle), a process or a network address of its own.
//
// The path of a record: source reader or gate → head (a whole batch at a time) → Push of the first operator → Push of
// the next, by direct calls → the outlet of an edge, or the writer of a sink. The path of a control event is the same
// tree of operators, called in the order of the chain through Operator, so that it never overtakes a record.
//
// # Types
//
// A pipeline is typed where the user writes it and untyped where the engine schedules it. A Stage knows the types of
// its input and output and asserts them once, when a chain is wired; a type error is an error of wiring, never of a
// record.
//
// # Concurrency
//
// One goroutine owns a subtask: its operators, their state, its counters. It takes batches from its inputs without
// blocking and sleeps on one notification channel when all are empty; everything else (cancellation, split
// assignments, checkpoint triggers) is a letter in its mailbox, read between batches. All methods of Process may be
// called from any goroutine; they change the table of attempts under one lock, send nothing and call no host while
// holding it, and do not block (Commit excepted). Operator, Push and Runtime belong to the goroutine of their subtask.
// Nothing runs before Process.Run.
package task
