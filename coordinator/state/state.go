package state

import (
	"io"
	"iter"

	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// Version is the command language that this binary speaks. A command above it halts the node.
const Version = 1

// Status says what became of a command.
type Status uint8

const (
	// Applied: the facts changed.
	Applied Status = iota + 1
	// Stale: the precondition no longer holds, or there was nothing to change. Nothing changed.
	Stale
	// Refused: the command can never be right: malformed, unknown job, request id used for something else.
	Refused
	// Duplicate: a request id that was served before; Job is the answer given then.
	Duplicate
	// Halt: the command is newer than this binary. The node must stop: whatever it did next would diverge.
	Halt
)

// Result is the answer to one command: equal on every coordinator and part of the hash chain.
type Result struct {
	Status  Status
	Code    string // stable, for clients; empty if Applied
	Message string
	Job     string // that the command created or concerns
	Index   uint64 // of the command
}

// Chain is the value of the hash chain over entries, results and changed records.
type Chain = [32]byte

// State applies commands.
type State struct{}

// New is the state before the first command.
func New() *State { return &State{} }

// Apply applies one command.
func (s *State) Apply(index, term uint64, cmd *commandpb.Command) Result { return Result{} }

// ApplyBytes decodes and applies one log entry. An entry that cannot be decoded is refused, with the same result on
// every node.
func (s *State) ApplyBytes(index, term uint64, data []byte) Result { return Result{} }

// View is the facts as of the last applied command.
func (s *State) View() *View { return &View{} }

// Chain is the hash chain after the last applied command.
func (s *State) Chain() Chain { return Chain{} }

// ChainAt is the hash chain after the newest command at or below index. It is false if index has not been applied
// yet or is no longer remembered.
func (s *State) ChainAt(index uint64) (Chain, bool) { return Chain{}, false }

// Load reads what View.Save wrote.
func Load(r io.Reader) (*State, error) { return New(), nil }

// View is an immutable picture of all facts.
type View struct{}

// Index is the Raft index of the last applied command.
func (v *View) Index() uint64 { return 0 }

// Term is the newest term in which a leader announced itself, Leader its id.
func (v *View) Term() uint64 { return 0 }

// Leader is the coordinator that announced itself last.
func (v *View) Leader() string { return "" }

// Cluster is the cluster's id; empty before InitCluster.
func (v *View) Cluster() string { return "" }

// TimeMicros is the newest committed time in microseconds since the Unix epoch; it never falls.
func (v *View) TimeMicros() int64 { return 0 }

// Chain is the hash chain at Index.
func (v *View) Chain() Chain { return Chain{} }

// Job is nil if there is no such job.
func (v *View) Job(id string) *Job { return nil }

// Jobs are all jobs in the order of their submission.
func (v *View) Jobs() iter.Seq[*Job] { return nil }

// JobsAfter are the jobs that changed after index, in the order of their last change.
func (v *View) JobsAfter(index uint64) iter.Seq[*Job] { return nil }

// Worker is nil if the worker was never registered.
func (v *View) Worker(id string) *commandpb.Worker { return nil }

// Workers are ordered by id.
func (v *View) Workers() iter.Seq[*commandpb.Worker] { return nil }

// UsedSlots counts the slots of a worker's current incarnation that are granted to jobs.
func (v *View) UsedSlots(worker string) int { return 0 }

// Node is nil if there is no such coordinator.
func (v *View) Node(id string) *commandpb.Node { return nil }

// Nodes are ordered by id.
func (v *View) Nodes() iter.Seq[*commandpb.Node] { return nil }

// Artifact is nil if it is not known to be durable.
func (v *View) Artifact(digest string) *commandpb.Artifact { return nil }

// Artifacts are ordered by digest.
func (v *View) Artifacts() iter.Seq[*commandpb.Artifact] { return nil }

// Source is nil if the job has no such source or is terminal.
func (v *View) Source(job string, operator int32) *Source { return nil }

// Events are those with an index above after, oldest first. The history is bounded.
func (v *View) Events(after uint64) iter.Seq[*jobpb.Event] { return nil }

// Save writes the view as a snapshot (docs/format/raft-snapshot.md).
func (v *View) Save(w io.Writer) error { return nil }

// Job is what is known of one job.
type Job struct{}

// ID is the job id.
func (j *Job) ID() string { return "" }

// Status is the job's status.
func (j *Job) Status() jobpb.JobStatus { return 0 }

// Epoch is the job epoch.
func (j *Job) Epoch() uint64 { return 0 }

// Head is the job without plan, regions, subtasks, failures and committables.
func (j *Job) Head() *jobpb.Job { return nil }

// Proto is the whole job in one message. It shares its parts with the facts; assembling costs one pass over the subtasks.
func (j *Job) Proto() *jobpb.Job { return nil }

// Plan is nil until the job was planned.
func (j *Job) Plan() *jobpb.Plan { return nil }

// Region is the state of region i.
func (j *Job) Region(i int32) *jobpb.RegionState { return nil }

// Regions are in order.
func (j *Job) Regions() iter.Seq[*jobpb.RegionState] { return nil }

// Subtask is nil if the plan has none such.
func (j *Job) Subtask(chain, index int32) *jobpb.Subtask { return nil }

// Subtasks are ordered by chain, then index.
func (j *Job) Subtasks() iter.Seq[*jobpb.Subtask] { return nil }

// Count is the number of subtasks in a state.
func (j *Job) Count(s jobpb.SubtaskState) int { return 0 }

// Source is the splits of one source.
type Source struct{}
