package task

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/worker/task/edge"
	"github.com/sluiceio/sluice/worker/task/fault"
	"github.com/sluiceio/sluice/worker/task/layout"
	"github.com/sluiceio/sluice/worker/task/mail"
)

var (
	// ErrClosed is a deployment after the end of Run.
	ErrClosed = errors.New("the task process has ended")
	// ErrStale is a deployment of which everything is older than what is known here. It asks for no report: whoever sent it
	// has been replaced, or is about to learn better.
	ErrStale = errors.New("the deployment is stale")
)

// Failure is the report of an error of Deploy for the coordinator.
func Failure(err error) *jobpb.Failure { return fault.Failure(err) }

// Deploy starts the subtasks of d. Idempotent: an attempt that is known already repeats its last report, and nothing
// else happens; a newer epoch of a region stops the older attempts of the region first and waits for them; what is
// older than something known is dropped. Deploy itself returns at once: what becomes of the attempts is reported
// through the Host. An error means that nothing of d was started: it is older than what is known here (ErrStale), or
// invalid, or its plan is not the one of this binary. Of the latter two Failure(err) is the report for the coordinator.
func (p *Process) Deploy(d *taskpb.Deployment) error {
	draft, err := p.draft(d)
	if err != nil {
		return fmt.Errorf("deploy to job %s: %w", p.cfg.Job, err)
	}
	t, err := p.install(draft)
	if err != nil {
		return err
	}
	for _, a := range t.stop {
		a.cancel(errSuperseded)
	}
	for _, a := range t.known {
		// The loop repeats its report itself, so that it does not come after the last one.
		a.mail.Post(mail.Letter{Again: true})
	}
	for _, u := range t.over {
		p.cfg.Host.Update(proto.CloneOf(u))
	}
	return nil
}

// draft is a checked deployment.
type draft struct {
	d         *taskpb.Deployment
	layout    *layout.Layout
	locations map[subtaskID]*taskpb.Location
	terms     terms
}

func (p *Process) draft(d *taskpb.Deployment) (*draft, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	if d.Job != p.cfg.Job || !p.cfg.here(d.Process) {
		return nil, fmt.Errorf("it is for process %d of job %s, this is process %d of job %s", d.Process, d.Job, p.cfg.Process, p.cfg.Job)
	}
	d = proto.CloneOf(d)
	plan, err := layout.New(p.cfg.Program.Graph, d.Plan, p.cfg.Program.link)
	if err != nil {
		return nil, err
	}
	terms, err := termsOf(d)
	if err != nil {
		return nil, err
	}
	f := &draft{d: d, layout: plan, locations: map[subtaskID]*taskpb.Location{}, terms: terms}
	for _, l := range d.Locations {
		if l.Attempt == 0 {
			continue // it never ran
		}
		f.locations[subtaskID{l.Chain, l.Index}] = l
	}
	for _, s := range d.Subtasks {
		if err := f.check(s); err != nil {
			return nil, fmt.Errorf("chain %d, subtask %d: %w", s.Chain, s.Index, err)
		}
	}
	if p.cfg.Results == nil && slices.ContainsFunc(d.Plan.Edges, edge.Blocking) {
		return nil, fault.Fatal(fault.CodeNoStore, "the plan has BLOCKING exchanges, and this process has no directory for their results")
	}
	return f, nil
}

