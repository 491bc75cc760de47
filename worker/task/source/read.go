package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/task/chain"
	"github.com/sluiceio/sluice/worker/task/fault"
	"github.com/sluiceio/sluice/worker/task/reject"
)

// Step polls the reader and delivers what it has read.
func (h *head[T]) Step(limit int) (chain.Progress, error) {
	h.place()
	if h.drained {
		return h.end(chain.Progress{})
	}
	if h.waiting() {
		return chain.Progress{State: chain.Starved}, nil // what is wanted is asked for before the loop sleeps
	}
	if h.pace.member != nil && h.ahead() {
		h.ear.close(h.rt.Now())
		h.poll.emptyFrom = time.Time{} // it sleeps until it is woken, however long ago the last poll was
		return chain.Progress{State: chain.Starved}, nil
	}
	h.renewPoll()
	if h.mail.Pending() { // it came before the poll could be interrupted by it
		return chain.Progress{State: chain.Working}, nil
	}
	h.recs.Reset()
	h.recs.Max = limit
	h.at = -1
	from := h.rt.Now()
	h.ear.open(from)
	err := h.pollOnce()
	now := h.rt.Now()
	n := len(h.recs.Vals)
	if n > 0 {
		h.ear.close(now) // until the next poll, whatever takes so long meanwhile
	}
	p := chain.Progress{Records: n, Empty: n == 0}
	if took := now.Sub(from); n == 0 || n < limit && took >= chain.StepTime {
		p.Waited = took // a reader that has more at hand fills the batch, or does not take so long for less
	}
	eof := errors.Is(err, io.EOF)
	if err != nil && !eof {
		return p, err
	}
	h.poll.emptyFrom = time.Time{}
	if n == 0 && len(h.recs.Errors) == 0 && len(h.recs.Done) == 0 && !eof && h.poll.ctx.Err() == nil {
		h.poll.emptyFrom = now
		p.State = chain.Starved
	}
	if err := h.deliver(now, eof); err != nil {
		return p, err
	}
	h.place()
	if h.dry && h.noMore {
		return h.end(p)
	}
	return p, nil
}

// end says that nothing follows.
func (h *head[T]) end(p chain.Progress) (chain.Progress, error) {
	h.leave()
	p.State = chain.Ended
	if err := h.catchUp(); err != nil {
		return p, err
	}
	return p, h.chain.Control(element.Event{Kind: element.End, Time: element.MaxTime})
}

// Drain ends the input where it is: the job stops, and time comes to its end.
func (h *head[T]) Drain() { h.drained = true }

// catchUp lets time come to the newest record before it ends: where it stood before is for batches and the clock to say.
func (h *head[T]) catchUp() error {
	newest := h.marks.Newest()
	for _, t := range h.newest {
		newest = max(newest, min(t, lastPromise))
	}
	if said, _ := h.marks.Said(); newest <= said {
		return nil
	}
	return h.chain.Control(element.Event{Kind: element.Watermark, Time: newest})
}

// lastPromise is the largest watermark that does not end time: element.MaxTime is said by the end of the input alone.
const lastPromise = element.MaxTime - 1

// waiting: there is nothing to poll, or not yet.
func (h *head[T]) waiting() bool {
	if h.gate != nil {
		if !h.gate() {
			h.ear.close(h.rt.Now())
			return true
		}
		h.gate = nil
	}
	return !h.noMore && (h.dry || h.have == 0) || !h.poll.emptyFrom.IsZero() && h.rt.Now().Sub(h.poll.emptyFrom) < emptyPoll
}

// pollOnce polls the reader. That a letter has ended the poll is no error.
func (h *head[T]) pollOnce() error {
	err := h.rd.Poll(h.poll.ctx, &h.recs)
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	if h.opts.OnError.Retries > 0 && h.poll.ctx.Err() == nil {
		err = h.pollAgain(err)
		if err == nil || errors.Is(err, io.EOF) {
			return err
		}
	}
	if h.poll.ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(h.poll.ctx))) {
		return h.rt.Ctx.Err()
	}
	return fault.Of(fmt.Errorf("poll: %w", err), fault.CodeSource, h.rt.Task.Operator)
}

