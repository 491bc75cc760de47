package operatortest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/task"
)

// works are the subtasks of a subject, in a bubble of their own time.
type works struct {
	t       *testing.T
	subject *Subject
	course  course
	mem     task.StateMemory
	ctx     context.Context // nil: that of the test
	ending  func()          // called at the next record; nil: nothing

	subs      []*work
	id        element.CheckpointID
	base      Stored
	watermark element.Time
	ended     []bool
	lines     []string
}

// work is one subtask: an operator and the one slot of its output.
type work struct {
	*works
	rt     *task.Runtime
	op     task.Operator
	pushes []func(v any)
	full   bool   // the slot is
	during string // what must not emit; empty: nothing is under way
	over   bool   // the end has passed
}

func (w *works) deploy(parallelism int) {
	w.t.Helper()
	w.close()
	for i := range parallelism {
		x := &work{works: w, rt: Subtask(w.t, i, parallelism, w.mem)}
		if w.ctx != nil {
			x.rt.Ctx = w.ctx
		}
		x.rt.Now = time.Now
		x.rt.Watermark = w.watermark
		x.rt.OnPass(x.event)
		var err error
		if x.pushes, x.op, err = w.subject.build(x.rt, x.emitted); err != nil {
			w.t.Fatalf("build: %v", err)
		}
		w.subs = append(w.subs, x)
		if w.base.Checkpoint > 0 {
			x.restore(w.base)
		}
	}
}

func (w *works) close() {
	w.t.Helper()
	for _, x := range w.subs {
		x.during = "closed"
		if err := errors.Join(x.op.Close(), x.rt.CloseTables()); err != nil {
			w.t.Fatalf("close: %v", err)
		}
	}
	w.subs = nil
}

func (x *work) restore(s Stored) {
	x.t.Helper()
	h := &Harness[struct{}, struct{}]{Runtime: x.rt, Operator: x.op}
	h.Restore(x.t, s)
}

// slowly is how long a slow output takes for a record.
const slowly = time.Millisecond

// emitted takes a record into the slot, and waits until there is room again.
func (x *work) emitted(v any) {
	line := x.line(v)
	switch {
	case x.full:
		x.t.Fatalf("%s is emitted while the slot is full", line)
	case x.during != "":
		x.t.Fatalf("%s is emitted while the operator is %s", line, x.during)
	case x.over:
		x.t.Fatalf("%s is emitted behind the end", line)
	}
	if x.ending != nil {
		x.ending()
	}
	x.lines = append(x.lines, line)
	x.held()
	if now := x.line(v); now != line {
		x.t.Fatalf("%s became %s while it was in the slot", line, now)
	}
}

// line is a result with its time.
func (x *work) line(v any) string { return fmt.Sprintf("%+v @%d", v, x.rt.At/max(1, x.subject.Grain)) }

// held is the time that the slot is full.
func (x *work) held() {
	if x.course.slow {
		x.full = true
		<-time.After(slowly) // the bubble's time
		x.full = false
	}
}

// event is what passes behind the operator.
func (x *work) event(ev element.Event) error {
	x.t.Helper()
	if x.over || x.full || x.during != "" {
		x.t.Fatalf("an event passes behind the end, while the slot is full, or while the operator is %s", x.during)
	}
	switch ev.Kind {
	case element.Watermark:
		x.lines = append(x.lines, fmt.Sprint(event, "watermark ", int64(ev.Time)))
	case element.Idle:
		x.lines = append(x.lines, event+"idle")
	default:
		x.t.Fatalf("the operator passes an event of kind %d on", ev.Kind)
	}
	x.held()
	return nil
}

// tell brings an event as the chain of a subtask does.
func (x *work) tell(ev element.Event) {
	x.t.Helper()
	if r, ok := x.op.(task.Relay); ok {
		if ev.Kind == element.Watermark {
			x.rt.Watermark = ev.Time
		}
		x.check("an event", r.OnEvent(ev))
		return
	}
	if ev.Kind == element.Watermark {
		x.rt.Watermark = ev.Time
		x.check("a watermark", x.op.OnWatermark(ev.Time))
	}
	if _, holds := x.op.(task.Holder); !holds {
		x.check("an event", x.event(ev))
	}
}

// check fails the test if the operator has failed, unless it was told to stop.
func (x *work) check(at string, err error) {
	x.t.Helper()
	if err = errors.Join(err, x.rt.Err(), x.rt.TableErr()); err != nil && x.rt.Ctx.Err() == nil {
		x.t.Fatalf("at %s: %v", at, err)
	}
}

