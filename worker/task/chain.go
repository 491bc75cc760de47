package task

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/shuffle"
	"github.com/sluiceio/sluice/worker/task/fault"
)

// node is one operator of a chain, or the writing end of an edge that leaves it.
type node struct {
	id  string   // operator id; of an outlet: the consumer's
	rt  *Runtime // nil for an outlet
	op  Operator // nil for an outlet
	out outlet   // nil for an operator
	// size counts this node and everything behind it: the tree lies flat in pre-order.
	size int
	// kids are the offsets, from this node, of the consumers of the main output, in the order of the fan-out.
	kids []int
	// entries are the code of the node's pushes: how blame recognises it on the stack.
	entries []entry
}

// outlet is the writing end of an edge, erased. Records go through its Push.
type outlet interface {
	flush() error
	broadcast(ev element.Event) error
	pending() bool
	stats() shuffle.WriterStats
	// close ends it: with nil after End was broadcast, otherwise the consumers see a loss.
	close(err error) error
}

// chain is the tree of operators of one subtask, in the order in which events pass through it: a producer before its
// consumers. Every consumer, be it an operator or an outlet, gets an event after all records that were emitted before
// it, because records travel by direct calls.
type chain struct {
	ctx     context.Context
	cur     *Cursor
	nodes   []node
	outlets []outlet
	// root is the node that works when none of the pushes does: the source, or -1.
	root int
	// active is the node that handles an event; -1: none, a record is in flight.
	active int
	event  element.Event // that it handles
}

func newChain(ctx context.Context, cur *Cursor, nodes []node, root int) *chain {
	c := &chain{ctx: ctx, cur: cur, nodes: nodes, root: root, active: -1}
	for i := range nodes {
		if o := nodes[i].out; o != nil {
			c.outlets = append(c.outlets, o)
		}
	}
	return c
}

// control passes an event down the chain. End finishes each operator before the next one sees the end, so that what
// an operator emits when it finishes is on time for those behind it. A chain that has been told to stop does not
// finish any more.
func (c *chain) control(ev element.Event) error {
	if err := c.ctx.Err(); err != nil && ev.Kind == element.End {
		return err
	}
	grows := ev.Kind == element.Watermark && ev.Time > c.cur.watermark // else an idle input is back, which only edges need to know
	if grows || ev.Kind == element.End {
		c.cur.watermark = max(c.cur.watermark, ev.Time)
	}
	c.event = ev
	for i := range c.nodes {
		n := &c.nodes[i]
		c.active = i
		var err error
		switch {
		case n.out != nil:
			err = n.out.broadcast(ev)
		case grows:
			err = n.advance(ev.Time)
		case ev.Kind == element.End:
			err = n.finish(ev.Time)
		}
		if err = c.check(n, err); err != nil {
			return err
		}
	}
	c.active = -1
	return nil
}

// advance tells the operator of a watermark.
func (n *node) advance(t element.Time) error {
	n.rt.Watermark = t
	return n.op.OnWatermark(t)
}

func (n *node) finish(end element.Time) error {
	if end == element.MaxTime {
		if err := n.advance(end); err != nil {
			return err
		}
	}
	return n.op.Finish()
}

// check attributes the error of an event, and finds what operators have reported through Fail meanwhile.
func (c *chain) check(n *node, err error) error {
	if err != nil {
		return fault.Of(err, codeOf(err), n.id)
	}
	return c.cur.Err()
}

// occasion describes the event that is being handled.
func (c *chain) occasion() string {
	switch c.event.Kind {
	case element.Watermark:
		return "at watermark " + c.event.Time.String()
	case element.End:
		return "at the end of the input"
	case element.None:
		return "at a time of its own"
	}
	return ""
}

// onTime calls the operators whose time has come, and returns the earliest time that another one waits for.
func (c *chain) onTime(now time.Time) (next time.Time, err error) {
	for i := range c.nodes {
		n := &c.nodes[i]
		if n.rt == nil || n.rt.wake.IsZero() {
			continue
		}
		if w, ok := n.op.(Waker); ok && !n.rt.wake.After(now) {
			c.active, c.event = i, element.Event{}
			n.rt.wake = time.Time{}
			if err := c.check(n, w.OnTime(now)); err != nil {
				return next, err
			}
		}
		next = earlier(next, n.rt.wake)
	}
	c.active = -1
	return next, nil
}

