package async

import (
	"context"
	"errors"
	"fmt"
	"time"

	event "github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/task"
)

// element is a record of the queue, as it is kept in a snapshot.
type element[In any] struct {
	At event.Time
	V  In
}

// phase of an entry.
type phase uint8

const (
	resting phase = iota // to be called, not before due
	calling              // a call is under way, until due
	over                 // has a result, or none
	control              // is an event
)

// entry is a record or an event in the queue.
type entry[In, Out any] struct {
	element[In]
	phase    phase
	try      int       // number of the call under way, from 1
	due      time.Time // see phase
	position string
	result   Out
	emits    bool // there is a result
	event    event.Event
}

// outcome is what a call has left.
type outcome[In, Out any] struct {
	entry  *entry[In, Out]
	try    int
	result Out
	err    error
}

// begin calls entries that rest, as far as there is room.
func (o *operator[In, Out]) begin(now time.Time) {
	if o.resting == 0 {
		return
	}
	for _, e := range o.queue {
		if e.phase != resting {
			continue
		}
		if o.running >= o.spec.InFlight {
			return // a call that returns begins another one
		}
		if e.due.After(now) {
			o.wake(e.due)
			continue
		}
		o.call(e, now)
	}
}

// call runs one try of e.
func (o *operator[In, Out]) call(e *entry[In, Out], now time.Time) {
	e.phase, e.due = calling, now.Add(o.spec.Timeout)
	e.try++
	o.resting--
	o.running++
	o.wake(e.due)
	x, v := outcome[In, Out]{entry: e, try: e.try}, e.V
	o.calls.Go("call", func(ctx context.Context) error {
		defer func() { o.leave(x) }() // also if the function ends its goroutine
		x.err = errEnded
		ctx, cancel := context.WithTimeout(ctx, o.spec.Timeout)
		defer cancel()
		x.err = task.Protect(func() (err error) {
			x.result, err = o.spec.Call(ctx, v)
			return err
		})
		if errors.Is(ctx.Err(), context.DeadlineExceeded) && errors.Is(x.err, context.DeadlineExceeded) { // it has noticed before the loop did
			x.err = fmt.Errorf("%w: %w", o.late(), x.err)
		}
		return nil
	})
}

// late is the error of a call that has not answered in time.
func (o *operator[In, Out]) late() error { return fmt.Errorf("no answer within %v", o.spec.Timeout) }

// leave hands a result to the loop. It runs on the goroutine of the call.
func (o *operator[In, Out]) leave(x outcome[In, Out]) {
	o.mu.Lock()
	o.mu.outcomes = append(o.mu.outcomes, x)
	o.mu.Unlock()
	select {
	case o.returned <- struct{}{}:
	default:
	}
	o.rt.Notify()
}

// settle takes the results that calls have left.
func (o *operator[In, Out]) settle() error {
	o.mu.Lock()
	outcomes := o.mu.outcomes
	o.mu.outcomes = nil
	o.mu.Unlock()
	now := o.rt.Now()
	for i := range outcomes {
		x := &outcomes[i]
		o.running--
		e := x.entry
		if e.phase != calling || e.try != x.try {
			continue // its time was over
		}
		if x.err != nil {
			o.fail(e, x.err, now)
			continue
		}
		e.phase, e.result, e.emits = over, x.result, true
	}
	o.begin(now)
	return o.emit()
}

// fail takes the failure of a try.
func (o *operator[In, Out]) fail(e *entry[In, Out], err error, now time.Time) {
	if o.rt.Ctx.Err() != nil {
		e.phase = over // the attempt has to stop, which is no fault of the call
		return
	}
	policy := &o.spec.OnError
	if e.try <= policy.Retries && !o.final(err) {
		e.phase, e.due = resting, now.Add(policy.Rest(e.try))
		o.resting++
		o.wake(e.due)
		return
	}
	e.phase = over
	if errors.Is(err, errEnded) { // no policy makes up for a goroutine that was taken away
		o.rt.FailAt(err, e.position)
		return
	}
	if e.try > 1 {
		err = fmt.Errorf("%w (try %d of %d)", err, e.try, 1+policy.Retries)
	}
	at := o.rt.At
	o.rt.At = e.At
	o.failed(e.V, err, e.position)
	o.rt.At = at
}

// expire gives up calls whose time is over.
func (o *operator[In, Out]) expire(now time.Time) error {
	o.alarm = time.Time{}
	for _, e := range o.queue {
		if e.phase != calling {
			continue
		}
		if e.due.After(now) {
			o.wake(e.due)
			continue
		}
		o.fail(e, o.late(), now)
	}
	o.begin(now)
	if err := o.stalled(now); err != nil {
		return err
	}
	return o.emit()
}

// stalled finds out that every place is taken by a call that does not return although its time is over. They get as much
// time again.
func (o *operator[In, Out]) stalled(now time.Time) error {
	live := 0
	for _, e := range o.queue {
		if e.phase == calling {
			live++
		}
	}
	switch {
	case o.running-live < o.spec.InFlight:
		o.stuck = time.Time{}
		return nil
	case o.stuck.IsZero():
		o.stuck = now.Add(o.spec.Timeout)
	case !o.stuck.After(now):
		return o.ignorant()
	}
	o.wake(o.stuck)
	return nil
}

func (o *operator[In, Out]) ignorant() error {
	return fmt.Errorf("%d calls have not returned although their time of %v has been over for as long again: the function must watch its context",
		o.running, o.spec.Timeout)
}

// wake has the loop call at t, unless it will earlier.
func (o *operator[In, Out]) wake(t time.Time) {
	if o.alarm.IsZero() || t.Before(o.alarm) {
		o.alarm = t
		o.rt.WakeAt(t)
	}
}

// emit passes on what is at its turn.
func (o *operator[In, Out]) emit() error {
	at := o.rt.At
	defer func() { o.rt.At = at }()
	for len(o.queue) > 0 {
		e := o.queue[0]
		if e.phase == resting || e.phase == calling {
			break
		}
		o.take(0)
		if err := o.release(e); err != nil {
			return err
		}
	}
	if !o.spec.Unordered {
		return nil
	}
	for i := 0; i < len(o.queue) && o.queue[i].phase != control; {
		e := o.queue[i]
		if e.phase != over {
			i++
			continue
		}
		o.take(i)
		if err := o.release(e); err != nil {
			return err
		}
	}
	return nil
}

// take removes an entry of the queue.
func (o *operator[In, Out]) take(i int) {
	if o.queue[i].phase != control {
		o.records--
	}
	copy(o.queue[i:], o.queue[i+1:])
	o.queue[len(o.queue)-1] = nil
	o.queue = o.queue[:len(o.queue)-1]
}

// release passes on an entry that has left the queue.
func (o *operator[In, Out]) release(e *entry[In, Out]) error {
	if e.phase == control {
		return o.rt.Pass(e.event)
	}
	if e.emits {
		o.rt.At = e.At
		o.out(e.result)
	}
	return o.rt.Stopped()
}
