package task

import (
	"context"
	"runtime"
	"time"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/worker/task/chain"
	"github.com/sluiceio/sluice/worker/task/fault"
	"github.com/sluiceio/sluice/worker/task/mail"
)

// Limits of one step.
const (
	// maxStep is the most records handled between two looks at the mailbox: a buffer full.
	maxStep = 512
	// publishEvery is the least time between two copies of the counters while the loop is busy.
	publishEvery = time.Millisecond
)

// loop is the life of one subtask: the one goroutine that owns its operators.
type loop struct {
	*wired
	ctx     context.Context
	cur     *chain.Cursor
	mail    *mail.Box
	meter   *meter
	timeout time.Duration // buffer.timeout; negative: never
	// announce tells the host that the attempt runs.
	announce func()
	cuts

	drain   element.CheckpointID // for which the source ends its input; 0: none
	exited  error                // set by user code that has ended the goroutine
	limit   int                  // records of the next step
	now     time.Time
	flushAt time.Time // when pending buffers are handed over; zero: nothing is pending
	timer   *time.Timer
	armed   time.Time // when timer fires; zero: it does not
}

func newLoop(ctx context.Context, w *wired, mail *mail.Box, m *meter, timeout time.Duration) *loop {
	l := &loop{wired: w, ctx: ctx, cur: w.chain.Cursor(), mail: mail, meter: m, timeout: timeout, limit: maxStep}
	l.cur.Observe(l.position, l.arm)
	return l
}

// position is the place of the record, or the event, that is being handled.
func (l *loop) position() string {
	if text, ok := l.chain.Occasion(); ok {
		return text
	}
	return l.head.Position()
}

// run returns nil when the input has ended and the chain has finished. An error is a *fault.Fault, or that ctx has ended.
func (l *loop) run() error {
	l.now = time.Now()
	defer l.disarm()
	if err := l.protected(l.onTime); err != nil {
		return err
	}
	for {
		if err := l.ctx.Err(); err != nil {
			return err
		}
		if l.mail.Pending() {
			if err := l.protected(l.letters); err != nil {
				return err
			}
		}
		if l.capture != nil {
			if err := l.writeSome(); err != nil {
				return err
			}
		}
		room := l.chain.Room()
		if room <= 0 { // letters go on to be handled
			if l.more {
				continue
			}
			if err := l.sleep(); err != nil {
				return err
			}
			continue
		}
		p, err := l.step(min(l.limit, room))
		if err != nil {
			return err
		}
		switch p.State {
		case chain.Ended:
			if l.attempt.checkpointed() {
				return l.finish()
			}
			return nil
		case chain.Starved:
			if l.starved = true; !l.more {
				err = l.sleep()
			}
		default:
			l.starved = false
			err = l.after(p)
		}
		if err != nil {
			return err
		}
	}
}

// step lets the head handle a batch of at most limit records and accounts for its time.
func (l *loop) step(limit int) (p chain.Progress, err error) {
	blocked := l.meter.blocked()
	err = l.protected(func() (err error) {
		if err := l.chain.Maintain(); err != nil {
			return err
		}
		p, err = l.head.Step(limit)
		return err
	})
	if err != nil {
		return p, err
	}
	if err := l.cur.Err(); err != nil {
		return p, err
	}
	now := time.Now()
	took := now.Sub(l.now)
	l.now = now
	blocked = l.meter.blocked() - blocked
	l.meter.add(took, p.Waited, blocked)
	if p.Records > 0 {
		l.limit = fit(p.Records, took-p.Waited-blocked) // waiting is not the functions' fault
	}
	return p, nil
}

// fit is how many records a step may have, when the last one took so long for n.
func fit(n int, took time.Duration) int {
	if took <= 0 {
		return maxStep
	}
	return int(min(maxStep, max(1, int64(n)*int64(chain.StepTime)/int64(took))))
}