// pollAgain polls as often as the error policy says. What the reader has added before it failed stays.
func (h *head[T]) pollAgain(err error) error {
	var end error
	err = h.opts.OnError.Again(h.rt, err, func() error {
		err := h.rd.Poll(h.poll.ctx, &h.recs)
		if errors.Is(err, io.EOF) || err != nil && h.poll.ctx.Err() != nil {
			end, err = err, nil // no failure
		}
		return err
	})
	return cmp.Or(err, end)
}

// renewPoll replaces the context of polls after a letter has ended it.
func (h *head[T]) renewPoll() {
	if h.poll.ctx != nil && h.poll.ctx.Err() == nil {
		return
	}
	h.poll.ctx, h.poll.cancel = context.WithCancel(h.rt.Ctx)
	h.mail.OnLetter(h.poll.cancel)
}

// deliver pushes what a poll has read, and then what follows from it: bad records, finished splits (with eof all of
// them), the watermark.
func (h *head[T]) deliver(now time.Time, eof bool) error {
	if len(h.recs.Vals) > 0 {
		h.count += int64(len(h.recs.Vals))
		if err := h.wake(); err != nil {
			return err
		}
		h.stamp(now)
		h.place() // before consumers can keep it waiting
		if h.perRecord {
			if err := h.pushMarked(); err != nil {
				return err
			}
		} else {
			h.pushAll()
		}
	}
	for i := range h.recs.Errors {
		if err := h.recordError(&h.recs.Errors[i]); err != nil {
			return err
		}
	}
	if err := h.promised(now); err != nil {
		return err
	}
	if len(h.recs.Done) > 0 || eof {
		return h.finish(now, eof)
	}
	if now.Sub(h.marked) < MarkEvery && !h.dry {
		return nil
	}
	h.marked = now
	return h.say()
}

// promised takes over what the source itself has promised.
func (h *head[T]) promised(now time.Time) error {
	if len(h.recs.Marks) == 0 {
		return nil
	}
	for _, m := range h.recs.Marks {
		if m.Split < 0 || int(m.Split) >= h.have {
			return fmt.Errorf("the reader promised a time for split %d of %d", m.Split, h.have)
		}
		h.marks.Set(1+int(m.Split), min(m.At, lastPromise))
	}
	h.marked = now
	return h.say()
}

// finish takes the splits that the poll has finished out of the minimum: not before their last promise was passed on,
// or a source whose splits are read in one go each would never move the clock.
func (h *head[T]) finish(now time.Time, eof bool) error {
	h.marked = now
	if eof {
		h.dry = true
	}
	if h.dry && h.noMore {
		return nil // the end of the source says it all
	}
	if err := h.say(); err != nil {
		return err
	}
	for _, s := range h.recs.Done {
		if s < 0 || int(s) >= h.have {
			return fmt.Errorf("the reader finished split %d of %d", s, h.have)
		}
		h.marks.Finish(1+int(s), element.MaxTime)
	}
	h.finished += len(h.recs.Done)
	if eof {
		h.finished = h.have
		for ; h.ended < h.have; h.ended++ { // the reader need not name each of them
			h.marks.Finish(1+h.ended, element.MaxTime)
		}
	} else {
		h.rt.Alarm(h.ask(now))
	}
	return h.say()
}

// wake takes splits that were idle and have records into the minimum, and says so before these come.
func (h *head[T]) wake() error {
	if !h.idles() {
		return nil
	}
	woken := false
	for i, s := range h.recs.Splits {
		if i == 0 || s != h.recs.Splits[i-1] {
			woken = h.marks.Wake(1+int(s)) || woken
		}
	}
	if !woken {
		return nil
	}
	return h.say()
}

