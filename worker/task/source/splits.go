package source

import (
	"fmt"
	"time"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/worker/task/chain"
	"github.com/sluiceio/sluice/worker/task/fault"
)

// Assigned takes splits that the coordinator has assigned. They are committed there, and the answer to a request is the
// same however often it is given: what is known already is skipped.
func (h *head[T]) Assigned(a *taskpb.AssignSplits) error {
	known := h.before + h.have - int(a.Offset)
	if known < 0 {
		return nil // an answer to a request of ours is still under way, or is asked for again
	}
	if known > len(a.Splits) {
		return nil // overtaken by a newer one
	}
	fresh := a.Splits[known:]
	if len(fresh) == 0 && !a.End {
		return h.nothing()
	}
	now := h.rt.Now()
	h.asked, h.given = time.Time{}, now
	if len(fresh) > 0 {
		if err := h.rd.Assign(splitsOf(fresh)); err != nil {
			f := *fault.Of(fmt.Errorf("assign splits: %w", err), fault.CodeSource, h.rt.Task.Operator)
			f.Position = "split " + fresh[0].Id
			return &f
		}
		h.dry = false
	}
	for _, s := range fresh {
		h.add(s.Phase, now)
		h.ids = append(h.ids, s.Id)
		h.index = append(h.index, int32(h.before+h.have-1))
	}
	switch {
	case a.End:
		h.noMore = true
		h.marks.Finish(unassigned, element.MaxTime)
	case !h.bounded && h.have > 0 && h.lastPhase():
		h.marks.Rest(unassigned)
	}
	if !h.marking {
		h.silence()
	}
	return h.say() // a source that was idle is back before its records are
}

// nothing is there for this reader now. If it has nothing to read, its clock does not wait for what may come: whoever reads
// still holds that of all.
func (h *head[T]) nothing() error {
	if !h.bounded && (h.dry || h.have == 0) {
		h.marks.Rest(unassigned)
	}
	return h.say()
}

// enter notes that the splits of a phase are given out.
func (h *head[T]) enter(phase int32) {
	if phase <= h.phase {
		return
	}
	if h.phase = phase; h.lastPhase() {
		for _, t := range h.newest {
			h.past = max(h.past, t)
		}
	}
}

// add takes one more split into the clock. What is live goes on where the history that this reader has read has left it.
func (h *head[T]) add(phase int32, now time.Time) {
	h.enter(phase)
	if !h.lastPhase() {
		h.marks.Wake(unassigned)
	}
	newest := element.MinTime
	if h.marking && !h.bounded && h.phases > 1 && phase == h.phases-1 {
		newest = h.past
	}
	h.have++
	h.marks.Add()
	h.newest = append(h.newest, element.MinTime)
	if h.opts.Generator != nil {
		h.gens = append(h.gens, h.opts.Generator())
	}
	if h.marking {
		h.since, h.last, h.pace.held = append(h.since, h.ear.now(now)), append(h.last, time.Time{}), append(h.pace.held, false)
	}
	if newest > element.MinTime {
		h.promise(connector.SplitIndex(h.have-1), newest)
	}
}

// lastPhase: no split of another phase will come.
func (h *head[T]) lastPhase() bool { return h.phase >= h.phases-1 }

// silence makes a source without watermarks idle for event time.
func (h *head[T]) silence() {
	for i := range h.marks.Active() {
		h.marks.Rest(i)
	}
}

// ask requests splits, if they are wanted and that was not done a moment ago. It returns when to ask again; zero: when
// something has changed.
func (h *head[T]) ask(now time.Time) (next time.Time) {
	due := h.given // nothing to read
	switch {
	case h.noMore:
		return next
	case h.dry || h.have == 0:
		if h.finished != h.told {
			h.asked = time.Time{} // others may wait for splits of a later phase until it is known that these are read
		}
	case h.bounded && h.marking && h.have-h.finished == 1 && h.lastPhase():
		due = due.Add(AskAhead)
	default:
		return next
	}
	if !h.asked.IsZero() {
		due = h.asked.Add(AskAgain)
	}
	if due.After(now) {
		return due
	}
	h.asked, h.told = now, h.finished
	h.request(Request{Have: h.before + h.have, Read: h.before + h.finished})
	return now.Add(AskAgain)
}

// idles: splits without records leave the minimum after a while.
func (h *head[T]) idles() bool { return h.marking && !h.bounded && h.opts.IdleAfter > 0 }

// OnTime asks for splits and looks for idle ones.
func (h *head[T]) OnTime(now time.Time) (next time.Time, err error) {
	next = h.ask(now)
	if !h.poll.emptyFrom.IsZero() {
		next = chain.Earlier(next, h.poll.emptyFrom.Add(emptyPoll))
	}
	if h.idles() && h.lastPhase() { // what is bounded has only not ended yet
		next = chain.Earlier(next, h.restIdle(now))
	}
	return next, h.say()
}

// restIdle takes the inputs of the merger that have been silent for IdleAfter out of the minimum, and returns when the
// next one will be. What nobody listens to is not silent.
func (h *head[T]) restIdle(now time.Time) (next time.Time) {
	heard := h.ear.now(now)
	if h.start.IsZero() {
		h.start = heard
	}
	for i := range h.marks.Active() {
		since := h.start
		if i != unassigned {
			if h.pace.held[i-1] {
				continue
			}
			since = h.since[i-1]
		}
		due := since.Add(h.opts.IdleAfter)
		if due.After(heard) {
			next = chain.Earlier(next, now.Add(due.Sub(heard)))
			continue
		}
		h.marks.Rest(i)
	}
	return next
}

func splitsOf(in []*jobpb.Split) []connector.Split {
	out := make([]connector.Split, len(in))
	for i, s := range in {
		out[i] = connector.Split{ID: s.Id, Version: uint16(s.Version), Data: s.Data}
	}
	return out
}
