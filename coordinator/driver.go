package coordinator

import (
	"context"
	"time"

	"github.com/hashicorp/raft"

	"github.com/sluiceio/sluice/coordinator/schedule"
	"github.com/sluiceio/sluice/internal/run"
)

// driver owns the scheduler: one loop feeds it events and performs its actions. Nothing in the loop waits for a worker:
// messages go to bounded outboxes that close when they are full. What it does wait for is the log: while too many proposals
// are outstanding, it takes no further events from sessions, and their streams stop reading.
//
//	sessions ─events─▶ loop ─queue─▶ propose (in order) ─futures─▶ collect ─done─▶ loop
type driver struct {
	r      *reign
	leader *schedule.Leader

	events  chan schedule.Event
	queue   chan schedule.Propose
	futures chan pending
	done    chan schedule.ProposalDone

	// Owned by loop.
	waiting     []schedule.Propose // decided, not yet with propose
	outstanding int                // with propose, collect or Raft
	changed     <-chan struct{}    // closed when there are newer facts than the last step saw
	wake        *time.Timer
}

type pending struct {
	key    string
	future raft.ApplyFuture
	err    error // the command could not even be encoded
}

const (
	// maxOutstanding proposals are in the log's hands at a time. futures and done hold that many, so propose and collect never
	// wait for the loop.
	maxOutstanding = 256
	eventQueue     = 1024
)

func newDriver(r *reign, leader *schedule.Leader) *driver {
	return &driver{
		r:       r,
		leader:  leader,
		events:  make(chan schedule.Event, eventQueue),
		queue:   make(chan schedule.Propose),
		futures: make(chan pending, maxOutstanding),
		done:    make(chan schedule.ProposalDone, maxOutstanding),
	}
}

func (d *driver) start(g *run.Group) {
	g.Go("loop", d.loop)
	g.Go("propose", d.propose)
	g.Go("collect", d.collect)
}

// post hands an event of a session to the loop.
func (d *driver) post(e schedule.Event, gone <-chan struct{}) {
	select {
	case d.events <- e:
	case <-gone:
	case <-d.r.over:
	}
}

func (d *driver) loop(ctx context.Context) error {
	d.wake = time.NewTimer(time.Hour)
	defer d.wake.Stop()
	// The facts themselves are the first event: a new leader looks at everything once.
	for event := schedule.Event(schedule.Applied{}); event != nil; event = d.next(ctx) {
		d.step(event)
	}
	return nil
}

// next waits for an event; nil at the end.
func (d *driver) next(ctx context.Context) schedule.Event {
	for {
		events, queue := d.events, d.queue
		var first schedule.Propose
		if len(d.waiting) > 0 {
			first = d.waiting[0]
		}
		if len(d.waiting) == 0 || d.outstanding >= maxOutstanding {
			queue = nil
		}
		if len(d.waiting) >= maxOutstanding {
			events = nil
		}
		select {
		case event := <-events:
			return event
		case done := <-d.done:
			d.outstanding--
			return done
		case <-d.changed:
			return schedule.Applied{}
		case <-d.wake.C:
			return schedule.Tick{}
		case queue <- first:
			d.outstanding++
			d.waiting = d.waiting[1:]
		case <-ctx.Done():
			return nil
		}
	}
}

// step lets the scheduler look at one event. The view is taken after the event, so it contains what the event answers.
func (d *driver) step(event schedule.Event) {
	view, changed := d.r.n.fsm.view()
	d.changed = changed
	if _, ok := event.(schedule.Applied); ok {
		event = schedule.Applied{Index: view.Index()}
	}
	for _, action := range d.leader.Step(view, event, time.Now()) {
		switch a := action.(type) {
		case schedule.Propose:
			d.waiting = append(d.waiting, a)
		case schedule.Send:
			d.r.sessions.Send(a.Worker, a.Incarnation, a.Message)
		case schedule.Drop:
			d.r.sessions.Drop(a.Worker, a.Incarnation, a.Reason)
		case schedule.Publish:
			d.publish(a)
		case schedule.Fetch:
			d.fetch(a)
		case schedule.WakeAt:
			d.wake.Reset(time.Until(a.At))
		}
	}
}

// propose puts commands into the log in the order in which they were decided.
func (d *driver) propose(ctx context.Context) error {
	defer close(d.futures)
	for {
		select {
		case p := <-d.queue:
			data, err := d.r.n.encode(p.Command)
			if err != nil {
				d.futures <- pending{key: p.Key, err: err}
				continue
			}
			d.futures <- pending{key: p.Key, future: d.r.n.raft.Apply(data, d.r.n.cfg.ApplyTimeout)}
		case <-ctx.Done():
			return nil
		}
	}
}

// collect waits for the outcomes. It outlives ctx until the last proposal is answered, which Raft does when leadership
// is lost.
func (d *driver) collect(ctx context.Context) error {
	for p := range d.futures {
		done := schedule.ProposalDone{Key: p.key, Err: p.err}
		if p.err == nil {
			bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.r.n.cfg.ApplyTimeout)
			done.Result, done.Err = d.r.n.await(bounded, func() raft.ApplyFuture { return p.future }, func() {})
			cancel()
		}
		if done.Err != nil {
			d.r.log.Debug("proposal failed", "key", p.key, "error", done.Err)
		}
		d.done <- done
	}
	return nil
}
