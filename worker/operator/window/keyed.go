package window

import (
	"iter"
	"time"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/flow/window"
	"github.com/sluiceio/sluice/worker/operator/ahead"
	"github.com/sluiceio/sluice/worker/state"
	"github.com/sluiceio/sluice/worker/state/timer"
	"github.com/sluiceio/sluice/worker/task"
)

// Aggregated aggregates by key and by windows of any kind, which a trigger fires. A record of a sliding window is added to
// each window that it is in: Sliding does it by panes. Aggregation.Merge is needed for sessions.
func Aggregated[K comparable, In, Acc, Out any](w Windows, t Trigger[K, In], a Aggregation[K, In, Acc, Out]) task.StageOf[In, Out] {
	return func(rt *task.Runtime, out task.Push[Out]) (task.Push[In], task.Operator, error) {
		o, err := newKeyed[K, In, Acc](rt, a.rules())
		if err != nil {
			return nil, nil, err
		}
		if err := o.let(w, t); err != nil {
			return nil, nil, err
		}
		o.merge, o.fresh = a.Merge, a.New
		o.take = func(e *Entry[Acc], v In) { a.Add(&e.Acc, v) }
		o.result = func(f Firing, e *Entry[Acc]) error {
			out(a.Result(o.dir.Key(), f, &e.Acc))
			return nil
		}
		return o.push, o, nil
	}
}

// Gathered keeps the records by key and by windows of any kind, which a trigger fires. A record of a sliding window is
// kept in each window that it is in: Gather keeps it once. Records are in the order of arrival; those of sessions that
// have become one follow each other.
func Gathered[K comparable, In, Out any](w Windows, t Trigger[K, In], g Gathering[K, In, Out]) task.StageOf[In, Out] {
	return func(rt *task.Runtime, out task.Push[Out]) (task.Push[In], task.Operator, error) {
		o, err := newKeyed[K, In, struct{}](rt, g.rules())
		if err != nil {
			return nil, nil, err
		}
		if o.records, err = state.MapOf[Place, In](o.dir, "records"); err != nil {
			return nil, nil, err
		}
		if err := o.let(w, t); err != nil {
			return nil, nil, err
		}
		o.take = func(e *Entry[struct{}], v In) {
			o.records.Put(Place{e.ID, e.Count}, v)
			e.Count++
		}
		o.result = func(f Firing, e *Entry[struct{}]) error {
			return g.Each(o.dir.Key(), f, o.each(e.ID, e.Count), out)
		}
		return o.push, o, nil
	}
}

// Entry is a window of a key.
type Entry[Acc any] struct {
	Start, End element.Time
	// ID names it among those of the key as long as it lives, also when it grows.
	ID    element.Time
	Count int64 // of records that are kept
	Fired int32 // how often
	// Event and Clock are the deadlines of the trigger, Note what it keeps.
	Event, Clock element.Time
	Note         int64
	Acc          Acc
}

func (e *Entry[Acc]) window() window.Window { return window.Window{Start: e.Start, End: e.End} }

// Place is where a record of a window is kept.
type Place struct {
	Window element.Time
	N      int64
}

// keyed has the windows of each key in a map of the key, and one timer per key and clock for the earliest thing that is
// to be done about any of them. A window that grows does not move the timer: when it comes up it is set to what is the
// earliest then. So a record that prolongs a session costs no more than one that is added to a window.
type keyed[K comparable, In, Acc any] struct {
	deadlines
	keyed   func(In) (K, uint64)
	late    task.Push[In]
	windows Windows
	trigger Trigger[K, In]
	merge   func(a, b Acc) Acc
	fresh   func() Acc // nil: the zero value
	take    func(e *Entry[Acc], v In)
	result  func(f Firing, e *Entry[Acc]) error

	dir     *state.Directory[K]
	open    *state.Map[element.Time, Entry[Acc]]
	records *state.Map[Place, In] // nil: they are not kept
	order   *order                // of sessions; nil: the windows are none
	timers  *timer.Service[K]
}

