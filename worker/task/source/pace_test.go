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
	"github.com/sluiceio/sluice/worker/task/align"
	"github.com/sluiceio/sluice/worker/task/chain"
	"github.com/sluiceio/sluice/worker/task/mail"
	"github.com/sluiceio/sluice/worker/task/mark"
)

// lanes is a source whose splits have the times of a script, read in turn, one record per split and poll.
type lanes struct {
	endless bool
	pauses  bool // its reader can leave splits alone
	times   [][]element.Time
	silent  []bool // splits that have nothing for now
}

func (s *lanes) Bounded() bool { return !s.endless }

func (s *lanes) OpenEnumerator(context.Context, int, []byte) (connector.Enumerator, error) {
	return nil, io.ErrUnexpectedEOF // nobody asks for it here
}

func (s *lanes) OpenReader(context.Context, *connector.Task) (connector.Reader[int], error) {
	r := &lanesReader{s: s, at: make([]int, len(s.times)), done: make([]bool, len(s.times))}
	if s.pauses {
		return &pausingReader{r}, nil
	}
	return r, nil
}

type lanesReader struct {
	s      *lanes
	at     []int
	done   []bool
	paused []connector.SplitIndex
	polls  int
	last   []connector.SplitIndex // delivered by the last poll
}

func (r *lanesReader) Assign([]connector.Split) error { return nil }

func (r *lanesReader) Poll(_ context.Context, out *connector.Records[int]) error {
	r.polls++
	r.last = r.last[:0]
	left := false
	for i, times := range r.s.times {
		switch {
		case r.done[i]:
			continue
		case slices.Contains(r.paused, connector.SplitIndex(i)), r.s.silent[i]:
		case r.at[i] == len(times):
			if !r.s.endless {
				r.done[i] = true
				out.Finish(connector.SplitIndex(i))
				continue
			}
		default:
			out.Add(connector.SplitIndex(i), r.at[i], times[r.at[i]], 0)
			r.at[i]++
			r.last = append(r.last, connector.SplitIndex(i))
		}
		left = true
	}
	if !left {
		return io.EOF
	}
	return nil
}

func (r *lanesReader) Describe(connector.SplitIndex, int64) string              { return "" }
func (r *lanesReader) Snapshot(element.CheckpointID) ([]connector.Split, error) { return nil, nil }
func (r *lanesReader) Committed(context.Context, element.CheckpointID) error    { return nil }
func (r *lanesReader) Close() error                                             { return nil }
func (r *lanesReader) read() (n int) {
	for _, at := range r.at {
		n += at
	}
	return n
}

type pausingReader struct{ *lanesReader }

func (r *pausingReader) Pause(splits []connector.SplitIndex) bool {
	r.paused = slices.Clone(splits)
	return true
}

// party is a head with its reader, in one of two processes.
type party struct {
	h      *head[int]
	r      *lanesReader
	src    *lanes
	groups *align.Groups
	far    *hearsay
	asleep bool
	alarm  time.Time // when its loop looks at the clock; zero: never
	waits  bool      // it sleeps until its group has moved
	spins  int       // times in a row that this was at once, and nothing was polled
}

func (p *party) arm(t time.Time) { p.alarm = chain.Earlier(p.alarm, t) }

// look is what a loop does when something is due, or before it sleeps.
func (m *meeting) look(p *party) {
	next, err := p.h.OnTime(m.now)
	if err != nil {
		m.t.Fatal(err)
	}
	p.arm(next)
}

// hearsay is what a process was told of the other one.
type hearsay struct {
	at    element.Time
	heard time.Time
}

const drift = 10 // µs

// meeting is some heads that are aligned, driven by hand.
type meeting struct {
	t       *rapid.T
	now     time.Time
	parties []*party
	groups  [2]*align.Groups
	far     [2]*hearsay
}

const idleFor = time.Minute

