package async

import (
	"errors"
	"sync"
	"time"

	event "github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/worker/state/unkeyed"
	"github.com/sluiceio/sluice/worker/task"
)

var errEnded = errors.New("the function ended its goroutine")

// operator is the calls of one subtask.
type operator[In, Out any] struct {
	task.Base
	spec   Spec[In, Out]
	rt     *task.Runtime
	out    task.Push[Out]
	failed task.Failed[In]
	list   unkeyed.List[element[In]]
	calls  *run.Group

	queue   []*entry[In, Out] // in order of arrival
	records int               // of the queue
	resting int               // of these
	running int               // calls that have not returned
	stuck   time.Time         // when calls that fill all places must have returned; zero: there are none such
	alarm   time.Time         // that WakeAt was asked for; zero: none
	// returned has a token when a call has left its outcome, for a loop that waits inside the operator.
	returned chan struct{}

	mu struct {
		sync.Mutex
		outcomes []outcome[In, Out] // at most one per running call
	}
}

var (
	_ task.Relay    = (*operator[int, int])(nil)
	_ task.Listener = (*operator[int, int])(nil)
	_ task.Limiter  = (*operator[int, int])(nil)
	_ task.Waker    = (*operator[int, int])(nil)
	_ task.Restorer = (*operator[int, int])(nil)
)

// HoldsWatermarks: they keep their place among the records.
func (o *operator[In, Out]) HoldsWatermarks() {}

// Room implements task.Limiter.
func (o *operator[In, Out]) Room() int { return o.spec.InFlight - max(o.records, o.running) }

// final reports whether trying again is in vain. A goroutine that was taken away is one that nobody can give back.
func (o *operator[In, Out]) final(err error) bool {
	return task.FailsAlways(err) || errors.Is(err, errEnded)
}

func (o *operator[In, Out]) push(v In) {
	at := o.rt.At
	for o.Room() <= 0 {
		if err := o.wait(); err != nil {
			o.rt.Fail(err)
			return
		}
	}
	o.rt.At = at
	o.add(v, at, o.rt.Position())
	o.begin(o.rt.Now())
}

func (o *operator[In, Out]) add(v In, at event.Time, position string) {
	o.queue = append(o.queue, &entry[In, Out]{element: element[In]{at, v}, position: position})
	o.records++
	o.resting++
}

// wait is for the loop when it cannot go on: until a call returns or its time is over.
func (o *operator[In, Out]) wait() error {
	if err := o.rt.Stopped(); err != nil {
		return err
	}
	timer := time.NewTimer(max(0, o.alarm.Sub(o.rt.Now())))
	defer timer.Stop()
	due := timer.C
	if o.alarm.IsZero() {
		due = nil
	}
	select {
	case <-o.returned:
		return o.settle()
	case <-due:
		return o.expire(o.rt.Now())
	case <-o.rt.Ctx.Done():
		return o.rt.Ctx.Err()
	}
}

// OnNotify implements task.Listener.
func (o *operator[In, Out]) OnNotify() error { return o.settle() }

// OnTime implements task.Waker.
func (o *operator[In, Out]) OnTime(now time.Time) error { return o.expire(now) }

// OnEvent implements task.Relay. A watermark says what the events directly in front of it say, and more.
func (o *operator[In, Out]) OnEvent(ev event.Event) error {
	if n := len(o.queue); n == 0 {
		return o.rt.Pass(ev)
	} else if last := o.queue[n-1]; last.phase == control && (ev.Kind == event.Watermark || last.event.Kind == ev.Kind) {
		last.event = ev
		return nil
	}
	o.queue = append(o.queue, &entry[In, Out]{phase: control, event: ev})
	return nil
}

// OnWatermark, which comes at the end only, waits for everything.
func (o *operator[In, Out]) OnWatermark(event.Time) error { return o.drain() }

// Finish waits for what a function still does that ignores its context: at the end of a job nobody else would.
func (o *operator[In, Out]) Finish() error {
	if err := o.drain(); err != nil || o.running == 0 {
		return err
	}
	o.calls.Stop()
	limit := time.NewTimer(o.spec.Timeout)
	defer limit.Stop()
	for o.running > 0 {
		select {
		case <-o.returned:
			if err := o.settle(); err != nil {
				return err
			}
		case <-o.rt.Ctx.Done():
			return o.rt.Ctx.Err()
		case <-limit.C:
			return o.ignorant()
		}
	}
	return nil
}

func (o *operator[In, Out]) drain() error {
	at := o.rt.At
	defer func() { o.rt.At = at }()
	for len(o.queue) > 0 {
		if err := o.wait(); err != nil {
			return err
		}
	}
	return nil
}

// OnBarrier makes state of the records in the queue. None is waited for.
func (o *operator[In, Out]) OnBarrier(event.CheckpointID) error {
	o.list.Clear()
	for _, e := range o.queue {
		if e.phase != control && !(e.phase == over && !e.emits) {
			o.list.Add(e.element)
		}
	}
	return o.list.Err()
}

// OnRestored calls again what was in the queue. There may be more than calls: another parallelism may have left them.
func (o *operator[In, Out]) OnRestored() error {
	for e := range o.list.All() {
		o.add(e.V, e.At, "in flight when the snapshot was taken")
	}
	o.begin(o.rt.Now())
	return o.list.Err()
}

// Close ends the calls and waits for them.
func (o *operator[In, Out]) Close() error {
	o.calls.Stop()
	return o.calls.Wait()
}
