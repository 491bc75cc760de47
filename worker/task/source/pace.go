package source

import (
	"slices"
	"time"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/task/align"
	"github.com/sluiceio/sluice/worker/task/mark"
)

// pace keeps the splits of one reader with their alignment group.
//
// A split counts in its group as soon as it has a watermark and is active; one that is held counts, too. A split that is
// further ahead than the drift is held: its reader leaves it alone if it can (connector.Pauser), else the whole reader waits
// when all of its splits are ahead. The split at which the group stands is never ahead, so whoever is the furthest behind
// reads, and nobody waits for one that is idle or has ended. Held splits do not become idle.
type pace struct {
	member *align.Member // nil: there is no group
	held   []bool        // by split
	group  element.Time  // where the group stood last; MaxTime: nobody holds it
	pauser connector.Pauser
	paused []connector.SplitIndex // that the reader was told of
	told   bool                   // that the reader cannot pause single splits
}

// together joins the group of the source.
func (h *head[T]) together(groups *align.Groups) {
	if groups == nil || h.opts.Group == "" || !h.marking {
		return
	}
	h.pace.group = element.MaxTime
	h.pace.pauser, _ = h.rd.(connector.Pauser)
	h.pace.member = groups.Join(h.opts.Group, h.mail.Tick)
}

func (h *head[T]) leave() {
	if h.pace.member != nil {
		h.pace.member.Leave()
	}
}

// place tells the group where the splits stand.
func (h *head[T]) place() {
	if h.pace.member == nil {
		return
	}
	at := element.MaxTime
	for i := range h.have {
		if t, state := h.marks.At(1 + i); state == mark.Active && t > element.MinTime {
			at = min(at, t)
		}
	}
	h.pace.group = h.pace.member.Stand(at)
}

// ahead holds the splits that are ahead of their group, and lets go those that are not any more. It reports whether there is
// nothing to poll before the group has moved: it wakes the loop then.
func (h *head[T]) ahead() bool {
	for {
		h.place()
		least := h.judge()
		wait := h.hold()
		if least == element.MaxTime {
			return false
		}
		again, waits := h.pace.member.Wait(earlier(least, h.opts.MaxDrift))
		if waits {
			h.rt.Alarm(again)
			return wait
		}
	}
}

// judge finds the splits that are ahead; least is the lowest watermark among them, MaxTime if there are none.
func (h *head[T]) judge() (least element.Time) {
	least = element.MaxTime
	limit := later(h.pace.group, h.opts.MaxDrift)
	for i := range h.have {
		at, state := h.marks.At(1 + i)
		held := state == mark.Active && at > limit
		if held {
			least = min(least, at)
		}
		h.setHeld(i, held)
	}
	return least
}

func (h *head[T]) setHeld(i int, held bool) {
	if h.pace.held[i] && !held {
		h.since[i] = h.ear.now(h.rt.Now()) // nobody has listened to it meanwhile
	}
	h.pace.held[i] = held
}

// hold has the reader leave the held splits alone. It reports whether nothing is left to read.
func (h *head[T]) hold() (wait bool) {
	p := &h.pace
	var held []connector.SplitIndex
	reads, free := false, false // a split with a watermark may be read; any may
	for i := range h.have {
		at, state := h.marks.At(1 + i)
		switch {
		case state == mark.Ended:
		case p.held[i]:
			held = append(held, connector.SplitIndex(i))
		default:
			free, reads = true, reads || state == mark.Active && at > element.MinTime
		}
	}
	if p.pauser != nil {
		if slices.Equal(held, p.paused) || p.pauser.Pause(held) {
			p.paused = held
			return len(held) > 0 && !free
		}
		p.pauser = nil
	}
	wait = len(held) > 0 && !reads
	if len(held) > 0 && reads && !p.told {
		p.told = true
		h.rt.Task.Log.Warn("the source cannot pause one of several splits: they are aligned with other readers, not with each other", "group", h.opts.Group)
	}
	for i := range h.have {
		_, state := h.marks.At(1 + i)
		h.setHeld(i, wait && state != mark.Ended)
	}
	return wait
}

// later is t and d after it, MaxTime if there is no such time.
func later(t element.Time, d time.Duration) element.Time {
	if us := element.Time(d.Microseconds()); t < element.MaxTime-us {
		return t + us
	}
	return element.MaxTime
}

// earlier is t and d before it, MinTime if there is no such time.
func earlier(t element.Time, d time.Duration) element.Time {
	if us := element.Time(d.Microseconds()); t > element.MinTime+us {
		return t - us
	}
	return element.MinTime
}