func newKeyed[K comparable, In, Acc any](rt *task.Runtime, r rules[K, In]) (*keyed[K, In, Acc], error) {
	f, err := newFrame(rt, r)
	if err != nil {
		return nil, err
	}
	o := &keyed[K, In, Acc]{deadlines: deadlines{times: f.times}, late: f.late}
	o.ctx.time = rt.Clock
	if o.dir, err = state.NewDirectory[K](rt.Options("windows", r.registry)); err != nil {
		return nil, err
	}
	rt.Keep(o.dir.Table())
	o.keyed = ahead.Keys(rt, f.key, f.hash, o.dir.Prefetch)
	if o.open, err = state.MapOf[element.Time, Entry[Acc]](o.dir, "window"); err != nil {
		return nil, err
	}
	o.timers = timer.New(o.dir)
	if o.event, err = o.timers.Event("event", o.onEvent); err != nil {
		return nil, err
	}
	o.proc, err = o.timers.Proc("clock", o.onClock)
	return o, err
}

// let sets which windows there are, and when they fire.
func (o *keyed[K, In, Acc]) let(w Windows, t Trigger[K, In]) error {
	o.windows, o.trigger = w, t
	if w.Session == nil {
		return nil
	}
	o.touch = 1
	nodes, err := state.MapOf[Node, uint64](o.dir, "order")
	o.order = &order{nodes: nodes}
	return err
}

func (o *keyed[K, In, Acc]) push(v In) {
	k, h := o.keyed(v)
	at := o.at()
	o.ctx.now = o.now(h)
	o.dir.Seek(k, h)
	var err error
	switch w := o.windows; {
	case w.Session != nil:
		err = o.join(w.Session.Assign(at), v)
	case w.Sliding != nil:
		err = o.slide(at, v)
	case w.Tumbling != nil:
		err = o.within(w.Tumbling.Assign(at), v)
	default:
		err = o.add(0, window.Window{Start: element.MinTime, End: element.MaxTime}, v)
	}
	if err != nil {
		o.rt.Fail(err)
	}
}

// within adds a record to a window that has its start for its id.
func (o *keyed[K, In, Acc]) within(w window.Window, v In) error {
	if o.overAt(w) <= o.ctx.now {
		drop(o.rt, o.late, v)
		return nil
	}
	return o.add(w.Start, w, v)
}

func (o *keyed[K, In, Acc]) slide(at element.Time, v In) error {
	spec := o.windows.Sliding
	last, ok := spec.Last(at)
	if !ok {
		return nil // between two windows
	}
	if o.overAt(last) <= o.ctx.now {
		drop(o.rt, o.late, v)
		return nil
	}
	for w, ok := spec.First(at); ok && w.Contains(at); {
		if o.overAt(w) > o.ctx.now {
			if err := o.add(w.Start, w, v); err != nil {
				return err
			}
		}
		next := spec.Next(w)
		ok = next.Start > w.Start
		w = next
	}
	return nil
}

// add adds a record to the window with this id.
func (o *keyed[K, In, Acc]) add(id element.Time, w window.Window, v In) error {
	fresh := !o.open.Has(id)
	e := o.open.Ref(id)
	if fresh {
		*e = Entry[Acc]{Start: w.Start, End: w.End, ID: id, Event: never, Clock: never}
		if o.fresh != nil {
			e.Acc = o.fresh()
		}
	}
	return o.put(e, v)
}

// put adds a record to a window, and asks the trigger.
func (o *keyed[K, In, Acc]) put(e *Entry[Acc], v In) error {
	o.take(e, v)
	c, w := o.ask(e)
	err := o.obey(e, o.trigger.OnElement(c, w, v))
	o.arm(e.window(), e.Event, e.Clock)
	return err
}

