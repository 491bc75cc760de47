package chain

import (
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/task/fault"
)

// Listener is an Operator for which something happens outside the loop of its subtask: a call that it has begun returns.
type Listener interface {
	// OnNotify is called between records soon after Runtime.Notify, once for all calls of that before it. The operator may
	// emit.
	OnNotify() error
}

// Limiter is an Operator that takes so many records at a time. While it has no room the loop reads no input and goes on to
// handle letters; a record that comes nevertheless, because an operator in front makes several of one, has to wait inside
// its push.
type Limiter interface {
	Room() int
}

// Relay is a Holder that passes on itself what it holds back, by Runtime.Pass: each event in its place among the records.
// OnWatermark tells it of MaxTime only, when everything has to be out on return.
type Relay interface {
	Holder
	// OnEvent is told of watermarks, also of one that only says that an idle input is back, and of idleness.
	OnEvent(ev element.Event) error
}

// Notify has the loop call the operator's OnNotify (see Listener). Any goroutine may call it.
func (rt *Runtime) Notify() {
	if !rt.notified.Swap(true) && rt.tick != nil {
		rt.tick()
	}
}

// OnTick sets how Notify rouses the loop. Called by the wiring, before the operator is built.
func (rt *Runtime) OnTick(tick func()) { rt.tick = tick }

// Pass hands an event to the operators and edges behind a Relay.
func (rt *Runtime) Pass(ev element.Event) error {
	if rt.pass == nil {
		return nil
	}
	return rt.pass(ev)
}

// OnPass replaces where Pass leads to, for harnesses.
func (rt *Runtime) OnPass(pass func(element.Event) error) { rt.pass = pass }

// Position describes the record in flight, for failures that are found out later.
func (c *Cursor) Position() string { return c.position() }

// FailAt is Fail for a record that is no longer in flight.
func (rt *Runtime) FailAt(err error, position string) {
	if rt.fault != nil || err == nil {
		return
	}
	f := *fault.Of(err, fault.CodeUser, rt.Task.Operator)
	if f.Operator == "" {
		f.Operator = rt.Task.Operator
	}
	if f.Position == "" {
		f.Position = position
	}
	rt.fault = &f
}

// pass walks the nodes behind node i.
func (c *Chain) pass(i int, ev element.Event) error {
	n := &c.nodes[i]
	grows := ev.Kind == element.Watermark && ev.Time > n.passed
	if grows {
		n.passed = ev.Time
	}
	active, event := c.active, c.event
	err := c.walk(i+1, i+n.Size, ev, grows)
	c.active, c.event = active, event
	return err
}

// Room is how many records the operators can take now, at least as far as they are not made more on their way; MaxRoom if
// none of them minds.
func (c *Chain) Room() int {
	room := MaxRoom
	for _, l := range c.limiters {
		room = min(room, l.Room())
	}
	return room
}

// MaxRoom is more than any step takes.
const MaxRoom = 1 << 30

// heard calls the operators that were notified.
func (c *Chain) heard() error {
	for i := range c.nodes {
		n := &c.nodes[i]
		if n.Runtime == nil || !n.Runtime.notified.Load() {
			continue
		}
		n.Runtime.notified.Store(false)
		if l, ok := n.Operator.(Listener); ok {
			c.active, c.event = i, element.Event{}
			if err := c.check(n, l.OnNotify()); err != nil {
				return err
			}
		}
	}
	c.active = -1
	return nil
}