// stamp sets the event times of the batch and keeps the largest of each split.
func (h *head[T]) stamp(now time.Time) {
	times := h.recs.Times
	if f := h.opts.EventTime; f != nil {
		for i := range times {
			h.at = i
			times[i] = f(h.recs.Vals[i])
		}
	} else if h.opts.Times == FromClock {
		at := element.At(now)
		for i := range times {
			times[i] = at
		}
	}
	if h.marking && !h.perRecord {
		h.observe(now)
	}
}

// observe takes the times of the batch into the watermarks of their splits.
func (h *head[T]) observe(now time.Time) {
	times, splits := h.recs.Times, h.recs.Splits
	for i := 0; i < len(times); {
		s := splits[i]
		newest := h.newest[s]
		for ; i < len(times) && splits[i] == s; i++ {
			newest = max(newest, times[i])
			if h.gens != nil {
				h.at = i
				h.gens[s].OnRecord(h.recs.Vals[i], times[i])
			}
		}
		h.promise(s, newest)
		h.since[s], h.last[s] = h.ear.now(now), now
	}
}

// promise sets the watermark of split s after a record of time t: what its generator says, or that none at or below t less
// the allowed disorder follows. Times are whole microseconds.
func (h *head[T]) promise(s connector.SplitIndex, t element.Time) {
	h.newest[s] = max(h.newest[s], t)
	if h.gens != nil {
		h.marks.Set(1+int(s), min(h.gens[s].Watermark(), lastPromise))
		return
	}
	w := h.newest[s]
	if d := element.Time(h.opts.OutOfOrder.Microseconds()) + 1; w >= element.MinTime+d {
		h.marks.Set(1+int(s), w-d)
	}
}

func (h *head[T]) pushAll() {
	vals, times := h.recs.Vals, h.recs.Times
	times = times[:len(vals)]
	cur, push := h.rt.Cursor, h.push
	for i := range vals {
		h.at = i
		cur.At = times[i]
		push(vals[i])
	}
}

// pushMarked is pushAll with a watermark after each record that moves it.
func (h *head[T]) pushMarked() error {
	now := h.rt.Now()
	for i, v := range h.recs.Vals {
		h.at = i
		h.rt.At = h.recs.Times[i]
		s := h.recs.Splits[i]
		if h.gens != nil {
			h.gens[s].OnRecord(v, h.rt.At)
		}
		h.push(v)
		h.promise(s, h.recs.Times[i])
		h.since[s], h.last[s] = h.ear.now(now), now
		if err := h.say(); err != nil {
			return err
		}
	}
	return nil
}

// say passes on what the merged watermark has to say.
func (h *head[T]) say() error {
	if ev, ok := h.marks.Next(); ok && ev.Kind != element.End {
		return h.chain.Control(ev)
	}
	return nil
}

func (h *head[T]) recordError(e *connector.RecordError) error {
	err := fmt.Errorf("record cannot be read: %w", e.Err)
	position := h.describe(e.Split, e.Pos)
	if h.opts.OnError.Action != reject.Fail && !connector.IsFatal(err) {
		h.failed(e.Raw, err, position)
		return h.rt.Err()
	}
	f := *fault.Of(err, fault.CodeRecord, h.rt.Task.Operator)
	f.Position = position
	return &f
}

// Position is that of the record in flight.
func (h *head[T]) Position() string {
	if h.at < 0 || h.at >= len(h.recs.Splits) {
		return ""
	}
	return h.describe(h.recs.Splits[h.at], h.recs.Pos[h.at])
}

// describe asks the reader, which may be the one that has just panicked.
func (h *head[T]) describe(s connector.SplitIndex, pos int64) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("position %d of split %d", pos, s)
		}
	}()
	return h.rd.Describe(s, pos)
}

// Received counts records.
func (h *head[T]) Received() chain.Received { return chain.Received{Records: h.count} }

// Close closes the reader.
func (h *head[T]) Close(error) error {
	h.leave()
	h.mail.OnLetter(nil)
	if h.poll.cancel != nil {
		h.poll.cancel()
	}
	if err := fault.Protect(h.rd.Close); err != nil {
		return fmt.Errorf("close source: %w", err)
	}
	return nil
}