// join adds a record to the session that w makes, of itself and those that it meets. Whether the record is late is judged
// by the session that comes of it.
func (o *keyed[K, In, Acc]) join(w window.Window, v In) error {
	crowded := o.crowded()
	cover := o.meet(w, crowded)
	switch {
	case o.overAt(cover) <= o.ctx.now:
		drop(o.rt, o.late, v)
		return nil
	case len(o.met) == 0:
		if crowded {
			o.order.insert(w.Start)
		}
		return o.add(w.Start, w, v)
	}
	if len(o.met) > 1 {
		o.unite()
	}
	e := o.open.Ref(o.met[0].id)
	e.Start, e.End = cover.Start, cover.End
	if len(o.met) > 1 {
		c, w := o.ask(e)
		o.trigger.OnMerge(c, w, o.notes)
		e.Event, e.Clock, e.Note = c.event, c.clock, c.note
	}
	return o.put(e, v)
}

// unite makes one window of those in met: the first, in order of time.
func (o *keyed[K, In, Acc]) unite() {
	o.inOrder()
	into := o.open.Ref(o.met[0].id)
	o.notes = append(o.notes[:0], into.Note)
	for _, m := range o.met[1:] {
		from := o.open.Ref(m.id)
		o.notes = append(o.notes, from.Note)
		if o.merge != nil {
			into.Acc = o.merge(into.Acc, from.Acc)
		}
		into.Fired = max(into.Fired, from.Fired)
		for v := range o.each(from.ID, from.Count) {
			o.records.Put(Place{into.ID, into.Count}, v)
			into.Count++
		}
		o.empty(from)
		o.gone(m.id)
	}
}

// each yields the records of a window.
func (o *keyed[K, In, Acc]) each(id element.Time, n int64) iter.Seq[In] {
	return func(yield func(In) bool) {
		for i := range n {
			if v, ok := o.records.Load(Place{id, i}); ok && !yield(v) {
				return
			}
		}
	}
}

// ask is what the trigger is called with.
func (o *keyed[K, In, Acc]) ask(e *Entry[Acc]) (*TriggerCtx, Win[K]) {
	o.ctx.event, o.ctx.clock, o.ctx.note, o.ctx.last = e.Event, e.Clock, e.Note, o.last(e.window())
	return &o.ctx, Win[K]{o.dir.Key(), e.window(), int(e.Fired)}
}

// obey does what the trigger has decided.
func (o *keyed[K, In, Acc]) obey(e *Entry[Acc], act Fire) error {
	e.Event, e.Clock, e.Note = o.ctx.event, o.ctx.clock, o.ctx.note
	var err error
	if act&FireNow != 0 {
		f := Firing{e.window(), int(e.Fired)}
		e.Fired++
		at := o.rt.At
		if e.End != element.MaxTime {
			o.rt.At = o.last(f.Window)
		}
		err = o.result(f, e)
		o.rt.At = at
	}
	if act&Purge != 0 {
		o.empty(e)
	}
	return err
}

// empty forgets what a window holds.
func (o *keyed[K, In, Acc]) empty(e *Entry[Acc]) {
	for i := range e.Count {
		o.records.Delete(Place{e.ID, i})
	}
	e.Count = 0
	var zero Acc
	if o.fresh != nil {
		zero = o.fresh()
	}
	e.Acc = zero
}

// onEvent does what is to be done about the windows of the current key by event time t.
func (o *keyed[K, In, Acc]) onEvent(t element.Time) error { return o.visit(t, ByEvent) }

// onClock is onEvent for the clock.
func (o *keyed[K, In, Acc]) onClock(t element.Time) error {
	if o.timing == ByEvent {
		o.ctx.now = o.now(o.dir.KeyHash())
	}
	return o.visit(t, ByClock)
}

