package task

import (
	"fmt"
	"time"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/worker/task/fault"
)

// assigned takes splits that the coordinator has assigned. They are committed there, and the answer to a request is the
// same however often it is given: what is known already is skipped.
func (h *sourceHead[T]) assigned(a *taskpb.AssignSplits) error {
	known := h.have - int(a.Offset)
	if known < 0 {
		return nil // an answer to a request of ours is still under way, or is asked for again
	}
	if known > len(a.Splits) {
		return nil // overtaken by a newer one
	}
	fresh := a.Splits[known:]
	if len(fresh) == 0 && !a.End {
		return nil
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
	for range fresh {
		h.have++
		h.marks.Add()
		h.newest = append(h.newest, element.MinTime)
		if h.idles() {
			h.active = append(h.active, now)
		}
	}
	switch {
	case a.End:
		h.noMore = true
		h.marks.Finish(unassigned, element.MaxTime)
	case !h.bounded && h.have > 0:
		h.marks.Rest(unassigned)
	}
	if !h.marking {
		h.silence()
	}
	return nil
}

// silence makes a source without watermarks idle for event time.
func (h *sourceHead[T]) silence() {
	for i := range h.marks.Active() {
		h.marks.Rest(i)
	}
}

// ask requests splits, if they are wanted and that was not done a moment ago. It returns when to ask again; zero: when
// something has changed.
func (h *sourceHead[T]) ask(now time.Time) (next time.Time) {
	due := h.given // nothing to read
	switch {
	case h.noMore:
		return next
	case h.dry || h.have == 0:
	case h.bounded && h.marking && h.have-h.finished == 1:
		due = due.Add(askAhead)
	default:
		return next
	}
	if !h.asked.IsZero() {
		due = h.asked.Add(askAgain)
	}
	if due.After(now) {
		return due
	}
	h.asked = now
	h.request(h.have)
	return now.Add(askAgain)
}

// idles: splits without records leave the minimum after a while.
func (h *sourceHead[T]) idles() bool { return h.marking && !h.bounded && h.opts.IdleAfter > 0 }

func (h *sourceHead[T]) onTime(now time.Time) (next time.Time, err error) {
	next = h.ask(now)
	if !h.poll.emptyFrom.IsZero() {
		next = earlier(next, h.poll.emptyFrom.Add(emptyPoll))
	}
	if h.idles() {
		next = earlier(next, h.restIdle(now))
	}
	return next, h.say()
}

// restIdle takes the inputs of the merger that have been silent for IdleAfter out of the minimum, and returns when the
// next one will be.
func (h *sourceHead[T]) restIdle(now time.Time) (next time.Time) {
	if h.start.IsZero() {
		h.start = now
	}
	for i := range h.marks.Active() {
		since := h.start
		if i != unassigned {
			since = h.active[i-1]
		}
		due := since.Add(h.opts.IdleAfter)
		if due.After(now) {
			next = earlier(next, due)
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

// requestSplits asks the coordinator for splits of source op, through the host.
func (a *attempt) requestSplits(op int32) func(have int) {
	return func(have int) {
		a.proc.cfg.Host.RequestSplits(&taskpb.SplitRequest{
			Operator: op, Chain: a.sub.Chain, Index: a.sub.Index, Attempt: a.sub.Attempt,
			Region: a.sub.Region, RegionEpoch: a.sub.RegionEpoch, Have: int32(have),
		})
	}
}
