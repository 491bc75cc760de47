package task

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/worker/task/fault"
	"github.com/sluiceio/sluice/worker/task/source"
)

// tape writes down what an operator sees, in order.
type tape struct {
	Base
	mu    sync.Mutex
	lines []string
}

func (p *tape) add(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, line)
}

func (p *tape) OnWatermark(t element.Time) error {
	p.add("w" + short(t))
	return nil
}

func short(t element.Time) string {
	if t == element.MaxTime {
		return "∞"
	}
	return fmt.Sprint(int64(t))
}

func (p *tape) stage() Stage {
	return StageOf[int, int](func(rt *Runtime, out Push[int]) (Push[int], Operator, error) {
		return func(v int) {
			p.add(fmt.Sprintf("%d@%s", v, short(rt.At)))
			out(v)
		}, p, nil
	})
}

// take is what was seen since the last call.
func (p *tape) take() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := strings.Join(p.lines, " ")
	p.lines = nil
	return s
}

// taped runs a source to its end and returns what the operator behind it saw.
func taped(t *testing.T, s *counted[int], o SourceOptions[int]) string {
	t.Helper()
	p := &tape{}
	j := newJob(t)
	j.then(j.source("src", 1, NewSource(s, o)), "tape", p.stage())
	finished(t, j)
	return p.take()
}

// markers promises something at odd records only: what is 25, or 15, microseconds older than they are. Also less than before.
type markers struct{ said element.Time }

func (m *markers) OnRecord(v int, at element.Time) {
	if v%2 == 1 {
		m.said = at - 25 + element.Time(v/3*10)
	}
}

func (m *markers) Watermark() element.Time { return m.said }