// check: everything that the subtask exchanges records with is somewhere.
func (f *draft) check(s *taskpb.SubtaskDeployment) error {
	for _, op := range s.Enumerate {
		source := len(f.layout.Graph.Operators[op].Inputs) == 0
		if f.layout.Plan.Chains[s.Chain].Operators[0] != op || !source {
			return fmt.Errorf("cannot discover the splits of operator %d", op)
		}
	}
	for _, e := range f.layout.Plan.Edges {
		if e.FromChain == s.Chain && !edge.Blocking(e) { // who will read what is stored need not be known
			if err := f.located(e.ToChain, f.layout.ConsumersOf(e, s.Index)); err != nil {
				return err
			}
		}
		if e.ToChain == s.Chain {
			if err := f.located(e.FromChain, f.layout.ProducersOf(e, s.Index)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *draft) located(chain int32, s layout.Span) error {
	for i := s.First; i < s.End; i++ {
		if f.locations[subtaskID{chain, i}] == nil {
			return fmt.Errorf("nothing says where subtask %d of chain %d is", i, chain)
		}
	}
	return nil
}

// turn is what has to happen outside the lock.
type turn struct {
	stop  []*attempt              // to be told that they are superseded
	known []*attempt              // that run already
	over  []*taskpb.SubtaskUpdate // last reports of those that have ended
}

// install enters the attempts of a draft and starts them.
func (p *Process) install(f *draft) (turn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var t turn
	if p.mu.closed {
		return t, ErrClosed
	}
	if f.d.JobEpoch < p.mu.jobEpoch {
		return t, fmt.Errorf("job epoch %d: %w", f.d.JobEpoch, ErrStale)
	}
	t.stop = p.enter(f.d.JobEpoch)
	stale := 0
	for _, s := range f.d.Subtasks {
		r := p.region(s.Region)
		if s.RegionEpoch > r.epoch {
			r.epoch = s.RegionEpoch
			t.stop = p.supersede(t.stop, func(a *attempt) bool { return a.sub.Region == s.Region })
		}
		if s.RegionEpoch < r.epoch {
			p.log.Debug("stale subtask dropped", "epoch", s.RegionEpoch, "attempt", s.Attempt)
			stale++
			continue
		}
		p.admit(f, s, r, &t)
	}
	if stale > 0 && stale == len(f.d.Subtasks) {
		return t, ErrStale
	}
	return t, nil
}

// enter moves to a job epoch that is not older than the current one. Whatever runs in an older one is superseded, and
// fences begin anew: regions are numbered again.
func (p *Process) enter(jobEpoch uint64) (stop []*attempt) {
	if jobEpoch == p.mu.jobEpoch {
		return nil
	}
	p.mu.jobEpoch = jobEpoch
	clear(p.mu.regions)
	return p.supersede(nil, func(*attempt) bool { return true })
}

// region is the fence of a region.
func (p *Process) region(region int32) *fence {
	r := p.mu.regions[region]
	if r == nil {
		r = &fence{}
		p.mu.regions[region] = r
	}
	return r
}

// supersede marks the running attempts that match and adds those that have to be told.
func (p *Process) supersede(stop []*attempt, match func(*attempt) bool) []*attempt {
	for a := range p.mu.running {
		if a.cause == nil && match(a) {
			a.cause = errSuperseded
			if a.cancel != nil {
				stop = append(stop, a)
			}
		}
	}
	return stop
}

// admit enters one subtask whose epoch is current.
func (p *Process) admit(f *draft, s *taskpb.SubtaskDeployment, r *fence, t *turn) {
	id := subtaskID{s.Chain, s.Index}
	known := p.mu.newest[id]
	if known != nil && known.jobEpoch == f.d.JobEpoch && known.sub.Attempt >= s.Attempt {
		switch _, runs := p.mu.running[known]; {
		case known.sub.Attempt > s.Attempt:
		case known.last != nil:
			t.over = append(t.over, known.last)
		case runs:
			t.known = append(t.known, known)
		}
		return
	}
	a := &attempt{
		proc: p, layout: f.layout, sub: s, jobEpoch: f.d.JobEpoch, locations: f.locations, terms: f.terms,
		mail: mail.New(), meter: newMeter(), done: make(chan struct{}),
	}
	if s.RegionEpoch <= r.cancelled {
		a.last = &taskpb.SubtaskUpdate{
			Chain: s.Chain, Index: s.Index, Attempt: s.Attempt, Region: s.Region, RegionEpoch: s.RegionEpoch,
			State: jobpb.SubtaskState_SUBTASK_CANCELLED,
		}
		close(a.done)
		p.mu.newest[id] = a
		t.over = append(t.over, a.last)
		return
	}
	if known != nil {
		// Normally it is stopped already, by the epoch.
		t.stop = p.supersede(t.stop, func(o *attempt) bool { return o == known })
	}
	a.opened.Store(s.RegionEpoch <= r.opened)
	for o := range p.mu.running {
		if o.jobEpoch < a.jobEpoch || o.sub.Region == s.Region && o.sub.RegionEpoch < s.RegionEpoch || o == known {
			a.older = append(a.older, o)
		}
	}
	if s.Restore > 0 {
		a.restoring = p.restoring(f.d)
	}
	p.mu.newest[id] = a
	p.mu.running[a] = ""
	if p.mu.group == nil {
		p.mu.parked = append(p.mu.parked, a)
		return
	}
	p.mu.group.Go(a.name(), a.run)
}

// Cancel stops attempts: those of the regions named whose epoch is at most the one given; without names, of every region
// that is known here. A deployment of such an epoch that arrives later starts nothing. A newer job epoch stops whatever is
// older, as a deployment of it does. Idempotent; the end of the attempts is reported through the Host.
func (p *Process) Cancel(c *taskpb.Cancel) {
	if err := c.Validate(); err != nil || c.Job != p.cfg.Job {
		p.log.Warn("cancel refused", "for", c.GetJob(), "error", err)
		return
	}
	old, cancelled := p.withdraw(c)
	for _, a := range old {
		a.cancel(errSuperseded)
	}
	for _, a := range cancelled {
		a.cancel(errCancelled)
	}
}

// withdraw enters the fences of c and returns the attempts that have to be told: those of an older job epoch, and those
// that are meant.
func (p *Process) withdraw(c *taskpb.Cancel) (old, stop []*attempt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.JobEpoch < p.mu.jobEpoch {
		p.log.Debug("stale cancel dropped", "epoch", c.JobEpoch)
		return nil, nil
	}
	old = p.enter(c.JobEpoch)
	limit := map[int32]uint64{}
	for _, r := range c.Regions {
		limit[r.Region] = r.Epoch
	}
	if len(c.Regions) == 0 {
		for region, r := range p.mu.regions {
			limit[region] = r.epoch
		}
	}
	for region, epoch := range limit {
		r := p.region(region)
		r.cancelled = max(r.cancelled, epoch)
	}
	for a := range p.mu.running {
		epoch, named := limit[a.sub.Region]
		if named && a.sub.RegionEpoch <= epoch && a.cause == nil {
			a.cause = errCancelled
			if a.cancel != nil {
				stop = append(stop, a)
			}
		}
	}
	return old, stop
}