// after a step that had input: buffers that stay pending are handed over in time.
func (l *loop) after(p chain.Progress) error {
	if l.now.Sub(l.meter.published) >= publishEvery {
		l.chain.Measure()
		l.meter.publish(l)
	}
	if l.timeout == 0 || p.Empty {
		return l.protected(l.flush)
	}
	if l.timeout > 0 && l.flushAt.IsZero() && l.chain.Pending() {
		l.flushAt = l.now.Add(l.timeout)
		l.arm(l.flushAt)
	}
	return nil
}

// flush hands over what is buffered. What has no credit stays, and is tried again.
func (l *loop) flush() error {
	l.flushAt = time.Time{}
	if err := l.chain.Flush(); err != nil {
		return fault.Of(err, fault.CodeUser, "")
	}
	if l.chain.Pending() {
		l.flushAt = l.now.Add(max(l.timeout, publishEvery))
		l.arm(l.flushAt)
	}
	return nil
}

// sleep waits until there may be something to do. All inputs are empty, so buffers are handed over first.
func (l *loop) sleep() error {
	if err := l.protected(l.flush); err != nil {
		return err
	}
	if err := l.protected(l.onTime); err != nil {
		return err
	}
	l.chain.Measure()
	l.meter.publish(l)
	select {
	case <-l.mail.Notify():
	case <-l.ctx.Done():
		return l.ctx.Err()
	}
	now := time.Now()
	l.meter.idle += now.Sub(l.now)
	l.now = now
	return nil
}

// letters handles the mail, and what is due.
func (l *loop) letters() error {
	letters, due := l.mail.Take()
	for _, x := range letters {
		if x.Again {
			l.announce()
		}
		if x.Trigger != nil {
			if err := l.triggered(x.Trigger); err != nil {
				return err
			}
		}
		if x.Notice != nil {
			l.noticed(x.Notice)
		}
		if x.Assign == nil || l.chain.Over() {
			continue
		}
		if err := l.head.Assigned(x.Assign); err != nil {
			return err
		}
	}
	if due {
		l.armed = time.Time{}
	}
	l.now = time.Now()
	if !l.flushAt.IsZero() && !l.flushAt.After(l.now) {
		if err := l.flush(); err != nil {
			return err
		}
	}
	if err := l.onTime(); err != nil {
		return err
	}
	if l.meter.asked.Load() { // perhaps nothing else happens for long
		l.meter.publish(l)
	}
	return nil
}

// onTime lets head and operators do what is due, and sets the timer for what will be.
func (l *loop) onTime() error {
	if l.chain.Over() { // nobody emits any more
		l.arm(l.flushAt)
		return nil
	}
	next, err := l.head.OnTime(l.now)
	if err != nil {
		return err
	}
	l.arm(next)
	next, err = l.chain.OnTime(l.now)
	if err != nil {
		return err
	}
	l.arm(next)
	l.arm(l.flushAt)
	return l.cur.Err()
}

// arm has the loop look at what is due at t, unless it will earlier. Zero: never.
func (l *loop) arm(t time.Time) {
	if t.IsZero() || !l.armed.IsZero() && !t.Before(l.armed) {
		return
	}
	l.armed = t
	d := max(0, time.Until(t))
	if l.timer == nil {
		l.timer = time.AfterFunc(d, l.mail.Tick)
		return
	}
	l.timer.Reset(d)
}

func (l *loop) disarm() {
	if l.timer != nil {
		l.timer.Stop()
	}
}

// protected calls f and turns a panic of user code into a fault with stack, operator and position. User code that ends the
// goroutine leaves such a fault behind.
func (l *loop) protected(f func() error) (err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		if v := recover(); v != nil {
			err = l.panicked(v)
		} else {
			l.exited = l.panicked(run.ErrExited)
		}
	}()
	err = f()
	returned = true
	return err
}

func (l *loop) panicked(v any) error {
	var pcs [256]uintptr
	n := runtime.Callers(2, pcs[:])
	return fault.Panicked(v, l.chain.Blame(pcs[:n]), l.position())
}
