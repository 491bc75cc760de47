package shuffle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/internal/invariant"
	"github.com/sluiceio/sluice/shuffle/budget"
	"github.com/sluiceio/sluice/shuffle/frame"
	"github.com/sluiceio/sluice/shuffle/meet"
)

// Writer is the producing end of one edge in one subtask. It belongs to the subtask's loop: its methods are called
// from one goroutine.
//
// Each consumer has one buffer that is being filled, and at most one more that waits for credit behind those that have
// it. When both are full, Add for that consumer waits; the other consumers' buffers are not touched by that.
type Writer[T any] struct {
	cfg    WriterConfig[T]
	n      *Network
	sender *sender
	outs   []outlet[T]
	ends   []arrival

	unit     int // bytes of a buffer
	reserved budget.Reservation
	filled   int   // outlets that hold something
	dirty    []int // outlets that may hold something
	late     []int // outlets whose turn to take an event has not come yet
	stats    WriterStats
	ended    bool // End was broadcast
	closed   bool
	loop     invariant.Exclusive

	sizing  sizing
	largest int    // bytes of the largest record of late
	tight   int    // bytes: with no more room than this the codec has asked for a larger buffer
	value   T      // the record being encoded; a field, so that it does not escape per record
	scratch []byte // for records that may not fit
	packed  []byte // for compression
}

// outlet is the channel to one consumer: either local or remote is set.
type outlet[T any] struct {
	room   int // records that may be added to the open buffer; 0: none is open, or it has to go first
	filled bool
	listed bool // in dirty

	local *localOut
	batch *element.Batch[T]
	spare *element.Batch[T] // came back empty
	event element.Event     // behind the batch

	remote   *remoteOut
	buf      *[]byte // nil: no records yet
	limit    int     // of the length of buf: the table of segments has to follow
	unit     int     // bytes of a buffer that the consumer accepts
	records  int
	segments []frame.Segment
	segment  frame.Segment // the last one, still open
	prev     element.Time  // of the last record in it
}

// WriterStats are a writer's counters since its start.
type WriterStats struct {
	Records int64
	Buffers int64         // batches and frames
	Bytes   int64         // in frames; local channels encode nothing
	Blocked time.Duration // waiting for credit
}

// NewWriter registers the producing end of an edge. It neither waits for consumers nor starts anything.
func NewWriter[T any](n *Network, cfg WriterConfig[T]) (*Writer[T], error) {
	if err := cfg.validate(n); err != nil {
		return nil, err
	}
	w := &Writer[T]{cfg: cfg, n: n, sender: &sender{wake: newWakeup()}, outs: make([]outlet[T], len(cfg.Consumers))}
	remote := 0
	for _, c := range cfg.Consumers {
		if c.Peer != nil {
			remote++
		}
	}
	what := fmt.Sprintf("producer %d of edge %d with %d consumers", cfg.Producer, cfg.Edge, len(cfg.Consumers))
	pool := 0
	if remote > 0 {
		pool = 2*remote + spareFrames
	}
	var err error
	if w.unit, w.reserved, err = n.memory.Fit(what, 2*(len(cfg.Consumers)-remote)+pool); err != nil {
		return nil, err
	}
	if remote > 0 {
		w.sender.pool = newFramePool(pool, w.unit, w.sender.wake)
	}
	w.sizing = newSizing[T]()
	for i, c := range cfg.Consumers {
		id := channelID{edge: cfg.Edge, producer: cfg.Producer, consumer: c.Index}
		a := arrival{id: id, fence: cfg.fence(c)}
		if o := &w.outs[i]; c.Peer == nil {
			o.local, o.unit = &localOut{id: id, fence: a.fence, sender: w.sender}, w.unit
			a.end = o.local
		} else { // every consumer accepts frames of minUnit
			o.remote, o.unit = &remoteOut{id: id, fence: a.fence, sender: w.sender}, minUnit
			a.end = o.remote
		}
		w.ends = append(w.ends, a)
	}
	if err := n.join(meet.Producing, w.ends); err != nil {
		n.memory.GiveBack(w.reserved)
		return nil, fmt.Errorf("register producer %d of edge %d: %w", cfg.Producer, cfg.Edge, err)
	}
	return w, nil
}

// spareFrames is the number of frame buffers beyond two per channel: enough for one busy channel to use the floating
// credit of its gate.
const spareFrames = DefaultFloatingCredit

// Stats are the counters so far.
func (w *Writer[T]) Stats() WriterStats { return w.stats }

// Add sends one record to the consumer at position to of WriterConfig.Consumers. The record is buffered; Add waits
// (until Ctx ends) when the buffers are full and the channel has no credit.
func (w *Writer[T]) Add(to int, v T, at element.Time) error {
	if invariant.Enabled {
		w.loop.Enter("Add")
		defer w.loop.Leave()
		invariant.That(!w.ended && !w.closed, "a record follows the end of edge %d", w.cfg.Edge)
	}
	o := &w.outs[to]
	if o.remote != nil {
		w.value = v
		return w.encode(to, o, at)
	}
	if o.room == 0 {
		w.value = v
		if err := w.openBatch(to, o); err != nil {
			return err
		}
	}
	o.batch.Append(v, at)
	if o.room--; o.room == 0 {
		_, err := w.handOver(o)
		return err
	}
	return nil
}