func newMeeting(t *rapid.T, outer *testing.T) *meeting {
	m := &meeting{t: t, now: time.Unix(1000, 0)}
	clock := func() time.Time { return m.now }
	for i := range m.groups {
		m.groups[i], m.far[i] = align.New(clock), &hearsay{at: element.MaxTime}
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "readers") {
		src := &lanes{endless: rapid.Bool().Draw(t, "endless"), pauses: rapid.Bool().Draw(t, "pauses")}
		for range rapid.IntRange(1, 3).Draw(t, "splits") {
			at := element.Time(rapid.IntRange(1, 30).Draw(t, "first"))
			var times []element.Time
			for range rapid.IntRange(0, 8).Draw(t, "records") {
				at += element.Time(rapid.IntRange(0, 15).Draw(t, "step"))
				times = append(times, at)
			}
			src.times, src.silent = append(src.times, times), append(src.silent, rapid.IntRange(0, 3).Draw(t, "silent") == 0)
		}
		m.parties = append(m.parties, m.party(outer, src, rapid.IntRange(0, 1).Draw(t, fmt.Sprint("process of ", i))))
	}
	return m
}

func (m *meeting) party(outer *testing.T, src *lanes, process int) *party {
	rt := chain.NewRuntime(outer.Context(), "src")
	rt.Now = func() time.Time { return m.now }
	o := Options[int]{Watermarks: WatermarksBounded, IdleAfter: idleFor, Group: "g", MaxDrift: drift * time.Microsecond}
	opened, err := New[int](src, o).Open(Config{
		Runtime: rt, Chain: chain.New(rt.Ctx, rt.Cursor, nil, -1), Mail: mail.New(), Request: func(Request) {}, Groups: m.groups[process],
	})
	if err != nil {
		m.t.Fatal(err)
	}
	p := &party{h: opened.(*head[int]), src: src, groups: m.groups[process], far: m.far[process]}
	p.h.push = func(int) {}
	rt.Observe(nil, p.arm)
	switch r := p.h.rd.(type) {
	case *lanesReader:
		p.r = r
	case *pausingReader:
		p.r = r.lanesReader
	}
	a := &taskpb.AssignSplits{End: !src.endless}
	for i := range src.times {
		a.Splits = append(a.Splits, &jobpb.Split{Id: fmt.Sprint(i)})
	}
	if err := p.h.Assigned(a); err != nil {
		m.t.Fatal(err)
	}
	m.look(p)
	return p
}

// counts is the watermark of a split that counts in its group.
func (p *party) counts(i int) (element.Time, bool) {
	at, state := p.h.marks.At(1 + i)
	return at, state == mark.Active && at > element.MinTime && !(p.h.dry && p.h.noMore) // it has ended as a whole
}

// stands is where the group stands for a process: what is so here, and what was heard of there.
func (m *meeting) stands(p *party) element.Time {
	at := element.MaxTime
	for _, o := range m.parties {
		if o.groups != p.groups {
			continue
		}
		for i := range o.src.times {
			if w, ok := o.counts(i); ok {
				at = min(at, w)
			}
		}
	}
	if m.now.Sub(p.far.heard) < align.StaleAfter {
		at = min(at, p.far.at)
	}
	return at
}

// step lets the loop of a reader go on, and checks that what it reads was not ahead.
func (m *meeting) step(p *party) {
	if p.h.mail.Pending() {
		p.h.mail.Take()
		m.look(p)
		p.asleep = false
	}
	if p.asleep {
		return
	}
	stand := m.stands(p)
	before := make([]element.Time, len(p.src.times))
	var lowest element.Time = element.MaxTime
	for i := range before {
		w, ok := p.counts(i)
		if before[i] = element.MinTime; ok {
			before[i], lowest = w, min(lowest, w)
		}
	}
	polls := p.r.polls
	progress, err := p.h.Step(100)
	if err != nil {
		m.t.Fatal(err)
	}
	if progress.State != chain.Working {
		p.asleep = true
		m.look(p)
		if p.alarm.IsZero() || p.alarm.After(m.now) || p.r.polls > polls {
			p.spins = 0
		} else if p.spins++; p.spins > 5 {
			m.t.Fatal("it sleeps until a time that is over: its loop spins")
		}
		m.due(p)
	}
	p.waits = p.r.polls == polls && p.asleep && p.h.poll.emptyFrom.IsZero() // else it waits for a moment
	if p.r.polls == polls {
		return
	}
	limit := within(stand)
	for _, s := range p.r.last {
		ahead := before[s] // of a reader that cannot pause: what it has that is the furthest behind
		if !p.src.pauses {
			ahead = lowest
		}
		if before[s] > element.MinTime && ahead > limit {
			m.t.Fatalf("a record of split %d, which is at %d; the group stands at %d", s, before[s], stand)
		}
	}
}

