// Package worker is the agent: it registers slots with the coordinators, starts and supervises task processes, and
// hands data connections over to them.
//
// What lives here: the identity and incarnation of a worker, its session with the leader, the outbox of numbered
// reports, the artifact cache, one supervisor per task process, the single data port, logs, health. What never does:
// user code, records, state, a scheduling decision. The agent knows task processes only by the messages of
// proto/taskpb on the private link of internal/pipe, and coordinators only by proto/controlpb; it imports neither the
// task runtime nor anything of a coordinator.
//
// The path of a deployment: session (term checked) → job table (epochs checked, attempts noted) → the process's
// supervisor (artifact, exec, Hello) → control link → task process. The path back: control link → supervisor (attempts
// noted) → outbox (numbered, kept until acknowledged) → session, whichever leader it leads to.
//
// Losing the leader changes nothing here: task processes run on, reports wait in the outbox. Losing the agent ends its
// task processes (parent-death signal, end of file on the control link), and its successor makes sure of it before it
// registers.
//
// Concurrency: Run owns every goroutine, named and awaited through internal/run. The outbox, the job table and the
// artifact cache may be used from any goroutine; each has one lock, holds it only over memory, and sends nothing and
// calls nothing while holding it. A task process is changed only by its own supervisor.
package worker
