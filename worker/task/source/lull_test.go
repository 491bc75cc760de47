package source

import (
	"context"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/worker/task/chain"
	"github.com/sluiceio/sluice/worker/task/mark"
)

// staged is a source whose reader delivers at each poll what was put on its table.
type staged struct {
	endless bool
	table   func(out *connector.Records[int]) error
}

func (s *staged) Bounded() bool { return !s.endless }

func (s *staged) OpenEnumerator(context.Context, int, []byte) (connector.Enumerator, error) {
	return nil, io.ErrUnexpectedEOF // nobody asks for it here
}

func (s *staged) OpenReader(context.Context, *connector.Task) (connector.Reader[int], error) {
	return &stagedReader{src: s}, nil
}

type stagedReader struct {
	numbersReader
	src *staged
}

func (r *stagedReader) Assign([]connector.Split) error { return nil }

func (r *stagedReader) Poll(_ context.Context, out *connector.Records[int]) error {
	deliver := r.src.table
	r.src.table = nil
	if deliver == nil {
		return nil
	}
	return deliver(out)
}

// following is a generator that promises what bounded disorder of zero promises.
type following struct{ newest element.Time }

func (g *following) OnRecord(_ int, at element.Time) { g.newest = max(g.newest, at) }

func (g *following) Watermark() element.Time {
	if g.newest == element.MinTime {
		return element.MinTime
	}
	return g.newest - 1
}

// lane is a split as the model sees it.
type lane struct {
	newest element.Time
	heard  time.Time // of its last record, and until there is one when it was given
	idle   bool
	done   bool
	rested bool // it has been idle at some time, or has come when the clock had moved: others did not wait for it
}

// silence is a source with splits that come, pause, return and end, and the model of its clock.
type silence struct {
	t     *rapid.T
	now   time.Time
	src   *staged
	h     *head[int]
	lanes []*lane
	all   bool // no more splits will come

	clock element.Time // that the model has
	idle  bool
	heard []element.Event
	at    element.Time // that was heard of last
	rests bool         // idleness was heard of last
}

const patience = time.Minute // IdleAfter

// hear judges what is said downstream by itself.
func (s *silence) hear(ev element.Event) {
	s.heard = append(s.heard, ev)
	switch ev.Kind {
	case element.Watermark:
		if ev.Time < s.at || ev.Time == s.at && !s.rests {
			s.t.Fatalf("watermark %v after %v", ev.Time, s.at)
		}
		s.at, s.rests = ev.Time, false
	case element.Idle:
		if s.rests {
			s.t.Fatal("idle twice")
		}
		s.rests = true
	}
}

// silenceOutlet is what is behind the source.
type silenceOutlet struct {
	heardOutlet
	s *silence
}

func (o *silenceOutlet) Broadcast(ev element.Event) error { o.s.hear(ev); return nil }

func newSilence(t *rapid.T, outer *testing.T) *silence {
	s := &silence{t: t, now: time.Unix(1000, 0), clock: element.MinTime, at: element.MinTime}
	s.src = &staged{endless: rapid.IntRange(0, 3).Draw(t, "endless") > 0}
	o := Options[int]{Watermarks: WatermarksBounded, IdleAfter: patience}
	switch rapid.IntRange(0, 2).Draw(t, "watermarks") {
	case 1:
		o.Watermarks = WatermarksPerRecord
	case 2:
		o.Generator = func() Generator[int] { return &following{newest: element.MinTime} }
	}
	s.h, _ = driven(outer, s.src, o, func(c *Config) {
		c.Runtime.Now = func() time.Time { return s.now }
		c.Runtime.Observe(nil, func(time.Time) {})
		c.Chain = chain.New(c.Runtime.Ctx, c.Runtime.Cursor, []chain.Node{{ID: "out", Outlet: &silenceOutlet{s: s}, Size: 1}}, -1)
	})
	s.h.push = s.arrive
	s.give(rapid.IntRange(1, 3).Draw(t, "splits at the start"))
	return s
}

// arrive judges record v, which is the number of its split.
func (s *silence) arrive(v int) {
	l := s.lanes[v]
	if s.rests {
		s.t.Fatalf("a record of split %d after idleness that nobody ended", v)
	}
	if !l.rested && s.h.rt.At <= s.at {
		s.t.Fatalf("a record of split %d at %v, although it was waited for and %v was promised", v, s.h.rt.At, s.at)
	}
}

// give assigns n more splits; n = 0: there are no more.
func (s *silence) give(n int) {
	if s.all {
		return
	}
	a := &taskpb.AssignSplits{Offset: int32(len(s.lanes)), End: n == 0}
	for range n {
		a.Splits = append(a.Splits, &jobpb.Split{Id: fmt.Sprint(len(s.lanes))})
		s.lanes = append(s.lanes, &lane{newest: element.MinTime, heard: s.now, rested: s.clock > element.MinTime})
	}
	s.all = n == 0
	if err := s.h.Assigned(a); err != nil {
		s.t.Fatal(err)
	}
	s.say()
}

