package task

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// clocks asks twice, when nothing moves any more: an answer is that to the question before.
func clocks(c *cluster) (text []string) {
	synctest.Wait()
	c.proc.Sample()
	synctest.Wait()
	for _, k := range c.proc.Sample().Clocks {
		line := fmt.Sprintf("%d[%d]#%d %s idle=%t", k.Chain, k.Index, k.Attempt, at(k.WatermarkUs), k.Idle)
		for _, in := range k.Inputs {
			line += fmt.Sprintf(" | %s %s from %d (%d/%d/%d)", state(in.State), at(in.WatermarkUs), in.From, in.Channels, in.IdleChannels, in.EndedChannels)
		}
		if s := k.Source; s != nil {
			line += fmt.Sprintf(" | newest %s idle after %ds awaits=%t (%d/%d/%d/%d)", at(s.NewestUs), s.IdleAfterUs/1e6, s.Awaits, s.Active, s.Idle, s.Ended, s.Paused)
			for _, x := range s.Splits {
				silent := "never"
				if x.RecordUs != 0 {
					silent = time.Duration(1000 * (k.ReadUs - x.RecordUs)).Round(time.Second).String()
				}
				line += fmt.Sprintf(" | %s %s %s silent %s", x.Id, state(x.State), at(x.WatermarkUs), silent)
			}
		}
		for _, x := range k.Held {
			line += fmt.Sprintf(" | %s holds %s", x.Operator, at(x.WatermarkUs))
		}
		text = append(text, line)
	}
	return text
}

func state(s taskpb.ClockState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "CLOCK_"))
}

func at(us int64) string {
	switch us {
	case -1 << 63:
		return "-∞"
	case 1<<63 - 1:
		return "∞"
	}
	return fmt.Sprint(us)
}

// feed hands records to a live source one by one, each in a batch of its own.
func (l *live) give(rs ...record) {
	for _, r := range rs {
		l.feed <- r
		<-time.After(2 * time.Millisecond)
	}
	synctest.Wait()
}

// What sluice watermarks shows: which split, and which channel, holds the clock of each subtask.
func TestASampleTellsWhoHoldsTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &live{counted: counted[int]{n: 2, splits: 2, endless: true}, feed: make(chan record)}
		b := &live{counted: counted[int]{n: 1, endless: true}, feed: make(chan record)}
		j := newJob(t)
		x := func(src *live, idle time.Duration) SourceHead {
			return NewSource[int](src, SourceOptions[int]{Watermarks: WatermarksBounded, IdleAfter: idle})
		}
		in := end{from: j.source("a", 1, x(a, time.Minute)), by: jobpb.Partitioner_PARTITIONER_REBALANCE, x: NewExchange(mustCodec[int](t)), st: mapped(func(v int) int { return v })}
		also := end{from: j.source("b", 1, x(b, 0)), by: in.by, x: in.x, st: in.st}
		j.join("both", 1, in, also)
		c := start(t, j)
		c.host.all = true
		deploy(t, c, j.deployment(1, 1))
		c.awaitRunning(3)
		step := func(what string, want ...string) {
			t.Helper()
			got := clocks(c)
			if strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("%s\n got %q\nwant %q", what, got, want)
			}
		}
		step("at the beginning",
			"0[0]#1 -∞ idle=false | newest -∞ idle after 60s awaits=false (2/0/0/0) | 0 active -∞ silent never | 1 active -∞ silent never",
			"1[0]#1 -∞ idle=false | newest -∞ idle after 0s awaits=false (1/0/0/0) | 0 active -∞ silent never",
			"2[0]#1 -∞ idle=false | active -∞ from 0 (1/0/0) | active -∞ from 0 (1/0/0)")
		a.give(record{split: 1, v: 1, at: 200}, record{split: 0, v: 1, at: 100})
		b.give(record{v: 1, at: 150})
		<-time.After(12 * time.Second)
		step("with records",
			"0[0]#1 99 idle=false | newest 200 idle after 60s awaits=false (2/0/0/0) | 0 active 99 silent 12s | 1 active 199 silent 12s",
			"1[0]#1 149 idle=false | newest 150 idle after 0s awaits=false (1/0/0/0) | 0 active 149 silent 12s",
			"2[0]#1 99 idle=false | active 99 from 0 (1/0/0) | active 149 from 0 (1/0/0)")
		<-time.After(50 * time.Second)
		step("when a is idle",
			"0[0]#1 99 idle=true | newest 200 idle after 60s awaits=false (0/2/0/0) | 0 idle 99 silent 1m2s | 1 idle 199 silent 1m2s",
			"1[0]#1 149 idle=false | newest 150 idle after 0s awaits=false (1/0/0/0) | 0 active 149 silent 1m2s",
			"2[0]#1 149 idle=false | idle 99 from -1 (1/1/0) | active 149 from 0 (1/0/0)")
	})
}

// What an attempt has said of time while it ran says nothing once it has ended: its counters do.
func TestAnAttemptThatHasEndedTellsNoClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJob(t)
		j.then(j.source("src", 1, NewSource(ints(100), SourceOptions[int]{})), "out", NewSink(&collected[int]{}))
		c := start(t, j)
		deploy(t, c, j.deployment(1, 1))
		c.await(1)
		if got := clocks(c); len(got) > 0 {
			t.Errorf("%q", got)
		}
	})
}
