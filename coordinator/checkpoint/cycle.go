package checkpoint

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/flow/setting"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// Codes of checkpoints that come to nothing.
const (
	CodeGivenUp    = "E150" // it timed out, was declined, or too many were
	CodeNotWritten = "E151" // a store cannot write
	CodeUnreadable = "E153" // the newest completed one cannot be read
)

// Config of one job's checkpoints.
type Config struct {
	Interval  time.Duration // from start to start
	Pause     time.Duration // from the end of one to the start of the next, at least
	Timeout   time.Duration
	Tolerable int // failures in a row
	Retain    int // completed ones that are kept
	Copies    int // of each object
}

// Configure reads the settings of a job. A pause that nobody has asked for makes no interval longer than it is, unless checkpoints
// take more than half of it.
func Configure(v setting.Values) Config {
	c := Config{
		Interval: v.Duration(setting.CheckpointEvery), Pause: v.Duration(setting.CheckpointPause), Timeout: v.Duration(setting.CheckpointTimeout),
		Tolerable: v.Count(setting.CheckpointFails), Retain: v.Count(setting.CheckpointKeep), Copies: v.Count(setting.CheckpointCopies),
	}
	if !v.Said(setting.CheckpointPause) {
		c.Pause = min(c.Pause, c.Interval/2)
	}
	return c
}

// World is what a step sees beside the facts.
type World struct {
	Now time.Time
	// Busy: a command of this cycle is under way, and the facts do not show yet what becomes of it.
	Busy bool
	// Session is the number of the session through which a process can be spoken to; 0: there is none now.
	Session func(Place) uint64
}

// Cycle is the life of a job's checkpoints as one leader follows it.
//
// It is told of everything that may be late, doubled or lost: acknowledgements by attempts that are no more, answers of stores to
// questions that nobody asks any more. So whatever comes in names its checkpoint, and Step alone decides. The obvious design, to
// act on each message, was rejected: then every order of messages is a case of its own.
type Cycle struct {
	cfg Config

	asked  bool    // Start was proposed by this leader and has applied: the next one that the facts show is ours
	flight *flight // that this leader started; nil: none is under way
	// manifest of the newest completed one, as far as it is known here.
	manifest *snapshotpb.Manifest
	loading  ID
	soon     bool // the next one begins at once: the last was given up for a reason that is over
	begun    time.Time
	ended    time.Time
	failures int // in a row
	last     *jobpb.Failure
	told     map[Place]told
	look     bool

	// of the step at work
	job *state.Job
	w   World
	out []Action
}

// told is the newest completed checkpoint that a session of a process was told of.
type told struct {
	session uint64
	id      ID
}

// New begins to follow a job.
func New(c Config) *Cycle { return &Cycle{cfg: c, told: map[Place]told{}, look: true} }

// Config is that of the job.
func (c *Cycle) Config() Config { return c.cfg }

// Look has the next Step look at sessions and processes again: something happened to one of them.
func (c *Cycle) Look() { c.look = true }

// Manifest is that of the newest completed checkpoint, if it is known here.
func (c *Cycle) Manifest() *snapshotpb.Manifest { return c.manifest }

// Step says what has to be done now.
func (c *Cycle) Step(job *state.Job, w World) []Action {
	c.job, c.w, c.out = job, w, nil
	c.follow()
	c.tell()
	if !w.Busy && going(job.Status()) {
		c.decide()
	}
	return c.out
}

func (c *Cycle) decide() {
	started := c.job.Checkpoints().GetStarted()
	switch {
	case started != nil && c.flight == nil:
		// Its acknowledgements went to a leader that is no more.
		f := newFlight(c.job, started, c.w.Now)
		f.foreign = true
		for p := range f.places { // any order: entries of a map
			f.triggered[p] = 0
		}
		f.cause = &jobpb.Failure{Code: CodeGivenUp, Message: fmt.Sprintf("the coordinator that had begun checkpoint %d does not lead any more", f.id)}
		c.flight = f
		c.advance()
	case started != nil:
		c.advance()
	case c.failures > c.cfg.Tolerable:
		c.add(Fail{Cause: &jobpb.Failure{
			Code: CodeGivenUp, Kind: jobpb.FailureKind_FAILURE_USER, TimeUs: c.w.Now.UnixMicro(), Operator: c.last.GetOperator(), Chain: c.last.GetChain(), Index: c.last.GetIndex(),
			Message: fmt.Sprintf("%d checkpoints in a row were given up, and %d may (checkpoint.tolerable): %s: %s", c.failures, c.cfg.Tolerable, c.last.GetCode(), c.last.GetMessage()),
		}})
	default:
		c.begin()
	}
}

// Forgiven: the job has been restarted, or has failed, because of a Fail.
func (c *Cycle) Forgiven() { c.failures, c.last = 0, nil }

// follow finds what the facts say of the checkpoint under way.
func (c *Cycle) follow() {
	k := c.job.Checkpoints()
	started := k.GetStarted()
	if f := c.flight; f != nil && started.GetId() != uint64(f.id) {
		c.flight, c.look = nil, true
		if newest := c.job.Newest(); newest.GetId() == uint64(f.id) {
			c.manifest, c.failures, c.last = f.manifest, 0, nil
			c.ended = c.w.Now
		} else {
			c.lost(f)
		}
	}
	if started != nil && c.flight == nil && c.asked {
		c.flight = newFlight(c.job, started, c.w.Now.Add(c.cfg.Timeout))
		c.begun = c.w.Now
	}
	c.asked = c.asked && started == nil
}

