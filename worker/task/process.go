package task

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/shuffle"
	"github.com/sluiceio/sluice/shuffle/stored"
	"github.com/sluiceio/sluice/snapshot"
	"github.com/sluiceio/sluice/worker/spill"
	"github.com/sluiceio/sluice/worker/task/align"
	"github.com/sluiceio/sluice/worker/task/commit"
	"github.com/sluiceio/sluice/worker/task/mail"
	"github.com/sluiceio/sluice/worker/task/segment"
)

// Host receives what a process reports. Calls come from any goroutine, several at once, and must not block. Messages
// belong to the host.
type Host interface {
	// Update reports RUNNING once, perhaps FINISHING, and then one of FINISHED, FAILED or CANCELLED, for each attempt that was deployed. An
	// attempt that is deployed again repeats its last report.
	Update(u *taskpb.SubtaskUpdate)
	// SplitsDiscovered reports what the enumerator of a source has found, in order.
	SplitsDiscovered(d *taskpb.SplitsDiscovered)
	// RequestSplits asks for more splits. It is asked again every second until Process.AssignSplits brings an answer,
	// so the host need not keep it.
	RequestSplits(r *taskpb.SplitRequest)
	// Ack answers a trigger, or a barrier: everything that it names is durable. The host keeps it until the coordinator has it.
	Ack(a *snapshotpb.Ack)
	// Failed reports what only the end of the whole process can cure: user code that does not return after its attempt
	// was stopped. A goroutine cannot be killed; the host ends the process. At most once per attempt.
	Failed(f *jobpb.Failure)
}

// Config is what a Process is made of.
type Config struct {
	Program *Program
	Job     string // job id
	Worker  string // for failures and logs
	Process uint64 // number issued by the coordinator; 0: an embedded job, of which every subtask is here
	// Network carries the edges between subtasks. The host runs it, for longer than the Process.
	Network *shuffle.Network
	// Results keeps what BLOCKING edges carry. The host runs it, for longer than the Process. Nil: plans with such edges
	// are refused.
	Results *stored.Exchange
	// Spill is where batch operators put what exceeds their memory; nil: nowhere.
	Spill *spill.Area
	// Stores are where checkpoints go and come from. Nil: attempts decline every checkpoint, and none is restored. The host closes
	// them, after the Process.
	Stores snapshot.Stores
	// State is the memory of keyed state and where it goes with what exceeds it. The host runs the overflow, for longer than
	// the Process.
	State StateMemory
	// Now is the clock that operators see; nil: that of the machine.
	Now  func() time.Time
	Log  hclog.Logger // nil: none
	Host Host
	// StopTimeout is how long an attempt may take to stop before Host.Failed; DefaultStopTimeout if zero.
	StopTimeout time.Duration
}

// DefaultStopTimeout leaves time for connectors to close what they have open.
const DefaultStopTimeout = 10 * time.Second

// Validate reports every fault at once.
func (c *Config) Validate() error {
	var errs []error
	if err := c.Program.Validate(); err != nil {
		errs = append(errs, err)
	}
	if c.Job == "" {
		errs = append(errs, errors.New("no job id"))
	}
	if c.Network == nil {
		errs = append(errs, errors.New("no network"))
	}
	if c.Host == nil {
		errs = append(errs, errors.New("no host"))
	}
	if c.StopTimeout < 0 {
		errs = append(errs, errors.New("negative stop timeout"))
	}
	return errors.Join(errs...)
}

// Process holds the subtasks of one job in one operating system process: a task process, or the embedded job.
//
// It is a table of attempts under fences. The newest attempt of every subtask stays in the table after its end, so
// that a deployment that arrives twice, or late, starts nothing a second time. An attempt that is replaced is stopped
// and waited for by the one that replaces it, outside the lock: two attempts of a region never run at once in a
// process, and Deploy never blocks.
type Process struct {
	cfg        Config
	log        hclog.Logger
	committing chan struct{} // holds the running Commit
	groups     *align.Groups // of sources
	segments   *segment.Writer

	mu struct {
		sync.Mutex
		group    *run.Group // nil before Run. Lock order: mu before the group's own.
		closed   bool       // Run is over; nothing starts any more
		parked   []*attempt // deployed before Run
		jobEpoch uint64
		regions  map[int32]*fence
		newest   map[subtaskID]*attempt
		running  map[*attempt]string       // those that have not ended, with the header of their goroutine
		restores map[string]*restoreSource // by name of the manifest
	}
}