func TestWatermarksOfASource(t *testing.T) {
	times := []int{10, 30, 20, 40}
	src := func(splits int) *counted[int] {
		return &counted[int]{n: len(times), splits: splits, f: func(i int) (int, element.Time) { return i, element.Time(times[i]) }}
	}
	doubled := func(i int) element.Time { return element.Time(2 * times[i]) }
	punctuated := func() Generator[int] { return &markers{said: element.MinTime} }
	for _, c := range []struct {
		name string
		src  *counted[int]
		opts SourceOptions[int]
		want string
	}{
		{"None", src(1), SourceOptions[int]{}, "0@10 1@30 2@20 3@40 w∞"},
		{"TheLastBatchIsFollowedByTheEnd", src(1), SourceOptions[int]{Watermarks: WatermarksBounded}, "0@10 1@30 2@20 3@40 w40 w∞"},
		{"PerRecord", src(1), SourceOptions[int]{Watermarks: WatermarksPerRecord}, "0@10 w9 1@30 w29 2@20 3@40 w39 w40 w∞"},
		{"OutOfOrder", src(1), SourceOptions[int]{Watermarks: WatermarksPerRecord, OutOfOrder: 10 * time.Microsecond}, "0@10 w-1 1@30 w19 2@20 3@40 w29 w40 w∞"},
		{"Extractor", src(1), SourceOptions[int]{EventTime: doubled, Watermarks: WatermarksPerRecord}, "0@20 w19 1@60 w59 2@40 3@80 w79 w80 w∞"},
		{"Punctuated", src(1), SourceOptions[int]{Generator: punctuated, Watermarks: WatermarksPerRecord}, "0@10 1@30 w5 2@20 3@40 w25 w40 w∞"},
		{"Periodic", src(1), SourceOptions[int]{Generator: punctuated}, "0@10 1@30 2@20 3@40 w40 w∞"},
		{"GeneratorsOfSplits", src(2), SourceOptions[int]{Generator: punctuated, Watermarks: WatermarksPerRecord}, "0@10 1@30 2@20 3@40 w25 w40 w∞"},
		// As long as a bounded source may get another split it promises nothing: that split may hold the oldest record.
		{"SplitsYetToCome", src(2), SourceOptions[int]{Watermarks: WatermarksPerRecord}, "0@10 1@30 2@20 w19 3@40 w39 w40 w∞"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := taped(t, c.src, c.opts); got != c.want {
				t.Errorf("saw  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestClockTimesAreThoseOfTheReadingMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := ints(2)
		src.poll = func(context.Context, int) error { <-time.After(100 * time.Millisecond); return nil }
		now := element.At(time.Now())
		want := fmt.Sprintf("0@%d 1@%d w∞", now.Add(100*time.Millisecond), now.Add(200*time.Millisecond))
		if got := taped(t, src, SourceOptions[int]{Times: FromClock}); got != want {
			t.Errorf("saw %s, want %s", got, want)
		}
	})
}

// live is an unbounded source fed by the test, split by split.
type live struct {
	counted[int]
	feed chan record
}

type record struct {
	split connector.SplitIndex
	v     int
	at    element.Time
	done  bool
}

func (l *live) OpenReader(context.Context, *connector.Task) (connector.Reader[int], error) {
	return &liveReader{countedReader: countedReader[int]{s: &l.counted}, l: l}, nil
}

type liveReader struct {
	countedReader[int]
	l *live
}

func (r *liveReader) Poll(ctx context.Context, out *connector.Records[int]) error {
	select {
	case x := <-r.l.feed:
		if x.done {
			out.Finish(x.split)
		} else {
			out.Add(x.split, x.v, x.at, int64(x.v))
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

func TestIdleSplitsLeaveTheMinimum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &live{counted: counted[int]{n: 2, splits: 2, endless: true}, feed: make(chan record)}
		p := &tape{}
		j := newJob(t)
		opts := SourceOptions[int]{Watermarks: WatermarksBounded, IdleAfter: time.Minute}
		j.then(j.source("src", 1, NewSource(src, opts)), "tape", p.stage())
		c := start(t, j)
		c.host.all = true
		if err := c.proc.Deploy(j.deployment(1, 1)); err != nil {
			t.Fatal(err)
		}
		c.awaitRunning(1)
		step := func(want string, wait time.Duration, rs ...record) {
			t.Helper()
			<-time.After(wait)
			for _, r := range rs {
				src.feed <- r
				<-time.After(2 * source.MarkEvery)
			}
			synctest.Wait()
			if got := p.take(); got != want {
				t.Errorf("saw %q, want %q", got, want)
			}
		}
		step("10@10", 0, record{v: 10, at: 10}) // split 1 holds the clock
		step("20@20 w9", 0, record{split: 1, v: 20, at: 20})
		step("30@30", 0, record{split: 1, v: 30, at: 30})
		step("30@30", 50*time.Second, record{split: 1, v: 30, at: 30}) // too early: split 0 is idle only after a minute
		step("w29", 15*time.Second)
		step("", 2*time.Minute)
		step("31@31 w30", 0, record{split: 1, v: 31, at: 31}) // it is back
	})
}

func TestARequestForSplitsIsRepeatedUntilItIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := 3
		j := newJob(t)
		sink := &collected[int]{}
		j.then(j.source("src", 1, NewSource(ints(100), SourceOptions[int]{})), "out", NewSink(sink))
		c := start(t, j)
		c.mute = func(*taskpb.SplitRequest) bool { lost--; return lost >= 0 }
		began := time.Now()
		if err := c.proc.Deploy(j.deployment(1, 1)); err != nil {
			t.Fatal(err)
		}
		c.await(1)
		if took := time.Since(began); took != 3*source.AskAgain || len(sink.written()) != 100 {
			t.Errorf("three lost requests took %v, %d records", took, len(sink.written()))
		}
	})
}

