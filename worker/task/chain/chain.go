package chain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/worker/task/fault"
)

// Node is one operator of a chain, or the writing end of an edge that leaves it.
type Node struct {
	ID       string   // operator id; of an outlet: the consumer's
	Runtime  *Runtime // nil for an outlet
	Operator Operator // nil for an outlet
	Outlet   Outlet   // nil for an operator
	// Size counts this node and everything behind it: the tree lies flat in pre-order.
	Size int
	// Kids are the offsets, from this node, of the consumers of the main output, in the order of the fan-out.
	Kids []int
	// Codes are the code of the node's pushes: how Blame recognises it on the stack.
	Codes []Code
	// Stored: the outlet keeps what it gets until it is finished.
	Stored bool

	hides    int          // nodes behind a Holder, which it keeps events from
	relay    Relay        // nil: it is none
	passed   element.Time // the last watermark that it has passed on
	receiver string       // of Operator's methods, as Blame sees them on the stack
}

// Outlet is the writing end of an edge, erased. Records go through its Push.
type Outlet interface {
	// Flush hands over what is buffered, as far as that is possible without waiting.
	Flush() error
	// Broadcast puts an event behind everything that was written, for every consumer.
	Broadcast(ev element.Event) error
	// Pending reports that something is buffered which has to be handed over in time.
	Pending() bool
	Stats() OutletStats
	// Close ends it: with nil after End was broadcast, otherwise the consumers see a loss.
	Close(err error) error
	// Partition is the stored result after Close(nil); nil: nothing is stored.
	Partition() *jobpb.Partition
}

// OutletStats are the counters of an outlet since its start.
type OutletStats struct {
	Records int64
	Bytes   int64         // encoded for the network
	Stored  int64         // bytes on disk
	Blocked time.Duration // waiting for consumers, or for the disk
}

// Chain is the tree of operators of one subtask, in the order in which events pass through it: a producer before its
// consumers. Every consumer, be it an operator or an outlet, gets an event after all records that were emitted before
// it, because records travel by direct calls.
type Chain struct {
	ctx     context.Context
	cur     *Cursor
	nodes   []Node
	outlets []Outlet // stored ones last
	// root is the node that works when none of the pushes does: the source, or -1.
	root int
	// active is the node that handles an event; -1: none, a record is in flight.
	active int
	event  element.Event // that it handles
	// restoring: it is no event that is handled, but what a checkpoint has.
	restoring bool
	// keepers are the nodes with tables.
	keepers  []int
	limiters []Limiter
	over     bool // every operator has finished
}

// New makes a chain of nodes in pre-order. root is the index of its source, or -1.
func New(ctx context.Context, cur *Cursor, nodes []Node, root int) *Chain {
	c := &Chain{ctx: ctx, cur: cur, nodes: nodes, root: root, active: -1}
	var stored []Outlet
	for i := range nodes {
		n := &nodes[i]
		if n.Runtime != nil && len(n.Runtime.tables) > 0 {
			c.keepers = append(c.keepers, i)
		}
		switch {
		case n.Outlet == nil:
			n.receiver = receiver(n.Operator)
			c.lead(i, n)
		case n.Stored:
			stored = append(stored, n.Outlet)
		default:
			c.outlets = append(c.outlets, n.Outlet)
		}
	}
	c.outlets = append(c.outlets, stored...)
	return c
}

// lead takes up what the operator of node i wants to do for those behind it.
func (c *Chain) lead(i int, n *Node) {
	if l, ok := n.Operator.(Limiter); ok {
		c.limiters = append(c.limiters, l)
	}
	if _, ok := n.Operator.(Holder); ok {
		n.hides = n.Size - 1
	}
	if r, ok := n.Operator.(Relay); ok {
		n.relay, n.passed = r, element.MinTime
		n.Runtime.OnPass(func(ev element.Event) error { return c.pass(i, ev) })
	}
}

// Cursor is where the chain stands.
func (c *Chain) Cursor() *Cursor { return c.cur }

// Head is the id of the operator at the head.
func (c *Chain) Head() string { return c.nodes[0].ID }

// Outlets are the edges that leave the chain.
func (c *Chain) Outlets() []Outlet { return c.outlets }

// Control passes an event down the chain. End finishes each operator before the next one sees the end, so that what
// an operator emits when it finishes is on time for those behind it. A chain that has been told to stop does not
// finish any more.
func (c *Chain) Control(ev element.Event) error {
	if err := c.ctx.Err(); err != nil && ev.Kind == element.End {
		return err
	}
	grows := ev.Kind == element.Watermark && ev.Time > c.cur.watermark // else an idle input is back, which only edges need to know
	if grows || ev.Kind == element.End {
		c.cur.watermark = max(c.cur.watermark, ev.Time)
	}
	if err := c.walk(0, len(c.nodes), ev, grows); err != nil {
		return err
	}
	c.active = -1
	c.over = c.over || ev.Kind == element.End
	return nil
}