// fence is what a process knows about the epochs of one region.
type fence struct {
	epoch     uint64 // highest seen
	cancelled uint64 // highest that was cancelled: nothing of it starts any more
	opened    uint64 // highest whose gates were opened
}

// NewProcess checks the configuration and the program. Nothing runs before Run.
func NewProcess(cfg Config) (*Process, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("task process: %w", err)
	}
	if cfg.Log == nil {
		cfg.Log = hclog.NewNullLogger()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.StopTimeout == 0 {
		cfg.StopTimeout = DefaultStopTimeout
	}
	p := &Process{cfg: cfg, log: cfg.Log.Named("task").With("job", cfg.Job), committing: make(chan struct{}, 1), groups: align.New(cfg.Now)}
	p.mu.regions = map[int32]*fence{}
	p.mu.newest = map[subtaskID]*attempt{}
	p.mu.running = map[*attempt]string{}
	p.mu.restores = map[string]*restoreSource{}
	p.segments = segment.New(segment.Config{
		Stores: cfg.Stores, Job: cfg.Job, Process: cfg.Process, Go: p.goes, Report: cfg.Host.Ack, Log: p.log,
	})
	return p, nil
}

// Run runs what is deployed, before or meanwhile, until ctx ends; then it stops every attempt and returns when the
// last one has ended. It is called once.
func (p *Process) Run(ctx context.Context) error {
	g := run.NewGroup(ctx, "task")
	p.mu.Lock()
	if p.mu.group != nil {
		p.mu.Unlock()
		return errors.New("task process: Run called twice")
	}
	p.mu.group = g
	for _, a := range p.mu.parked {
		g.Go(a.name(), a.run)
	}
	p.mu.parked = nil
	p.mu.Unlock()

	<-g.Context().Done()
	p.mu.Lock()
	p.mu.closed = true
	p.mu.Unlock()
	return g.Wait()
}

// here reports that a deployment or a place with this process number means this process.
func (c *Config) here(process uint64) bool { return c.Process == 0 || c.Process == process }

// begin gives a started attempt the means to be stopped.
func (p *Process) begin(a *attempt, cancel context.CancelCauseFunc) {
	p.mu.Lock()
	a.cancel = cancel
	cause := a.cause
	p.mu.Unlock()
	if cause != nil {
		cancel(cause)
	}
}

// tag notes which goroutine runs the subtask.
func (p *Process) tag(a *attempt, header string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.running[a] = header
}

func (p *Process) tagOf(a *attempt) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.running[a]
}

// end reports the last of an attempt.
func (p *Process) end(a *attempt, err error) {
	u := a.outcome(err)
	u.Counters = a.counters()
	p.report(a, u)
	args := []any{"task", a.name(), "attempt", a.sub.Attempt, "state", u.State.String()}
	if err != nil {
		p.log.Error("attempt failed", append(args, "error", err)...)
		return
	}
	p.log.Debug("attempt ended", args...)
}

// report completes u and gives it to the host. The last one is kept, for deployments that arrive later.
func (p *Process) report(a *attempt, u *taskpb.SubtaskUpdate) {
	u.Chain, u.Index, u.Attempt = a.sub.Chain, a.sub.Index, a.sub.Attempt
	u.Region, u.RegionEpoch = a.sub.Region, a.sub.RegionEpoch
	ended := u.State != jobpb.SubtaskState_SUBTASK_RUNNING && u.State != jobpb.SubtaskState_SUBTASK_FINISHING
	if ended {
		// Whoever has heard the report and asks again is answered with it: no loop is there any more to do so.
		p.mu.Lock()
		a.last = u
		p.mu.Unlock()
	}
	p.cfg.Host.Update(proto.CloneOf(u))
	if ended {
		p.mu.Lock()
		delete(p.mu.running, a)
		p.mu.Unlock()
		p.segments.Gone(a.member())
	}
}