// earlier is the earlier of two times, of which a zero one does not count.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// flush hands over what the outlets hold.
func (c *chain) flush() error {
	for _, o := range c.outlets {
		if err := o.flush(); err != nil {
			return err
		}
	}
	return nil
}

// pending reports that some outlet holds records.
func (c *chain) pending() bool {
	return slices.ContainsFunc(c.outlets, outlet.pending)
}

// closeOutlets ends the edges that leave the chain. cause nil: everything was sent, and it waits until the consumers
// have it; otherwise they see a loss.
func (c *chain) closeOutlets(cause error) error {
	var errs []error
	for _, o := range c.outlets {
		errs = append(errs, o.close(cause))
	}
	return errors.Join(errs...)
}

// closeOperators closes every operator, also after one of them has failed or panicked.
func (c *chain) closeOperators() error {
	var errs []error
	for i := range c.nodes {
		n := &c.nodes[i]
		if n.op == nil {
			continue
		}
		c.active = i
		if err := fault.Protect(n.op.Close); err != nil {
			errs = append(errs, fmt.Errorf("close %s: %w", n.id, err))
		}
	}
	return errors.Join(errs...)
}

// committables is the prepared output of the sinks.
func (c *chain) committables() []*jobpb.Committable {
	var out []*jobpb.Committable
	for i := range c.nodes {
		n := &c.nodes[i]
		if n.rt == nil {
			continue
		}
		for _, p := range n.rt.prepare {
			out = append(out, &jobpb.Committable{
				Sink: n.id, Subtask: int32(p.Subtask), Checkpoint: uint64(p.Checkpoint), N: int32(p.N), Data: p.Data,
			})
		}
	}
	return out
}

// entry tells the code of a Push on the stack.
type entry struct {
	pc uintptr
	// method is the name of the method that the push is a value of; empty: it is none. The wrapper that such a value
	// points to is on no stack, and the address of the method itself is not to be had.
	method string
}

func entryOf(push any) entry {
	e := entry{pc: reflect.ValueOf(push).Pointer()}
	if f := runtime.FuncForPC(e.pc); f != nil {
		if method, ok := strings.CutSuffix(f.Name(), "-fm"); ok {
			e.method = method
		}
	}
	return e
}

func (e entry) is(f *runtime.Frame) bool {
	return f.Entry == e.pc || e.method != "" && f.Function == e.method
}

// pushes reports whether f is the frame of a push of n.
func (n *node) pushes(f *runtime.Frame) bool {
	return slices.ContainsFunc(n.entries, func(e entry) bool { return e.is(f) })
}

// blame finds the operator that was at work when a panic unwound the stack pcs (innermost first). Tracking it while
// records flow would cost every record; instead each push of the chain is looked for among the frames, from the head
// inwards: the last one found was at work. Where two branches run the same code, the note of the fan-out decides.
func (c *chain) blame(pcs []uintptr) string {
	at := c.active
	if at < 0 {
		at = c.root
	}
	for _, f := range framesOf(pcs) {
		if next := c.find(at, &f); next >= 0 {
			at = next
		}
	}
	if at < 0 {
		return ""
	}
	return c.nodes[at].id
}

// framesOf are the frames of a stack, outermost first.
func framesOf(pcs []uintptr) []runtime.Frame {
	var out []runtime.Frame
	frames := runtime.CallersFrames(pcs)
	for {
		f, more := frames.Next()
		out = append(out, f)
		if !more {
			slices.Reverse(out)
			return out
		}
	}
}

// find is the node behind at whose push is f, or -1.
func (c *chain) find(at int, f *runtime.Frame) int {
	first, end := 0, len(c.nodes)
	if at >= 0 {
		n := &c.nodes[at]
		if n.rt != nil && len(n.kids) > 1 {
			if kid := at + n.kids[min(n.rt.branch, len(n.kids)-1)]; c.nodes[kid].pushes(f) {
				return kid
			}
		}
		first, end = at+1, at+n.size
	}
	for i := first; i < end; i++ {
		if c.nodes[i].pushes(f) {
			return i
		}
	}
	return -1
}