// deliver reads a batch with records of some splits, and perhaps the end of one of them.
func (s *silence) deliver() {
	var records []int
	for i, l := range s.lanes {
		if !l.done && rapid.Bool().Draw(s.t, fmt.Sprint("a record of ", i)) {
			records = append(records, i)
		}
	}
	ends := rapid.IntRange(0, 4*len(s.lanes)).Draw(s.t, "ends")
	finishes := ends < len(s.lanes) && !s.lanes[ends].done
	var times []element.Time
	for _, i := range records {
		times = append(times, max(s.lanes[i].newest, 1)+element.Time(rapid.IntRange(0, 10).Draw(s.t, "step")))
	}
	s.src.table = func(out *connector.Records[int]) error {
		for k, i := range records {
			out.Add(connector.SplitIndex(i), i, times[k], 0)
		}
		if finishes {
			out.Finish(connector.SplitIndex(ends))
		}
		return nil
	}
	s.poll()
	for k, i := range records {
		l := s.lanes[i]
		l.newest, l.heard, l.idle = times[k], s.now, false
	}
	if len(records) > 0 || finishes {
		s.say() // the last promise of a split counts before its end does
	}
	if finishes {
		s.lanes[ends].done = true
		s.say()
	}
}

// poll reads what is on the table, and then finds nothing more.
func (s *silence) poll() {
	s.now = s.now.Add(2 * emptyPoll)
	for range 2 {
		if _, err := s.h.Step(100); err != nil {
			s.t.Fatal(err)
		}
	}
	if s.src.table != nil {
		s.t.Fatal("it did not poll")
	}
}

// look has the source look at the clock of the machine: what was silent for so long is idle, in an endless source.
func (s *silence) look() {
	if _, err := s.h.OnTime(s.now); err != nil {
		s.t.Fatal(err)
	}
	for _, l := range s.lanes {
		if !l.done && s.src.endless && s.now.Sub(l.heard) >= patience {
			l.idle, l.rested = true, true
		}
	}
	s.say()
}

// say is the definition: the minimum over what is active. The splits that are yet to come count in a source that ends, for they
// may hold the oldest record.
func (s *silence) say() {
	least, active, live := element.MaxTime, 0, 0
	for _, l := range s.lanes {
		if l.done {
			continue
		}
		if live++; l.idle {
			continue
		}
		active++
		promise := l.newest
		if promise > element.MinTime {
			promise--
		}
		least = min(least, promise)
	}
	if !s.all {
		if live++; !s.src.endless {
			active++
			least = element.MinTime
		}
	}
	switch {
	case active > 0:
		s.clock, s.idle = max(s.clock, least), false
	case live > 0:
		s.idle = true
	}
}

// judge holds what was said, and what the source believes of its splits, to the model.
func (s *silence) judge() {
	if s.at != s.clock || s.rests != s.idle {
		s.t.Fatalf("the clock is at %v (idle: %v), want %v (%v)", s.at, s.rests, s.clock, s.idle)
	}
	for i, l := range s.lanes {
		want := mark.Active
		switch {
		case l.done:
			want = mark.Ended
		case l.idle:
			want = mark.Idle
		}
		if _, is := s.h.marks.At(1 + i); is != want {
			s.t.Fatalf("split %d is in state %d, want %d", i, is, want)
		}
	}
}

// Splits come, fall silent in the middle, return and end: the clock of their source is the minimum over those that are active,
// at every moment. No record of a split that was never silent for long is late, and whoever returns is said to be back before
// its records are.
func TestTheClockOfASourceIsTheMinimumOfItsActiveSplits(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newSilence(rt, t)
		for range rapid.IntRange(0, 40).Draw(rt, "happenings") {
			switch rapid.SampledFrom([]string{"read", "read", "read", "read", "wait", "wait", "split", "all"}).Draw(rt, "what") {
			case "read":
				s.deliver()
			case "wait":
				s.poll()
				s.now = s.now.Add(time.Duration(rapid.IntRange(1, 50).Draw(rt, "seconds")) * time.Second)
			case "split":
				s.give(1)
			case "all":
				if rapid.IntRange(0, 3).Draw(rt, "no more") == 0 {
					s.give(0)
				}
			}
			s.look()
			s.judge()
		}
		s.give(0)
		s.heard = nil
		s.src.table = func(*connector.Records[int]) error { return io.EOF }
		s.now = s.now.Add(2 * emptyPoll)
		progress, err := s.h.Step(100)
		if err != nil || progress.State != chain.Ended {
			rt.Fatalf("%v %v at the end of the source", progress.State, err)
		}
		var want []element.Event
		for _, l := range s.lanes {
			if l.newest > s.clock { // time comes to the newest record before it ends
				s.clock = l.newest
				want = []element.Event{{Kind: element.Watermark, Time: l.newest}}
			}
		}
		want = append(want, element.Event{Kind: element.End, Time: element.MaxTime})
		if !slices.Equal(s.heard, want) {
			rt.Fatalf("heard %v at the end, want %v", s.heard, want)
		}
	})
}