// settle lets calls that are under way come to rest and the loop see it, as often as there is something to see.
func (x *work) settle() {
	x.t.Helper()
	for {
		synctest.Wait()
		if l, ok := x.op.(task.Listener); ok {
			x.check("a notification", l.OnNotify())
		}
		if !x.rt.Due(time.Now()) {
			return
		}
		waker, ok := x.op.(task.Waker)
		if !ok {
			x.t.Fatal("the operator waits for a time and has no OnTime")
		}
		x.check("its time", waker.OnTime(time.Now()))
	}
}

// looks is how often the loop looks at what has happened while time goes by, besides when something is due.
const looks = 8

// wait lets time go by. The loop looks at what is due whenever it is.
func (w *works) wait(d time.Duration) {
	w.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		next := end
		for _, x := range w.subs {
			if due := x.rt.Wake(); !due.IsZero() && due.After(time.Now()) && due.Before(next) {
				next = due
			}
		}
		<-time.After(min(time.Until(next), max(time.Millisecond, d/looks))) // the bubble's time
		for _, x := range w.subs {
			x.check("maintenance", x.rt.Maintain())
			x.settle()
		}
	}
}

func (w *works) step(s Step) {
	w.t.Helper()
	if w.course.idle {
		for _, x := range w.subs {
			x.tell(element.Event{Kind: element.Idle})
		}
	}
	switch s.Kind {
	case Give:
		w.give(s)
	case Advance:
		w.watermark = s.At
		for _, x := range w.subs {
			x.tell(element.Event{Kind: element.Watermark, Time: s.At})
		}
	case Wait:
		w.wait(s.Pass)
	case EndOf:
		w.ended[s.Input] = true
		for _, x := range w.subs {
			x.endOf(s.Input)
		}
	}
	for _, x := range w.subs {
		x.settle()
	}
}

func (w *works) give(s Step) {
	w.t.Helper()
	if w.ended[s.Input] {
		w.t.Fatalf("the script gives a record of input %d after its end", s.Input)
	}
	x := w.subs[0]
	if w.subject.keys != nil {
		group := codec.KeyGroup(w.subject.keys[s.Input](s.Value), x.rt.MaxParallelism)
		x = w.subs[slices.IndexFunc(w.subs, func(x *work) bool { return x.rt.KeyGroups.Contains(group) })]
	}
	x.check("maintenance", x.rt.Maintain())
	x.rt.At = s.At
	x.pushes[s.Input](s.Value)
	if x.rt.At != s.At {
		w.t.Fatalf("the operator left the event time at %v, the record had %v", x.rt.At, s.At)
	}
	x.check("a record", nil)
}

func (x *work) endOf(input int) {
	x.t.Helper()
	if e, ok := x.op.(task.InputEnder); ok && x.subject.inputs > 1 {
		x.check("the end of an input", e.OnInputEnd(input))
	}
}

// after is what the course has in mind after step i.
func (w *works) after(i int) {
	w.t.Helper()
	switch {
	case w.course.turns != nil:
		w.barrier(true)
		w.deploy(parallelism(w.course, i+1))
		for input, ended := range w.ended {
			for _, x := range w.subs {
				if ended {
					x.endOf(input)
				}
			}
		}
		for _, x := range w.subs {
			x.settle()
		}
	case w.course.barrier:
		w.barrier(!w.course.aborted || i%2 == 0)
	}
}

// barrier passes one through, and completes its checkpoint or gives it up.
func (w *works) barrier(completes bool) {
	w.t.Helper()
	w.id++
	for _, x := range w.subs {
		x.during = "at a barrier"
		x.check("a barrier", x.op.OnBarrier(w.id))
		for _, table := range x.rt.Tables() {
			chunks, err := write(table, w.id)
			x.check("a snapshot", err)
			if completes {
				w.base.Chunks = append(w.base.Chunks, chunks...)
				table.Completed(w.id)
			} else {
				table.Aborted(w.id)
			}
		}
		x.during = ""
	}
	if completes {
		w.base.Checkpoint = w.id
	}
}

// end ends what has not ended yet.
func (w *works) end() {
	w.t.Helper()
	for _, x := range w.subs {
		w.finish(x)
		x.over = true
	}
	w.lines = append(w.lines, event+"end")
}

func (w *works) finish(x *work) {
	w.t.Helper()
	for input, ended := range w.ended {
		if !ended {
			x.endOf(input)
		}
	}
	x.rt.Watermark = element.MaxTime
	err := x.op.OnWatermark(element.MaxTime)
	x.check("the end of time", err)
	if err == nil && x.rt.Ctx.Err() == nil {
		x.check("the end", x.op.Finish())
	}
}

// taken is what came out since the last call. The events of several subtasks are the same.
func (w *works) taken() []string {
	lines := w.lines
	w.lines = nil
	if len(w.course.turns) < 2 {
		return lines
	}
	var out, events []string
	for _, line := range lines {
		switch {
		case !isEvent(line):
			out = append(out, line)
		case !slices.Contains(events, line):
			events = append(events, line)
		}
	}
	return append(out, events...)
}