// walk passes an event to the nodes in [from, end), which are a tree or all that is behind a node.
func (c *Chain) walk(from, end int, ev element.Event, grows bool) error {
	c.event = ev
	held := ev.Kind != element.End
	for i := from; i < end; {
		n := &c.nodes[i]
		c.active = i
		var err error
		switch {
		case n.Outlet != nil:
			err = n.Outlet.Broadcast(ev)
		case n.relay != nil && held:
			if grows {
				n.Runtime.Watermark = ev.Time
			}
			err = n.relay.OnEvent(ev)
			c.event = ev
		case grows:
			err = n.advance(ev.Time)
		case ev.Kind == element.End:
			err = n.finish(ev.Time)
		}
		if err != nil || c.cur.fault != nil {
			return c.check(n, err)
		}
		if i++; held {
			i += n.hides
		}
	}
	return nil
}

// advance tells the operator of a watermark.
func (n *Node) advance(t element.Time) error {
	n.Runtime.Watermark = t
	if err := n.Operator.OnWatermark(t); err != nil {
		return err
	}
	return n.Runtime.TableErr()
}

func (n *Node) finish(end element.Time) error {
	if end == element.MaxTime {
		if err := n.advance(end); err != nil {
			return err
		}
	}
	return n.Operator.Finish()
}

// InputEnd tells the operator at the head that one of its several inputs has ended.
func (c *Chain) InputEnd(input, inputs int) error {
	n := &c.nodes[0]
	e, ok := n.Operator.(InputEnder)
	if !ok || inputs == 1 {
		return nil
	}
	if err := c.ctx.Err(); err != nil {
		return err
	}
	c.active, c.event = 0, element.Event{Kind: element.End}
	if err := c.check(n, e.OnInputEnd(input)); err != nil {
		return err
	}
	c.active = -1
	return nil
}

// check attributes the error of an event, and finds what operators have reported through Fail meanwhile. No record is in flight:
// what the user gets to look for is the event, if there is one. A loss is nobody's fault here.
func (c *Chain) check(n *Node, err error) error {
	if err == nil {
		return c.cur.Err()
	}
	f := *fault.Of(err, fault.CodeUser, n.ID)
	if text := c.occasion(); f.Position == "" && f.Kind != jobpb.FailureKind_FAILURE_LOSS && text != byItself {
		f.Position = text
	}
	return &f
}

// Occasion describes the event that is being handled; false: there is none, a record is in flight.
func (c *Chain) Occasion() (text string, ok bool) {
	return c.occasion(), c.active >= 0
}

// byItself is the occasion of what is done between records, and follows from none of them.
const byItself = "a time of its own"

func (c *Chain) occasion() string {
	if c.restoring {
		return "while the state was restored"
	}
	if c.active >= 0 {
		if o, ok := c.nodes[c.active].Operator.(Occasioned); ok {
			if text := o.Occasion(); text != "" {
				return text
			}
		}
	}
	switch c.event.Kind {
	case element.Watermark:
		return "watermark " + c.event.Time.String()
	case element.End:
		return "the end of the input"
	case element.Barrier:
		return fmt.Sprintf("the barrier of checkpoint %d", c.event.Checkpoint)
	case element.None:
		return byItself
	}
	return ""
}

// OnTime calls the operators that were notified and those whose time has come, and returns the earliest time that another one waits for.
func (c *Chain) OnTime(now time.Time) (next time.Time, err error) {
	if err := c.heard(); err != nil {
		return next, err
	}
	for i := range c.nodes {
		n := &c.nodes[i]
		if n.Runtime == nil || n.Runtime.wake.IsZero() {
			continue
		}
		if w, ok := n.Operator.(Waker); ok && n.Runtime.Due(now) {
			c.active, c.event = i, element.Event{}
			if err := c.check(n, w.OnTime(now)); err != nil {
				return next, err
			}
		}
		next = Earlier(next, n.Runtime.wake)
	}
	c.active = -1
	return next, nil
}

// Earlier is the earlier of two times, of which a zero one does not count.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Flush hands over what the outlets hold.
func (c *Chain) Flush() error {
	for _, o := range c.outlets {
		if err := o.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// Pending reports that some outlet holds records.
func (c *Chain) Pending() bool {
	return slices.ContainsFunc(c.outlets, Outlet.Pending)
}

// Partitions are the stored results of the chain, after CloseOutlets(nil).
func (c *Chain) Partitions() []*jobpb.Partition {
	var out []*jobpb.Partition
	for _, o := range c.outlets {
		if p := o.Partition(); p != nil {
			out = append(out, p)
		}
	}
	return out
}

// CloseOutlets ends the edges that leave the chain. cause nil: everything was sent, and it waits until the consumers
// have it; otherwise they see a loss. Results are stored when nothing else can go wrong: once they are there, nobody
// but the coordinator takes them away.
func (c *Chain) CloseOutlets(cause error) error {
	var errs []error
	for _, o := range c.outlets {
		if err := o.Close(cause); err != nil {
			errs = append(errs, err)
			if cause == nil {
				cause = err
			}
		}
	}
	return errors.Join(errs...)
}

// CloseOperators closes every operator, also after one of them has failed or panicked.
func (c *Chain) CloseOperators() error {
	var errs []error
	for i := range c.nodes {
		n := &c.nodes[i]
		if n.Operator == nil {
			continue
		}
		c.active = i
		if err := fault.Protect(n.Operator.Close); err != nil {
			errs = append(errs, fmt.Errorf("close %s: %w", n.ID, err))
		}
		errs = append(errs, n.closeTables())
	}
	return errors.Join(errs...)
}
