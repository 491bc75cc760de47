package ops

import (
	"context"
	"fmt"
	"math"
	"strings"
	"text/tabwriter"

	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// WatermarksOptions of Watermarks.
type WatermarksOptions struct {
	Job    string
	Detail Detail
}

// Watermarks shows where the event time of a job stands, and who holds it back.
func Watermarks(ctx context.Context, s *Session, o WatermarksOptions) error {
	var resp *apipb.WatermarksResponse
	err := s.Client.Do(ctx, func(ctx context.Context, to Coordinator) (err error) {
		resp, err = to.Jobs.Watermarks(ctx, &apipb.WatermarksRequest{Job: o.Job})
		return err
	})
	if err != nil {
		return err
	}
	return s.print(resp, func(w *tabwriter.Writer) { watermarksTable(w, resp, o.Detail) })
}

func watermarksTable(w *tabwriter.Writer, r *apipb.WatermarksResponse, detail Detail) {
	_, _ = fmt.Fprintf(w, "%s  %s", r.Id, enum(r.Status)) // a buffer, like below
	if r.NewestUs != math.MinInt64 {
		_, _ = fmt.Fprintf(w, "  newest event %s", instant(r.NewestUs))
	}
	_, _ = fmt.Fprintln(w)
	if len(r.Operators) > 0 {
		_, _ = fmt.Fprintln(w)
		operatorClocks(w, r)
	}
	if detail == Subtasks {
		subtaskClocks(w, r)
		splitClocks(w, r)
	}
	for _, b := range r.Blames {
		_, _ = fmt.Fprintln(w)
		blameLines(w, r, b)
	}
	note(w, r.Read)
}

// instant is an event time.
func instant(us int64) string {
	switch us {
	case math.MinInt64:
		return "-"
	case math.MaxInt64:
		return "end"
	case 0:
		return "1970-01-01T00:00:00.000Z"
	}
	return clock(us)
}

// lag is how far an event time is behind another one.
func lag(newest, at int64) string {
	if at == math.MinInt64 || newest == math.MinInt64 {
		return "-"
	}
	if at >= newest {
		return "0s"
	}
	if d := newest - at; d > 0 { // it is no difference of two times if it does not fit
		return spanUs(d)
	}
	return "-"
}

func operatorClocks(w *tabwriter.Writer, r *apipb.WatermarksResponse) {
	row(w, "OPERATORS", "SUBTASKS", "CLOCK", "WATERMARK", "BEHIND", "SPLITS")
	for _, o := range r.Operators {
		row(w, o.Operator, len(o.Subtasks), enum(o.State), instant(o.WatermarkUs), lag(r.NewestUs, o.WatermarkUs), splitCounts(o))
	}
}

// splitCounts is how many splits the readers of a source have, by state.
func splitCounts(o *apipb.OperatorClock) string {
	var active, idle, ended, paused int32
	source := false
	for _, t := range o.Subtasks {
		if s := t.Clock.GetSource(); s != nil {
			source = true
			active, idle, ended, paused = active+s.Active, idle+s.Idle, ended+s.Ended, paused+s.Paused
		}
	}
	if !source {
		return ""
	}
	text := fmt.Sprintf("%d active", active)
	for _, c := range []struct {
		n    int32
		what string
	}{{paused, "paused"}, {idle, "idle"}, {ended, "ended"}} {
		if c.n > 0 {
			text += fmt.Sprintf(", %d %s", c.n, c.what)
		}
	}
	return text
}

func subtaskClocks(w *tabwriter.Writer, r *apipb.WatermarksResponse) {
	_, _ = fmt.Fprintln(w) // a buffer
	row(w, "SUBTASK", "STATE", "CLOCK", "WATERMARK", "BEHIND", "INPUTS")
	for _, o := range r.Operators {
		for _, t := range o.Subtasks {
			state, at := "-", int64(math.MinInt64)
			if c := t.Clock; c != nil {
				state, at = "ACTIVE", c.WatermarkUs
				if c.Idle {
					state = "IDLE"
				}
			}
			row(w, fmt.Sprintf("%s[%d]", o.Operator, t.Index), enum(t.State), state, instant(at), lag(r.NewestUs, at), inputClocks(o, t.Clock))
		}
	}
}

// inputClocks says of each input what it has promised, and which channel holds it.
func inputClocks(o *apipb.OperatorClock, c *taskpb.Clock) string {
	var parts []string
	for i, in := range c.GetInputs() {
		name := fmt.Sprint(i)
		if i < len(o.Inputs) {
			name = o.Inputs[i]
		}
		if in.From >= 0 {
			name = fmt.Sprintf("%s[%d]", name, in.From)
		}
		text := name + " " + instant(in.WatermarkUs)
		if in.State != taskpb.ClockState_CLOCK_ACTIVE {
			text = name + " " + strings.ToLower(enum(in.State))
		}
		if in.IdleChannels > 0 && in.State == taskpb.ClockState_CLOCK_ACTIVE {
			text += fmt.Sprintf(" (%d of %d idle)", in.IdleChannels, in.Channels)
		}
		parts = append(parts, text)
	}
	for _, h := range c.GetHeld() {
		parts = append(parts, h.Operator+" passes on "+instant(h.WatermarkUs))
	}
	return strings.Join(parts, ", ")
}

func splitClocks(w *tabwriter.Writer, r *apipb.WatermarksResponse) {
	begun := false
	for _, o := range r.Operators {
		for _, t := range o.Subtasks {
			s := t.Clock.GetSource()
			for _, x := range s.GetSplits() {
				if !begun {
					_, _ = fmt.Fprintln(w) // a buffer
					row(w, "SPLIT", "CLOCK", "WATERMARK", "BEHIND", "LAST RECORD")
					begun = true
				}
				last := "none"
				if x.RecordUs != 0 {
					last = spanUs(t.Clock.ReadUs-x.RecordUs) + " ago"
				}
				row(w, fmt.Sprintf("%s[%d] %s", o.Operator, t.Index, x.Id), enum(x.State), instant(x.WatermarkUs), lag(r.NewestUs, x.WatermarkUs), last)
			}
			if n := s.GetActive() + s.GetIdle() - int32(len(s.GetSplits())); n > 0 {
				row(w, fmt.Sprintf("%s[%d]", o.Operator, t.Index), fmt.Sprintf("%d more", n), "", "", "")
			}
		}
	}
}

func blameLines(w *tabwriter.Writer, r *apipb.WatermarksResponse, b *apipb.Blame) {
	for i, s := range b.Steps {
		text := fmt.Sprintf("%s[%d] is at %s", s.Operator, s.Index, instant(s.WatermarkUs))
		if i == 0 {
			if l := lag(r.NewestUs, s.WatermarkUs); l != "-" && s.WatermarkUs != math.MaxInt64 {
				text += ", " + l + " behind the newest event"
			}
		} else {
			text = "  " + text
		}
		if s.Input != "" {
			text += fmt.Sprintf(", waits for %s[%d]", s.Input, s.From)
		}
		_, _ = fmt.Fprintln(w, text) // a buffer, like below
	}
	cause, fix := causeOf(r, b)
	_, _ = fmt.Fprintln(w, "  "+cause)
	if fix != "" {
		_, _ = fmt.Fprintln(w, "  fix: "+fix)
	}
}

// causeOf says who holds the clock, and what can be done about it.
func causeOf(r *apipb.WatermarksResponse, b *apipb.Blame) (cause, fix string) {
	switch b.Cause {
	case apipb.BlameCause_BLAME_SPLIT_SILENT:
		return silentSplit(b)
	case apipb.BlameCause_BLAME_SPLIT_BEHIND:
		return behindSplit(r, b)
	case apipb.BlameCause_BLAME_AWAITS_SPLITS:
		if b.Bounded {
			return fmt.Sprintf("held by source %s: it may still get a split, which may hold the oldest record of all", b.Operator), ""
		}
		return fmt.Sprintf("held by source %s: a reader has no split yet", b.Operator), ""
	case apipb.BlameCause_BLAME_OPERATOR:
		return fmt.Sprintf("held by operator %s: it has not done yet what it was asked for before the watermark", b.Operator),
			"more calls at a time (flow.InFlight), a timeout, or more subtasks"
	case apipb.BlameCause_BLAME_BACKLOG:
		return fmt.Sprintf("held by operator %s: what lies in front of the watermark is still to be processed", b.Operator),
			"more subtasks; sluice status " + r.Id + " shows who is busy"
	case apipb.BlameCause_BLAME_STORED:
		return fmt.Sprintf("held by the stored result of %s: its records are read before its watermarks", b.Operator), ""
	case apipb.BlameCause_BLAME_NOT_RUNNING:
		return fmt.Sprintf("held by operator %s: the subtask is %s", b.Operator, enum(b.State)), "sluice status " + r.Id + " shows what the job waits for"
	case apipb.BlameCause_BLAME_IDLE:
		return "every input is idle: time stands still until one has a record", ""
	case apipb.BlameCause_BLAME_NO_TIME:
		return fmt.Sprintf("source %s makes no watermarks before its end", b.Operator), "give it flow.EventTime if windows or timers need its time"
	case apipb.BlameCause_BLAME_ENDED:
		return "nothing holds it: the input has ended", ""
	}
	if b.Operator == "" {
		return "nothing is known of it yet", ""
	}
	return fmt.Sprintf("operator %s has not told yet where it stands", b.Operator), ""
}

func silentSplit(b *apipb.Blame) (cause, fix string) {
	since := "it has had no record"
	if b.SilentUs >= 0 {
		since = "no record since " + spanUs(b.SilentUs)
	}
	cause = fmt.Sprintf("held by source %s, split %s: %s", b.Operator, b.Split.GetId(), since)
	switch {
	case b.Bounded:
		return cause + "; a bounded source is never idle", ""
	case b.IdleAfterUs == 0:
		return cause + "; idle after: not set", "set flow.IdleAfter, so that a split without records does not hold the others"
	}
	return cause + "; idle after " + spanUs(b.IdleAfterUs), ""
}

func behindSplit(r *apipb.WatermarksResponse, b *apipb.Blame) (cause, fix string) {
	newest := b.Split.GetNewestUs()
	if b.Split.GetState() == taskpb.ClockState_CLOCK_PAUSED {
		return fmt.Sprintf("held by source %s, split %s: it waits for its alignment group, as far as its process has heard of that", b.Operator, b.Split.GetId()),
			"a larger drift (flow.Align), if it waits often"
	}
	cause = fmt.Sprintf("held by source %s, split %s: its newest event is %s", b.Operator, b.Split.GetId(), instant(newest))
	if newest != math.MinInt64 && newest < r.NewestUs {
		return cause + fmt.Sprintf(", %s behind that of the fastest", lag(r.NewestUs, newest)),
			"if windows grow meanwhile, let the fast ones wait: flow.Align"
	}
	return cause, ""
}