// Commit makes prepared sink output visible, or removes it (Commit.Abort). The caller sends it again until it is
// confirmed, here or by another process, so a repeated call does no harm. It blocks until done or until ctx ends, and
// runs one call at a time. A result without failure and retry means that all of it is done. A commit of an older job
// epoch does nothing and asks for a retry.
func (p *Process) Commit(ctx context.Context, c *taskpb.Commit) *taskpb.CommitResult {
	r := &taskpb.CommitResult{Job: c.Job, JobEpoch: c.JobEpoch, Process: c.Process, Checkpoint: c.Checkpoint}
	err := c.Validate()
	if err == nil && c.Job != p.cfg.Job {
		err = fmt.Errorf("commit for job %s, this is %s", c.Job, p.cfg.Job)
	}
	if err != nil {
		r.Failure = Failure(err)
		return r
	}
	p.mu.Lock()
	stale := c.JobEpoch < p.mu.jobEpoch
	p.mu.Unlock()
	if stale {
		p.log.Debug("stale commit dropped", "epoch", c.JobEpoch)
		r.Retry = true
		return r
	}
	select {
	case p.committing <- struct{}{}:
		defer func() { <-p.committing }()
	case <-ctx.Done():
		r.Retry = true
		return r
	}
	r = commit.Run(ctx, c, committers{p, c.JobEpoch})
	if r.Failure != nil {
		r.Failure.Worker = p.cfg.Worker
	}
	return r
}

// committers finds the committing sinks of the program.
type committers struct {
	*Process
	jobEpoch uint64
}

func (c committers) Committer(sink string) (commit.Opener, *connector.Task) {
	for i, o := range c.cfg.Program.Graph.Operators {
		if open := c.cfg.Program.Nodes[i].Committer; o.Id == sink && open != nil {
			log := slog.New(newLogHandler(c.cfg.Log)).With("operator", sink)
			return open, &connector.Task{Job: c.cfg.Job, Operator: sink, JobEpoch: c.jobEpoch, Whole: c.cfg.Process == 0, Log: log}
		}
	}
	return nil, nil
}

// OpenGate lets the gated sources of regions emit: everything behind their gates has loaded. It concerns attempts of the
// epochs named alone, those that are deployed later included; what is older than something known is dropped. Idempotent.
func (p *Process) OpenGate(m *taskpb.OpenGate) {
	if err := m.Validate(); err != nil || m.Job != p.cfg.Job {
		p.log.Warn("gate not opened", "for", m.GetJob(), "error", err)
		return
	}
	for _, a := range p.openGates(m) {
		a.opened.Store(true)
		a.mail.Wake()
	}
}

// openGates enters the gates that are open and returns the attempts that have to be told.
func (p *Process) openGates(m *taskpb.OpenGate) (told []*attempt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.JobEpoch != p.mu.jobEpoch {
		p.log.Debug("stale gate not opened", "epoch", m.JobEpoch)
		return nil
	}
	epochs := map[int32]uint64{}
	for _, e := range m.Regions {
		epochs[e.Region] = e.Epoch
		r := p.region(e.Region)
		r.opened = max(r.opened, e.Epoch)
	}
	for a := range p.mu.running {
		if epoch, named := epochs[a.sub.Region]; named && a.sub.RegionEpoch == epoch {
			told = append(told, a)
		}
	}
	return told
}

// GroupClocks says where the alignment groups of the job stand in its other processes.
func (p *Process) GroupClocks(m *taskpb.GroupClocks) {
	if err := m.Validate(); err != nil || m.Job != p.cfg.Job {
		p.log.Warn("alignment refused", "for", m.GetJob(), "error", err)
		return
	}
	p.groups.Hear(m.Groups)
}

// AssignSplits gives a source the splits that it asked for. A message for another attempt is dropped.
func (p *Process) AssignSplits(m *taskpb.AssignSplits) {
	if err := m.Validate(); err != nil {
		p.log.Warn("split assignment refused", "error", err)
		return
	}
	p.mu.Lock()
	a := p.mu.newest[subtaskID{m.Chain, m.Index}]
	p.mu.Unlock()
	if m.Job != p.cfg.Job || a == nil || a.sub.Attempt != m.Attempt || a.sub.RegionEpoch != m.RegionEpoch || a.plan().Operators[0] != m.Operator {
		p.log.Debug("stale split assignment dropped", "attempt", m.Attempt)
		return
	}
	if !a.mail.Post(mail.Letter{Assign: m}) {
		p.log.Warn("mailbox full, split assignment dropped", "task", a.name(), "attempt", m.Attempt) // it will ask again
	}
}
