package source

import (
	"context"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/worker/task/chain"
	"github.com/sluiceio/sluice/worker/task/mail"
)

// numbers is a source of one record per split, whose data is the number of its first record; its reader says only that
// it has read everything that it has.
type numbers struct{ endless bool }

func (s *numbers) Bounded() bool { return !s.endless }

func (s *numbers) OpenEnumerator(context.Context, int, []byte) (connector.Enumerator, error) {
	return nil, io.ErrUnexpectedEOF // nobody asks for it here
}

func (s *numbers) OpenReader(context.Context, *connector.Task) (connector.Reader[int], error) {
	return &numbersReader{}, nil
}

type numbersReader struct {
	splits []int
	next   int
	polls  int
}

func (r *numbersReader) Assign(splits []connector.Split) error {
	for _, s := range splits {
		var v, end int
		if _, err := fmt.Sscanf(string(s.Data), "%d %d", &v, &end); err != nil {
			return err
		}
		r.splits = append(r.splits, v)
	}
	return nil
}

func (r *numbersReader) Poll(_ context.Context, out *connector.Records[int]) error {
	r.polls++
	for ; r.next < len(r.splits); r.next++ {
		v := r.splits[r.next]
		out.Add(connector.SplitIndex(r.next), v, element.Time(10*v), int64(v))
	}
	return io.EOF
}

func (r *numbersReader) Describe(_ connector.SplitIndex, pos int64) string {
	return fmt.Sprint("row ", pos)
}
func (r *numbersReader) Snapshot(element.CheckpointID) ([]connector.Split, error) { return nil, nil }
func (r *numbersReader) Committed(context.Context, element.CheckpointID) error    { return nil }
func (r *numbersReader) Close() error                                             { return nil }

// heardOutlet notes the events that it gets.
type heardOutlet struct{ heard []string }

func (o *heardOutlet) Flush() error                { return nil }
func (o *heardOutlet) Pending() bool               { return false }
func (o *heardOutlet) Stats() chain.OutletStats    { return chain.OutletStats{} }
func (o *heardOutlet) Close(error) error           { return nil }
func (o *heardOutlet) Partition() *jobpb.Partition { return nil }

func (o *heardOutlet) Broadcast(ev element.Event) error {
	o.heard = append(o.heard, fmt.Sprintf("event %d", ev.Kind))
	return nil
}