// visit does what is due at t about the windows of the current key, in the order of time, and sets the timers to what
// comes next. Of a crowd it does all that is due by the time to which the sweep goes: a visit for each would look at too many.
func (o *keyed[K, In, Acc]) visit(t element.Time, on Timing) error {
	crowded := o.crowded()
	if crowded {
		t = max(t, o.until)
	}
	o.met = o.met[:0]
	o.inTurn(t, crowded, func(id element.Time, e Entry[Acc]) {
		o.look(t, on, spot{win: e.window(), id: id, event: e.Event, clock: e.Clock})
	})
	o.inOrder()
	calls := rounds{first: len(o.met)}
	for i := 0; i < len(o.met); i++ {
		m := o.met[i]
		if !o.open.Has(m.id) {
			continue // it was over before this deadline
		}
		e := o.open.Ref(m.id)
		if m.end {
			o.empty(e)
			o.gone(m.id)
			continue
		}
		o.rt.At = m.at
		o.come(m.at, on)
		o.emits(m.win)
		if err := o.fire(e, m.at, on); err != nil {
			return err
		}
		if err := o.rt.Stopped(); err != nil {
			return err
		}
		o.emitted()
		if crowded {
			if err := o.insert(i+1, t, on, &calls, spot{win: m.win, id: m.id, event: e.Event, clock: e.Clock}); err != nil {
				return err
			}
		}
	}
	o.inTurn(t, crowded && o.crowded(), func(_ element.Time, e Entry[Acc]) { o.arm(e.window(), e.Event, e.Clock) })
	return nil
}

// Occasion is the window and the key that the trigger is asked about, or whose results are emitted.
func (o *keyed[K, In, Acc]) Occasion() string {
	if !o.emitting {
		return ""
	}
	return o.occasion(o.dir.Key())
}

// come sets the time that triggers see to that of a deadline.
func (o *keyed[K, In, Acc]) come(at element.Time, on Timing) {
	switch {
	case on == ByEvent:
		o.ctx.now = at
	case o.timing == ByClock:
		o.ctx.now = at - 1
	}
}

// fire asks the trigger about a window whose deadline has come.
func (o *keyed[K, In, Acc]) fire(e *Entry[Acc], at element.Time, on Timing) error {
	var act Fire
	if on == ByEvent {
		e.Event = never
		c, w := o.ask(e)
		act = o.trigger.OnEvent(c, w, at)
		c.event = o.settled(c.event, at, c.last)
	} else {
		e.Clock = never
		c, w := o.ask(e)
		act = o.trigger.OnClock(c, w, at)
		c.clock = o.settled(c.clock, at, c.last+1)
	}
	return o.obey(e, act)
}

// OnWatermark does what is due by event time, and forgets what is over. The end of the input ends windows by the clock.
func (o *keyed[K, In, Acc]) OnWatermark(t element.Time) error {
	o.ending, o.until = t == element.MaxTime, t
	if err := o.timers.AdvanceEvents(t, o.rt.Stopped); err != nil {
		return err
	}
	if t == element.MaxTime && o.timing == ByClock {
		return o.timers.AdvanceProc(t, o.rt.Stopped)
	}
	o.clock.Pass(t)
	return nil
}

// OnTime does what is due by the clock.
func (o *keyed[K, In, Acc]) OnTime(time.Time) error {
	o.wake = element.MaxTime
	t := element.At(o.rt.Now())
	o.until = t
	if err := o.timers.AdvanceProc(t, o.rt.Stopped); err != nil {
		return err
	}
	if o.timing == ByClock {
		o.swept = max(o.swept, t-1)
	}
	return o.awaken()
}

// awaken waits for the next deadline by the clock.
func (o *keyed[K, In, Acc]) awaken() error {
	if at, ok := o.timers.NextProc(); ok {
		o.await(at)
	}
	return o.dir.Err()
}

// OnRestored begins with the windows of a checkpoint.
func (o *keyed[K, In, Acc]) OnRestored() error {
	o.restored()
	return o.awaken()
}

func (o *keyed[K, In, Acc]) Close() error { return o.timers.Close() }

var (
	_ task.Waker      = (*keyed[int, int, int])(nil)
	_ task.Restorer   = (*keyed[int, int, int])(nil)
	_ task.Occasioned = (*keyed[int, int, int])(nil)
)