// within is how far a split may be when its group stands at t.
func within(t element.Time) element.Time {
	if t < element.MaxTime-drift {
		return t + drift
	}
	return element.MaxTime
}

// nobodyOversleeps: whoever waits for the group is told when it has come close enough.
func (m *meeting) nobodyOversleeps() {
	for i, p := range m.parties {
		if !p.waits || p.h.mail.Pending() {
			continue
		}
		for s := range p.src.times {
			if at, counts := p.counts(s); counts && at <= within(m.stands(p)) {
				m.t.Fatalf("reader %d sleeps: its split %d is at %d, the group at %d", i, s, at, m.stands(p))
			}
		}
	}
}

// exchange tells each process where the other one stands.
func (m *meeting) exchange() {
	told := [2][]*taskpb.GroupClock{m.groups[0].Tell(), m.groups[1].Tell()}
	for i := range m.groups {
		m.far[i].at, m.far[i].heard = element.MaxTime, m.now
		for _, c := range told[1-i] {
			m.far[i].at = element.Time(c.WatermarkUs)
		}
		m.groups[i].Hear(told[1-i])
	}
}

// pass lets time go by: whoever has a timer is woken by it.
func (m *meeting) pass(d time.Duration) {
	m.now = m.now.Add(d)
	for _, p := range m.parties {
		m.due(p)
	}
}

// due fires a timer whose time has come.
func (m *meeting) due(p *party) {
	if !p.alarm.IsZero() && !p.alarm.After(m.now) {
		p.alarm = time.Time{}
		p.h.mail.Tick()
	}
}

func (m *meeting) read() (n, of int) {
	for _, p := range m.parties {
		n += p.r.read()
		for _, times := range p.src.times {
			of += len(times)
		}
	}
	return n, of
}

// settle drives everybody until nobody can do anything more.
func (m *meeting) settle() {
	for calm := 0; calm < 3; {
		n, _ := m.read()
		for _, p := range m.parties {
			for range 20 {
				m.step(p)
				m.nobodyOversleeps()
			}
		}
		m.exchange()
		m.pass(2 * emptyPoll)
		if after, _ := m.read(); after == n {
			calm++
		} else {
			calm = 0
		}
	}
}

// rest lets everybody become idle who can: a split that was held is listened to only when those behind it are idle.
func (m *meeting) rest() {
	m.settle()
	for _, p := range m.parties {
		for range p.src.times {
			m.pass(2 * idleFor)
			m.settle()
		}
	}
}

// Whatever is read in whatever order: nobody reads a split that is further ahead of the group than the drift, nobody waits for
// ever, and everything is read.
func TestAlignedSplitsStayTogetherAndNobodyWaitsForEver(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newMeeting(rt, t)
		for range rapid.IntRange(0, 60).Draw(rt, "happenings") {
			switch rapid.IntRange(0, 9).Draw(rt, "what") {
			case 0:
				m.exchange()
			case 1:
				m.pass(time.Duration(rapid.IntRange(1, 40).Draw(rt, "seconds")) * time.Second)
			case 2:
				p := m.parties[rapid.IntRange(0, len(m.parties)-1).Draw(rt, "reader")]
				s := rapid.IntRange(0, len(p.src.silent)-1).Draw(rt, "split")
				p.src.silent[s] = !p.src.silent[s]
			default:
				m.step(m.parties[rapid.IntRange(0, len(m.parties)-1).Draw(rt, "reader")])
			}
			m.nobodyOversleeps()
		}
		// Splits without records stay behind until they are idle; the others do not wait any longer than that. Those of bounded
		// sources never are.
		for _, p := range m.parties {
			if !p.src.endless {
				clear(p.src.silent)
			}
		}
		m.rest()
		for i, p := range m.parties {
			for s, times := range p.src.times {
				if p.src.endless && !p.src.silent[s] && p.r.at[s] < len(times) {
					rt.Fatalf("reader %d waits with record %d of split %d", i, p.r.at[s], s)
				}
			}
		}
		for _, p := range m.parties {
			clear(p.src.silent)
		}
		m.rest()
		if n, of := m.read(); n != of {
			rt.Fatalf("%d records of %d were read", n, of)
		}
	})
}