// lost takes note of a checkpoint that was given up, and lets the processes know.
func (c *Cycle) lost(f *flight) {
	c.ended = c.w.Now
	if f.cause != nil && !f.foreign {
		c.failures, c.last = c.failures+1, f.cause
	} else {
		c.soon = true // a region restarted, or a leader: that is no failure of checkpoints
	}
	for _, p := range sortedPlaces(f.triggered) {
		if c.w.Session(p) != 0 {
			c.add(Notice{Place: p, ID: f.id, Aborted: true, Regions: f.regions})
		}
	}
}

// tell lets every process know which checkpoint is the newest completed one, once in each of its sessions.
func (c *Cycle) tell() {
	newest := c.job.Newest()
	if !c.look || newest == nil || c.job.Plan() == nil {
		return
	}
	c.look = false
	id := ID(newest.Id)
	regions := map[Place][]*taskpb.RegionEpoch{}
	for t := range c.job.Subtasks() {
		if !c.job.Plan().Regions[t.Region].Checkpointed || t.Process == 0 || t.State == jobpb.SubtaskState_SUBTASK_CREATED {
			continue
		}
		p, r := Place{t.Worker, t.Process}, c.job.Region(t.Region)
		if r.Status != jobpb.RegionStatus_REGION_RUNNING && r.Status != jobpb.RegionStatus_REGION_FINISHED {
			continue
		}
		if !slices.ContainsFunc(regions[p], func(e *taskpb.RegionEpoch) bool { return e.Region == t.Region }) {
			regions[p] = append(regions[p], &taskpb.RegionEpoch{Region: r.Index, Epoch: r.Epoch})
		}
	}
	for _, p := range sortedPlaces(regions) {
		s := c.w.Session(p)
		if s == 0 || c.told[p] == (told{s, id}) {
			continue
		}
		c.told[p] = told{s, id}
		c.add(Notice{Place: p, ID: id, Regions: regions[p]})
	}
	maps.DeleteFunc(c.told, func(p Place, _ told) bool { return regions[p] == nil })
}

// begin starts the next checkpoint when its time has come.
func (c *Cycle) begin() {
	regions, final := c.ready()
	if switching, _ := c.job.Switching(); len(regions) == 0 || switching {
		return
	}
	if c.begun.IsZero() { // of this leader
		c.begun = c.w.Now
		if h := c.job.Checkpoints().GetHistory(); len(h) > 0 {
			c.begun, c.ended = time.UnixMicro(h[len(h)-1].StartedUs), time.UnixMicro(h[len(h)-1].EndedUs)
		}
	}
	kind, request := jobpb.CheckpointKind_CHECKPOINT_PERIODIC, ""
	due := c.begun.Add(c.cfg.Interval)
	if rest := c.ended.Add(c.cfg.Pause); rest.After(due) {
		due = rest
	}
	wanted := c.job.Checkpoints().GetWanted()
	switch retry := c.ended.Add(c.cfg.Pause); {
	case c.failures > 0 && c.w.Now.Before(retry):
		due = retry // whatever it is for: one that fails at once would be started all the time
	case len(wanted) > 0:
		kind, request, due = wanted[0].Kind, wanted[0].RequestId, c.w.Now
	case final:
		kind, due = jobpb.CheckpointKind_CHECKPOINT_FINAL, c.w.Now
	case c.cfg.Interval <= 0:
		return
	case c.soon:
		due = c.w.Now
	}
	if c.w.Now.Before(due) {
		c.add(Wake{At: due})
		return
	}
	c.add(Start{Kind: kind, Regions: regions, Request: request})
}

// Started tells what became of a Start: whether it has applied.
func (c *Cycle) Started(applied bool) {
	c.asked = applied
	if applied {
		c.soon = false
	}
}

// ready are the regions that take part if a checkpoint begins now; none: it cannot. final says that nothing but a checkpoint is
// missing to the end of the job.
func (c *Cycle) ready() (regions []*taskpb.RegionEpoch, final bool) {
	final = c.job.Count(jobpb.SubtaskState_SUBTASK_FINISHING) > 0
	for i, p := range c.job.Plan().Regions {
		r := c.job.Region(int32(i))
		switch s := r.Status; {
		case s == jobpb.RegionStatus_REGION_FINISHED:
		case !p.Checkpointed, s == jobpb.RegionStatus_REGION_CREATED:
			final = false
		case s != jobpb.RegionStatus_REGION_RUNNING:
			// It is on its way. A checkpoint without it would have to take its part from the one before.
			return nil, false
		default:
			regions = append(regions, &taskpb.RegionEpoch{Region: r.Index, Epoch: r.Epoch})
		}
	}
	return regions, final && c.job.Active() == c.job.Count(jobpb.SubtaskState_SUBTASK_FINISHING)
}

func (c *Cycle) add(a Action) { c.out = append(c.out, a) }

func sortedPlaces[T any](m map[Place]T) []Place {
	return slices.SortedFunc(maps.Keys(m), func(a, b Place) int {
		return cmp.Or(cmp.Compare(a.Worker, b.Worker), cmp.Compare(a.Process, b.Process))
	})
}

// going reports whether subtasks of a job in this status may run.
func going(s jobpb.JobStatus) bool {
	return s == jobpb.JobStatus_JOB_WAITING || s == jobpb.JobStatus_JOB_RUNNING || s == jobpb.JobStatus_JOB_RESTARTING
}
