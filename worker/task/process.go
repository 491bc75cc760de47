package task

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/shuffle"
)

// Host receives what a process reports. Calls come from any goroutine, several at once, and must not block. Messages
// belong to the host.
type Host interface {
	// Update reports RUNNING once and then one of FINISHED, FAILED or CANCELLED, for each attempt that was deployed. An
	// attempt that is deployed again after its end repeats its last one.
	Update(u *taskpb.SubtaskUpdate)
	// SplitsDiscovered reports what the enumerator of a source has found, in order.
	SplitsDiscovered(d *taskpb.SplitsDiscovered)
	// RequestSplits asks for more splits; asked again every second until Process.AssignSplits brings news, so it need not be kept.
	RequestSplits(r *taskpb.SplitRequest)
	// Failed reports what only the end of the whole process can cure: user code that does not return after its attempt
	// was stopped. A goroutine cannot be killed; the host ends the process. At most once per attempt.
	Failed(f *jobpb.Failure)
}

// Config is what a Process is made of.
type Config struct {
	Program *Program
	Job     string // job id
	Worker  string // for failures and logs
	Process uint64 // number issued by the coordinator; 0 in an embedded job
	// Network carries the edges between subtasks. The host runs it, for longer than the Process.
	Network *shuffle.Network
	Log     hclog.Logger
	Host    Host
	// StopTimeout is how long an attempt may take to stop before Host.Failed; DefaultStopTimeout if zero.
	StopTimeout time.Duration
}

// DefaultStopTimeout leaves time for connectors that have to close what they have open.
const DefaultStopTimeout = 10 * time.Second

// Process holds all subtasks of one job in one operating system process: a task process, or the embedded job.
type Process struct {
	cfg Config
}

// NewProcess checks the configuration and the program. Nothing runs before Run.
func NewProcess(cfg Config) (*Process, error) { return &Process{cfg: cfg}, nil }

// Run runs what is deployed until ctx ends, then cancels every attempt and returns when the last one has ended.
func (p *Process) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// Deploy starts the subtasks of d. Idempotent: an attempt that is known already is left alone (one that has ended
// repeats its report); a newer epoch of a region first stops the older attempts of the region and waits for them. It
// returns at once; what becomes of the attempts is reported through the Host. An error means that nothing of d was
// started: the message is invalid, the plan is not the one of this binary, or (ErrStale) it is older than what is
// known here. Failure(err) is the report for the coordinator.
func (p *Process) Deploy(d *taskpb.Deployment) error { return nil }

// Cancel stops attempts. Idempotent; their end is reported through the Host.
func (p *Process) Cancel(c *taskpb.Cancel) {}

// AssignSplits gives a source the splits that it asked for. A message for another attempt is dropped.
func (p *Process) AssignSplits(a *taskpb.AssignSplits) {}

// Commit makes prepared sink output visible, or removes it. It blocks until done or until ctx ends, and runs one call at a time.
func (p *Process) Commit(ctx context.Context, c *taskpb.Commit) *taskpb.CommitResult { return nil }

// Sample is the counters of every attempt that runs, and the memory of the process.
func (p *Process) Sample() *taskpb.Sample { return nil }