// Records do not end the idleness of a channel, so their source has to.
func TestASplitThatIsBackIsSaidBeforeItsRecords(t *testing.T) {
	o := &heardOutlet{}
	h, _ := driven(t, &numbers{endless: true}, Options[int]{Watermarks: WatermarksBounded, IdleAfter: time.Minute}, func(c *Config) {
		c.Chain = chain.New(c.Runtime.Ctx, c.Runtime.Cursor, []chain.Node{{ID: "out", Outlet: o, Size: 1}}, -1)
	})
	h.push = func(int) { o.heard = append(o.heard, "record") }
	if err := h.Assigned(&taskpb.AssignSplits{Splits: []*jobpb.Split{{Id: "0", Data: []byte("0 2")}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.OnTime(time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Step(1); err != nil {
		t.Fatal(err)
	}
	idle, watermark := fmt.Sprintf("event %d", element.Idle), fmt.Sprintf("event %d", element.Watermark)
	if len(o.heard) < 3 || !slices.Equal(o.heard[:3], []string{idle, watermark, "record"}) {
		t.Errorf("heard %v", o.heard)
	}
}

// driven is the head of a source, driven by hand.
func driven(t *testing.T, src connector.Source[int], o Options[int], change ...func(*Config)) (*head[int], *[]Request) {
	t.Helper()
	rt := chain.NewRuntime(t.Context(), "src")
	asked := &[]Request{}
	c := Config{
		Runtime: rt, Chain: chain.New(rt.Ctx, rt.Cursor, nil, -1), Mail: mail.New(),
		Request: func(r Request) { *asked = append(*asked, r) },
	}
	for _, f := range change {
		f(&c)
	}
	h, err := New(src, o).Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return h.(*head[int]), asked
}

func splitsFrom(first, end int) (out []*jobpb.Split) {
	for i := first; i < end; i++ {
		out = append(out, &jobpb.Split{Id: fmt.Sprint(i), Data: fmt.Appendf(nil, "%d %d", i, i+1)})
	}
	return out
}

func TestSplitsAreTakenOnceHoweverOftenTheyAreGiven(t *testing.T) {
	h, _ := driven(t, &numbers{}, Options[int]{})
	for _, c := range []struct {
		offset, first, end int
		last               bool
		have               int
	}{
		{0, 0, 2, false, 2},
		{0, 0, 2, false, 2}, // again
		{5, 5, 6, false, 2}, // a gap: an answer is missing
		{0, 0, 3, false, 3}, // more of the same
		{1, 1, 2, false, 3}, // overtaken
		{3, 3, 3, false, 3},
		{2, 2, 4, true, 4},
		{0, 0, 4, true, 4},
	} {
		a := &taskpb.AssignSplits{Offset: int32(c.offset), Splits: splitsFrom(c.first, c.end), End: c.last}
		if err := h.Assigned(a); err != nil {
			t.Fatal(err)
		}
		if h.have != c.have || h.noMore != c.last {
			t.Fatalf("after splits %d to %d: have %d, no more %v", c.first, c.end, h.have, h.noMore)
		}
	}
	if rd := h.rd.(*numbersReader); !slices.Equal(rd.splits, []int{0, 1, 2, 3}) {
		t.Errorf("the reader has %v", rd.splits)
	}
}

// io.EOF says that every split so far is finished. One that would stay in the minimum would stop the clock for ever.
func TestSplitsReadToTheEndHoldNoClock(t *testing.T) {
	h, _ := driven(t, &numbers{endless: true}, Options[int]{Watermarks: WatermarksBounded})
	for i, want := range []element.Time{-1, 9, 19} {
		if err := h.Assigned(&taskpb.AssignSplits{Offset: int32(i), Splits: splitsFrom(i, i+1)}); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Step(512); err != nil {
			t.Fatal(err)
		}
		if _, err := h.OnTime(time.Now()); err != nil {
			t.Fatal(err)
		}
		if got := h.rt.Totals().Watermark; got != want {
			t.Errorf("after split %d: watermark %v, want %v", i, got, want)
		}
	}
}

func TestUnboundedSourceWithoutEventTimeIsIdle(t *testing.T) {
	h, _ := driven(t, &numbers{endless: true}, Options[int]{})
	ev, ok := h.marks.Next()
	if !ok || ev.Kind != element.Idle {
		t.Errorf("says %v %v", ev, ok)
	}
	if err := h.Assigned(&taskpb.AssignSplits{Splits: splitsFrom(0, 2)}); err != nil {
		t.Fatal(err)
	}
	if ev, ok := h.marks.Next(); ok {
		t.Errorf("after splits it says %v", ev)
	}
}

// A source of several phases gets splits of the next one when all of the one before have been read. Nobody may have to
// wait for a request that is repeated by the clock.
func TestWhatWasReadIsToldAtOnce(t *testing.T) {
	for _, o := range []Options[int]{{}, {Watermarks: WatermarksBounded}} {
		h, asked := driven(t, &numbers{}, o)
		now := time.Now()
		h.rt.Now = func() time.Time { return now }
		say := func() Request {
			t.Helper()
			if _, err := h.OnTime(now); err != nil {
				t.Fatal(err)
			}
			if len(*asked) == 0 {
				return Request{Have: -1, Read: -1}
			}
			q := (*asked)[len(*asked)-1]
			*asked = nil
			return q
		}
		if q := say(); q != (Request{Have: 0, Read: 0}) {
			t.Fatalf("asks with %+v", q)
		}
		if err := h.Assigned(&taskpb.AssignSplits{Splits: splitsFrom(0, 2)}); err != nil {
			t.Fatal(err)
		}
		if q := say(); q != (Request{Have: -1, Read: -1}) {
			t.Errorf("asks with %+v while it reads", q)
		}
		if _, err := h.Step(512); err != nil {
			t.Fatal(err)
		}
		if q := say(); q != (Request{Have: 2, Read: 2}) {
			t.Errorf("asks with %+v after it has read both splits", q)
		}
		if q := say(); q != (Request{Have: -1, Read: -1}) {
			t.Errorf("asks again at once with %+v", q)
		}
		now = now.Add(AskAgain)
		if q := say(); q != (Request{Have: 2, Read: 2}) {
			t.Errorf("asks again with %+v", q)
		}
	}
}

// A question that was asked ahead, while the last split was being read, does not keep the answer to it waiting.
func TestAQuestionAskedAheadIsAskedAgainWhenTheSplitIsRead(t *testing.T) {
	h, asked := driven(t, &numbers{}, Options[int]{Watermarks: WatermarksBounded})
	now := time.Now()
	h.rt.Now = func() time.Time { return now }
	if err := h.Assigned(&taskpb.AssignSplits{Splits: splitsFrom(0, 1)}); err != nil {
		t.Fatal(err)
	}
	now = now.Add(AskAhead)
	if _, err := h.OnTime(now); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Step(512); err != nil {
		t.Fatal(err)
	}
	if _, err := h.OnTime(now); err != nil {
		t.Fatal(err)
	}
	if want := []Request{{Have: 1}, {Have: 1, Read: 1}}; !slices.Equal(*asked, want) {
		t.Errorf("asked %v, want %v", *asked, want)
	}
}

func TestAGatedSourceIsNotPolledBeforeItsGateOpens(t *testing.T) {
	open := false
	h, _ := driven(t, &numbers{}, Options[int]{}, func(c *Config) { c.Gate = func() bool { return open } })
	emitted := 0
	h.push = func(int) { emitted++ }
	if err := h.Assigned(&taskpb.AssignSplits{Splits: splitsFrom(0, 3), End: true}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if p, err := h.Step(512); err != nil || p.State != chain.Starved {
			t.Fatalf("%+v %v", p, err)
		}
	}
	if rd := h.rd.(*numbersReader); rd.polls != 0 || emitted != 0 {
		t.Fatalf("%d polls, %d records before the gate was opened", rd.polls, emitted)
	}
	open = true
	if p, err := h.Step(512); err != nil || p.State != chain.Ended || emitted != 3 {
		t.Errorf("%+v %v, %d records", p, err, emitted)
	}
}

// history is a source of two phases: splits below 2 are history.
type history struct{ numbers }

func (history) Phases() int32 { return 2 }

func phasedSplits(first, end int) []*jobpb.Split {
	out := splitsFrom(first, end)
	for i, s := range out {
		if first+i >= 2 {
			s.Phase = 1
		}
	}
	return out
}

// While history is read the clock stands still: a part of it that is yet to come may hold the oldest record of all. What
// is live goes on where history has left it.
func TestTheClockStandsStillWhileHistoryIsRead(t *testing.T) {
	o := Options[int]{Watermarks: WatermarksBounded, IdleAfter: time.Minute}
	h, asked := driven(t, &history{numbers{endless: true}}, o)
	now := time.Now()
	h.rt.Now = func() time.Time { return now }
	give := func(a *taskpb.AssignSplits) {
		t.Helper()
		if err := h.Assigned(a); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := h.Step(512); err != nil {
				t.Fatal(err)
			}
		}
		now = now.Add(2 * time.Minute) // whatever is idle has time to be so
		if _, err := h.OnTime(now); err != nil {
			t.Fatal(err)
		}
	}
	mark := func() element.Time { return h.rt.Totals().Watermark }
	give(&taskpb.AssignSplits{Splits: phasedSplits(1, 2)}) // the record of time 10
	if mark() != element.MinTime {
		t.Errorf("watermark %v although older history may come", mark())
	}
	give(&taskpb.AssignSplits{Offset: 1, Splits: phasedSplits(0, 1)}) // time 0: not late
	if mark() != element.MinTime {
		t.Errorf("watermark %v in the middle of history", mark())
	}
	*asked = nil
	give(&taskpb.AssignSplits{Offset: 2}) // nothing for this reader now
	if mark() != element.MinTime {
		t.Errorf("watermark %v without a live split", mark())
	}
	if ev, ok := h.marks.Next(); ok && ev.Kind == element.Watermark {
		t.Errorf("%v", ev)
	}
	if n := len(*asked); n == 0 || (*asked)[n-1] != (Request{Have: 2, Read: 2}) {
		t.Errorf("asks %+v", *asked)
	}
	if err := h.Assigned(&taskpb.AssignSplits{Offset: 2, Splits: phasedSplits(2, 3)}); err != nil {
		t.Fatal(err)
	}
	if err := h.say(); err != nil {
		t.Fatal(err)
	}
	if mark() != 9 {
		t.Errorf("watermark %v where history has left it, want 9", mark())
	}
	give(&taskpb.AssignSplits{Offset: 3, Splits: phasedSplits(5, 6)})
	if mark() != 19 { // of the slower one of two splits
		t.Errorf("watermark %v behind live records, want 19", mark())
	}
}

// A reader for whom there is nothing must not stop everybody's clock: neither at the start, nor when its part of history is
// read. It is back before the records of what comes then.
func TestAReaderForWhomThereIsNothingIsIdle(t *testing.T) {
	o := &heardOutlet{}
	h, _ := driven(t, &history{numbers{endless: true}}, Options[int]{Watermarks: WatermarksBounded}, func(c *Config) {
		c.Chain = chain.New(c.Runtime.Ctx, c.Runtime.Cursor, []chain.Node{{ID: "out", Outlet: o, Size: 1}}, -1)
	})
	h.push = func(int) { o.heard = append(o.heard, "record") }
	idle, watermark := fmt.Sprintf("event %d", element.Idle), fmt.Sprintf("event %d", element.Watermark)
	for i, c := range []struct {
		a    *taskpb.AssignSplits
		want []string
	}{
		{&taskpb.AssignSplits{}, []string{idle}},
		{&taskpb.AssignSplits{}, nil},
		{&taskpb.AssignSplits{Splits: phasedSplits(0, 1)}, []string{watermark, "record"}},
		{&taskpb.AssignSplits{Offset: 1}, []string{idle}},
		{&taskpb.AssignSplits{Offset: 1, Splits: phasedSplits(1, 2)}, []string{watermark, "record"}}, // more history: late nowhere
		{&taskpb.AssignSplits{Offset: 2, Splits: phasedSplits(2, 3)}, []string{watermark, "record", watermark, idle}},
	} {
		o.heard = nil
		if err := h.Assigned(c.a); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Step(512); err != nil {
			t.Fatal(err)
		}
		if _, err := h.OnTime(time.Now()); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(o.heard, c.want) {
			t.Errorf("answer %d: heard %v, want %v", i, o.heard, c.want)
		}
	}
}

// promising is a reader that knows more of time than its records say.
type promising struct{ numbersReader }

func (r *promising) Poll(_ context.Context, out *connector.Records[int]) error {
	out.Mark(0, 41)
	return nil
}

func TestAPromiseOfTheReaderMovesTheClockWithoutARecord(t *testing.T) {
	for _, o := range []Options[int]{{}, {Watermarks: WatermarksBounded}, {Watermarks: WatermarksPerRecord}} {
		h, _ := driven(t, &numbers{endless: true}, o)
		h.rd = &promising{}
		if err := h.Assigned(&taskpb.AssignSplits{Splits: splitsFrom(0, 1)}); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Step(512); err != nil {
			t.Fatal(err)
		}
		if got := h.rt.Totals().Watermark; got != 41 {
			t.Errorf("%+v: watermark %v", o, got)
		}
	}
	h, _ := driven(t, &numbers{endless: true}, Options[int]{})
	h.rd = &promising{}
	h.have = 0
	h.recs.Mark(3, 7)
	if err := h.promised(time.Now()); err == nil {
		t.Error("a promise for a split that does not exist")
	}
}