// With as many splits as readers, each reader has to learn that nothing more will come while it reads: otherwise the
// clock would stand still until the end.
func TestTheClockOfABoundedSourceMovesOnceAllSplitsAreGivenOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := ints(200)
		src.splits = 2
		tenSeconds := paced(100 * ms)
		src.poll = func(ctx context.Context, i int) error { return tenSeconds(ctx, i%100) }
		p := &tape{}
		j := newJob(t)
		in := j.source("src", 2, NewSource(src, SourceOptions[int]{Watermarks: WatermarksBounded}))
		j.join("tape", 1, end{from: in, by: jobpb.Partitioner_PARTITIONER_REBALANCE, x: NewExchange(mustCodec[int](t)), st: p.stage()})
		c := start(t, j)
		deploy(t, c, j.deployment(1, 1))
		<-time.After(source.AskAhead - 50*ms)
		if s := p.take(); strings.Contains(s, "w") {
			t.Errorf("it promises before the splits are given out: %s", s)
		}
		<-time.After(2 * time.Second)
		if s := p.take(); !strings.Contains(s, "w") {
			t.Errorf("the clock stands still: %s", s)
		}
		for _, u := range c.await(3) {
			if u.State != done {
				t.Errorf("%v %v", u.State, u.Failure)
			}
		}
		for _, s := range c.host.given {
			if len(s) != 1 {
				t.Errorf("a reader got %d splits", len(s))
			}
		}
	})
}

func TestAReaderAsksForOneSplitAheadAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := ints(10)
		src.splits = 10
		src.poll = paced(5 * time.Second)
		j := newJob(t)
		j.then(j.source("src", 1, NewSource(src, SourceOptions[int]{Watermarks: WatermarksBounded})), "tape", (&tape{}).stage())
		c := start(t, j)
		deploy(t, c, j.deployment(1, 1))
		c.awaitRunning(1)
		for read := range 9 {
			<-time.After(4900 * ms) // just before record read+1 has come
			c.host.mu.Lock()
			given := c.host.next[0]
			c.host.mu.Unlock()
			if given != min(10, read+2) {
				t.Errorf("%d splits were given when %d were read", given, read)
			}
			<-time.After(100 * ms)
		}
		c.await(1)
	})
}

// paced makes record i come i+1 times d after now.
func paced(d time.Duration) func(context.Context, int) error {
	start := time.Now()
	return func(ctx context.Context, i int) error {
		select {
		case <-time.After(time.Until(start.Add(time.Duration(i+1) * d))):
		case <-ctx.Done():
		}
		return nil
	}
}

func splitsFrom(first, end int) (out []*jobpb.Split) {
	for i := first; i < end; i++ {
		out = append(out, &jobpb.Split{Id: fmt.Sprint(i), Data: fmt.Appendf(nil, "%d %d", i, i+1)})
	}
	return out
}

// A letter must not wait for the next record of a source.
func TestALetterEndsARunningPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &live{counted: counted[int]{n: 2, splits: 2, endless: true}, feed: make(chan record)}
		sink := &collected[int]{}
		j := newJob(t)
		j.then(j.source("src", 1, NewSource(src, SourceOptions[int]{})), "out", NewSink(sink))
		c := start(t, j)
		if err := c.proc.Deploy(j.deployment(1, 1)); err != nil {
			t.Fatal(err)
		}
		c.awaitRunning(1)
		synctest.Wait() // the source is being polled, and nobody feeds it
		c.proc.AssignSplits(&taskpb.AssignSplits{
			Job: "job-1", Process: 1, Attempt: 1, RegionEpoch: 1, Offset: 1, Splits: splitsFrom(1, 2),
		})
		synctest.Wait()
		src.feed <- record{split: 1, v: 7}
		synctest.Wait()
		if got := sink.written(); !slices.Equal(got, []int{7}) {
			t.Errorf("written %v", got)
		}
	})
}

// hasty returns from Poll at once, although it has nothing.
type hasty struct {
	counted[int]
	polls atomic.Int64
}

func (h *hasty) OpenReader(context.Context, *connector.Task) (connector.Reader[int], error) {
	return &hastyReader{countedReader: countedReader[int]{s: &h.counted}, h: h}, nil
}

type hastyReader struct {
	countedReader[int]
	h *hasty
}

func (r *hastyReader) Poll(context.Context, *connector.Records[int]) error {
	r.h.polls.Add(1)
	return nil
}

func TestAReaderThatDoesNotBlockDoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &hasty{counted: counted[int]{n: 1, endless: true}}
		j := newJob(t)
		j.then(j.source("src", 1, NewSource(src, SourceOptions[int]{})), "out", NewSink(&collected[int]{}))
		c := start(t, j)
		if err := c.proc.Deploy(j.deployment(1, 1)); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		if n := src.polls.Load(); n < 500 || n > 1100 {
			t.Errorf("%d polls in a second", n)
		}
	})
}

