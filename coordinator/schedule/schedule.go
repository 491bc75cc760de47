package schedule

import (
	"time"

	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/controlpb"
)

// Config is the leader's identity and its limits.
type Config struct {
	Leader string // coordinator id
	Term   uint64
	// Heartbeat is the interval asked of workers, LossTimeout the silence after which one is lost.
	Heartbeat, LossTimeout time.Duration
	// BuildLimit bounds the user's build function, PlanTimeout one try of planning with everything around it.
	BuildLimit, PlanTimeout time.Duration
	// StopTimeout bounds the orderly end of cancelled attempts; then their process is released.
	StopTimeout time.Duration
	// Resend is the pause after which an unanswered message is sent again.
	Resend time.Duration
	// HoldTimeout is how long a restarting job keeps slots that it cannot use yet.
	HoldTimeout time.Duration
	// AbortTimeout bounds the removal of prepared output of a failed or cancelled job.
	AbortTimeout time.Duration
	// Settle is how long a lost link waits for the failure that explains it.
	Settle time.Duration
	// KeepJobs is the number of terminal jobs that are remembered.
	KeepJobs int
	// DefaultRestart is the restart strategy of jobs that say none.
	DefaultRestart string
	// DefaultParallelism of jobs that say none; 0: the free slots.
	DefaultParallelism int
}

// DefaultConfig has every limit set.
func DefaultConfig() Config { return Config{} }

// Leader is the scheduler of one term.
type Leader struct{}

// New starts a term.
func New(c Config) *Leader { return &Leader{} }

// Event is something that happened: one of the types below.
type Event interface{ event() }

// Attached: a worker opened its session.
type Attached struct{ Register *controlpb.Register }

// Detached: the session of an incarnation ended.
type Detached struct {
	Worker      string
	Incarnation uint64
}

// Heartbeat of a worker. Samples stay with the driver.
type Heartbeat struct {
	Worker      string
	Incarnation uint64
}

// Reported: a worker reports a fact.
type Reported struct {
	Worker      string
	Incarnation uint64
	Report      *controlpb.Report
}

// Built: a worker ran a build function. Answers to dry runs (no job) belong to the driver.
type Built struct {
	Worker      string
	Incarnation uint64
	Result      *controlpb.BuildResult
}

// Draining: a worker wants to leave.
type Draining struct {
	Worker      string
	Incarnation uint64
	Deadline    time.Time
}

// ProposalDone answers a Propose. Err says that it failed or that its outcome is unknown; otherwise the view of the
// same Step must contain it.
type ProposalDone struct {
	Key    string
	Result state.Result
	Err    error
}

// Applied: the facts changed up to Index, by whomever.
type Applied struct{ Index uint64 }

// Tick: the time of a WakeAt has come. Harmless at any other time.
type Tick struct{}

func (Attached) event()     {}
func (Detached) event()     {}
func (Heartbeat) event()    {}
func (Reported) event()     {}
func (Built) event()        {}
func (Draining) event()     {}
func (ProposalDone) event() {}
func (Applied) event()      {}
func (Tick) event()         {}

// Action is what the driver has to do: one of the types below, in the order given.
type Action interface{ action() }

// Propose a command. Its time, proposer and version are set. ProposalDone carries the same Key.
type Propose struct {
	Key     string
	Command *commandpb.Command
}

// Send a message to the session of a worker's incarnation. No session: drop it.
type Send struct {
	Worker      string
	Incarnation uint64
	Message     *controlpb.CoordinatorMessage
}

// Drop ends a worker's session; the worker may come back.
type Drop struct {
	Worker      string
	Incarnation uint64
	Reason      string
}

// WakeAt replaces the previous one: feed a Tick at that time.
type WakeAt struct{ At time.Time }

func (Propose) action() {}
func (Send) action()    {}
func (Drop) action()    {}
func (WakeAt) action()  {}

// Step folds one event and answers with what has to be done now.
func (l *Leader) Step(v *state.View, e Event, now time.Time) []Action { return nil }