// Pending reports that something is buffered. Flush may not be able to hand over all of it: as long as Pending is
// true, Flush is to be called again after the buffer timeout.
func (w *Writer[T]) Pending() bool { return w.filled > 0 }

// Flush hands over what is buffered, as far as credit allows, without waiting. An error means that the writer has
// failed, perhaps long ago.
func (w *Writer[T]) Flush() error {
	if invariant.Enabled {
		w.loop.Enter("Flush")
		defer w.loop.Leave()
	}
	if err := w.sender.err(); err != nil {
		return err
	}
	left := w.dirty[:0]
	for _, i := range w.dirty {
		o := &w.outs[i]
		if o.filled {
			if _, err := w.handOver(o); err != nil {
				return err
			}
		}
		if o.listed = o.filled; o.listed {
			left = append(left, i)
		}
	}
	w.dirty = left
	return nil
}

// Broadcast puts ev behind everything that was added, for every consumer, and ahead of everything that will be. It
// waits only for a channel on which an earlier event has not gone yet and cannot be replaced by ev. A watermark goes
// with the buffer that it stands in; other events are handed over at once, as far as credit allows.
func (w *Writer[T]) Broadcast(ev element.Event) error {
	if invariant.Enabled {
		w.loop.Enter("Broadcast")
		defer w.loop.Leave()
	}
	if err := w.sender.err(); err != nil {
		return err
	}
	w.ended = w.ended || ev.Kind == element.End
	w.late = w.late[:0]
	for i := range w.outs { // nobody waits for it because another channel is slow
		if done, err := w.announce(i, ev); err != nil {
			return err
		} else if !done {
			w.late = append(w.late, i)
		}
	}
	for _, i := range w.late {
		for {
			if done, err := w.announce(i, ev); err != nil {
				return err
			} else if done {
				break
			}
			if err := w.wait(); err != nil {
				return err
			}
		}
	}
	return nil
}

// announce puts ev on one channel, unless another event is in its way.
func (w *Writer[T]) announce(i int, ev element.Event) (done bool, err error) {
	if w.outs[i].local != nil {
		return w.announceLocally(i, ev)
	}
	return w.announceInFrame(i, ev)
}

// replaces reports that ev directly behind old makes old superfluous.
func replaces(old, ev element.Event) bool {
	return ev.Kind == element.Watermark && (old.Kind == element.Watermark || old.Kind == element.Idle) ||
		ev.Kind == element.Idle && old.Kind == element.Idle
}

// handOver gives what the outlet holds to its channel, if there is room.
func (w *Writer[T]) handOver(o *outlet[T]) (done bool, err error) {
	if err := w.sender.err(); err != nil {
		return false, err
	}
	if o.local != nil {
		done = w.handOverBatch(o)
	} else {
		done, err = w.handOverFrame(o)
	}
	if done {
		o.filled, o.room = false, 0
		w.filled--
		w.stats.Buffers++
	}
	return done, err
}

// empty waits until what the outlet holds has gone.
func (w *Writer[T]) empty(o *outlet[T]) error {
	for o.filled {
		if done, err := w.handOver(o); err != nil || done {
			return err
		}
		if err := w.wait(); err != nil {
			return err
		}
	}
	return nil
}

// fill notes that the outlet holds something.
func (w *Writer[T]) fill(i int, o *outlet[T]) {
	if !o.filled {
		o.filled = true
		w.filled++
	}
	if !o.listed {
		o.listed = true
		w.dirty = append(w.dirty, i)
	}
}

// wait sleeps until something may have changed: there is room in a channel or a free buffer, a consumer has come or
// was lost.
func (w *Writer[T]) wait() error {
	if err := w.sender.err(); err != nil {
		return err
	}
	start := time.Now()
	defer func() { w.stats.Blocked += time.Since(start) }()
	select {
	case <-w.sender.wake:
		return w.sender.err()
	case <-w.cfg.Ctx.Done():
		return context.Cause(w.cfg.Ctx)
	}
}

// Close ends the writer. With a nil err, after End was broadcast, it waits (until Ctx ends) until every consumer has
// what was sent, and reports a consumer that was lost before. With another err, every consumer sees a loss.
func (w *Writer[T]) Close(err error) error {
	if invariant.Enabled {
		w.loop.Enter("Close")
		defer w.loop.Leave()
	}
	if w.closed {
		return nil
	}
	w.closed = true
	var result error
	switch {
	case err != nil:
	case !w.ended:
		err = errors.New("the producer was closed before its end")
	default:
		result = w.finish()
		err = result
	}
	reason := none
	if err != nil {
		reason = Failed
	}
	for i := range w.outs {
		if o := &w.outs[i]; o.local != nil {
			o.local.close(reason, err)
		} else {
			o.remote.close(reason, err)
		}
	}
	w.n.leave(meet.Producing, w.ends)
	w.n.memory.GiveBack(w.reserved)
	return result
}

// finish hands over everything and waits for the consumers in other processes to confirm the end.
func (w *Writer[T]) finish() error {
	if err := w.sender.err(); err != nil {
		return err
	}
	for i := range w.outs {
		if err := w.empty(&w.outs[i]); err != nil {
			return err
		}
	}
	for i := range w.outs {
		for o := w.outs[i].remote; o != nil && !o.delivered(); {
			if err := w.wait(); err != nil {
				return err
			}
		}
	}
	return nil
}