func TestPollErrorsFailTheAttempt(t *testing.T) {
	src := ints(100)
	src.poll = func(_ context.Context, i int) error {
		if i == 50 {
			return errTest
		}
		return nil
	}
	sink := &collected[int]{}
	j := newJob(t)
	j.then(j.source("src", 1, NewSource(src, SourceOptions[int]{})), "out", NewSink(sink))
	f := failed(t, j)
	expect(t, f, fault.CodeSource, "src", "")
	if f.Message != "poll: test failure" {
		t.Errorf("message %q", f.Message)
	}
}

// Wherever a source says that trying again cannot help, the failure is fatal, and no policy skips it.
func TestWhatASourceCallsFatalIsFatal(t *testing.T) {
	never := connector.Fatal(errTest)
	for name, breaks := range map[string]func(src *counted[int]){
		"open":   func(src *counted[int]) { src.openErr = never },
		"assign": func(src *counted[int]) { src.assignErr = never },
		"poll":   func(src *counted[int]) { src.poll = func(context.Context, int) error { return never } },
		"record": func(src *counted[int]) { src.bad = func(int) error { return never } },
	} {
		src := ints(100)
		breaks(src)
		j := newJob(t)
		j.then(j.source("src", 1, NewSource(src, SourceOptions[int]{OnError: ErrorPolicy{Action: SkipOnError}})), "out", NewSink(&collected[int]{}))
		if f := failed(t, j); f.Kind != jobpb.FailureKind_FAILURE_FATAL || f.Operator != "src" {
			t.Errorf("%s: %v of %q: %s", name, f.Kind, f.Operator, f.Message)
		}
	}
}

// A connector that mixes up its own cancelled context with ours must not look like a cancelled attempt.
func TestAForeignCancellationIsAFailure(t *testing.T) {
	src := ints(100)
	src.poll = func(context.Context, int) error { return context.Canceled }
	j := newJob(t)
	j.then(j.source("src", 1, NewSource(src, SourceOptions[int]{})), "out", NewSink(&collected[int]{}))
	expect(t, failed(t, j), fault.CodeSource, "src", "")
}

// found is an enumerator by a script.
type found struct {
	counted[int]
	next func(ctx context.Context) ([]connector.Split, error)
}

func (f *found) OpenEnumerator(context.Context, int, []byte) (connector.Enumerator, error) {
	return &foundEnumerator{f: f}, nil
}

type foundEnumerator struct {
	countedEnumerator
	f *found
}

func (e *foundEnumerator) Next(ctx context.Context) ([]connector.Split, error) { return e.f.next(ctx) }

func TestDiscoveredSplitsAreReportedInNumberedPieces(t *testing.T) {
	const n = 2*source.MaxSplitsPerMessage + 10
	var out []connector.Split
	for i := range n {
		out = append(out, connector.Split{ID: fmt.Sprint(i), Version: 7, Data: fmt.Appendf(nil, "%d %d", i, i+1)})
	}
	for i := range 64 { // more bytes than one message holds
		out[i].Data = append(out[i].Data, slices.Repeat([]byte(" "), jobpb.MaxSplitBytes/2)...)
	}
	src := &found{counted: *ints(n), next: func(context.Context) ([]connector.Split, error) { return out, io.EOF }}
	j := newJob(t)
	sink := &collected[int]{}
	j.then(j.source("src", 1, NewSource(src, SourceOptions[int]{})), "out", NewSink(sink))
	c := start(t, j)
	var messages []*taskpb.SplitsDiscovered
	c.heard = func(d *taskpb.SplitsDiscovered) { messages = append(messages, d) }
	if err := c.proc.Deploy(j.deployment(1, 1)); err != nil {
		t.Fatal(err)
	}
	c.await(1)
	if len(sink.written()) != n {
		t.Errorf("%d records", len(sink.written()))
	}
	at := 0
	for i, m := range messages {
		if int(m.Offset) != at || m.End != (i == len(messages)-1) || m.RegionEpoch != 1 || len(m.Splits) > source.MaxSplitsPerMessage {
			t.Errorf("message %d: offset %d, %d splits, end %v", i, m.Offset, len(m.Splits), m.End)
		}
		for _, s := range m.Splits {
			if s.Id != fmt.Sprint(at) || s.Version != 7 {
				t.Fatalf("split %d is %s", at, s.Id)
			}
			at++
		}
	}
	if at != n {
		t.Errorf("%d splits reported", at)
	}
}

// phased is a source whose second half of splits waits for the first.
type phased struct{ counted[int] }

func (p *phased) OpenEnumerator(ctx context.Context, n int, b []byte) (connector.Enumerator, error) {
	e, err := p.counted.OpenEnumerator(ctx, n, b)
	return phasedEnumerator{e}, err
}

type phasedEnumerator struct{ connector.Enumerator }

func (phasedEnumerator) Phase(s connector.Split) int32 {
	if s.ID < "2" {
		return 0
	}
	return 1
}

func TestSplitsAreReportedWithTheirPhase(t *testing.T) {
	src := &phased{*ints(40)}
	src.splits = 4
	j := newJob(t)
	j.then(j.source("src", 1, NewSource(src, SourceOptions[int]{})), "out", NewSink(&collected[int]{}))
	c := start(t, j)
	var phases []int32
	c.heard = func(d *taskpb.SplitsDiscovered) {
		for _, s := range d.Splits {
			phases = append(phases, s.Phase)
		}
	}
	deploy(t, c, j.deployment(1, 1))
	c.await(1)
	if !slices.Equal(phases, []int32{0, 0, 1, 1}) {
		t.Errorf("phases %v", phases)
	}
}

func TestFailedDiscoveryFailsTheAttempt(t *testing.T) {
	for message, next := range map[string]func(context.Context) ([]connector.Split, error){
		"discover splits: test failure": func(context.Context) ([]connector.Split, error) { return nil, errTest },
		"panic: boom":                   func(context.Context) ([]connector.Split, error) { panic("boom") },
		fmt.Sprintf("discover splits: split \"x\": %d bytes, at most %d", jobpb.MaxSplitBytes+1, jobpb.MaxSplitBytes): func(context.Context) ([]connector.Split, error) {
			return []connector.Split{{ID: "x", Data: make([]byte, jobpb.MaxSplitBytes+1)}}, io.EOF
		},
	} {
		j := newJob(t)
		j.then(j.source("src", 1, NewSource(&found{counted: *ints(1), next: next}, SourceOptions[int]{})), "out", NewSink(&collected[int]{}))
		if f := failed(t, j); f.Message != message || f.Operator != "src" {
			t.Errorf("failure %v, want %s", f, message)
		}
	}
}

// A source without event time takes no part in the clock, also when it has records: else one beside a source with event
// time would stop every window.
func TestRecordsWithoutEventTimeHoldNoClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timed := &live{counted: counted[int]{n: 1, endless: true}, feed: make(chan record)}
		other := &live{counted: counted[int]{n: 1, endless: true}, feed: make(chan record)}
		p := &tape{}
		j := newJob(t)
		a := j.source("timed", 1, NewSource(timed, SourceOptions[int]{Watermarks: WatermarksBounded}))
		b := j.source("other", 1, NewSource(other, SourceOptions[int]{Times: FromClock}))
		x := NewExchange(mustCodec[int](t))
		pass := StageOf[int, int](func(_ *Runtime, out Push[int]) (Push[int], Operator, error) { return out, Base{}, nil })
		union := j.join("union", 1, end{from: a, x: x, st: pass}, end{from: b, x: x, st: pass})
		j.then(union, "tape", p.stage())
		c := start(t, j)
		if err := c.proc.Deploy(j.deployment(1, 1)); err != nil {
			t.Fatal(err)
		}
		c.awaitRunning(3)
		other.feed <- record{v: -1}
		<-time.After(time.Second)
		p.take()
		timed.feed <- record{v: 10, at: 10}
		<-time.After(time.Second)
		if got, want := p.take(), "10@10 w9"; got != want {
			t.Errorf("saw %q, want %q", got, want)
		}
	})
}
