package window

import (
	"fmt"
	"time"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/flow/window"
	"github.com/sluiceio/sluice/worker/operator/progress"
	"github.com/sluiceio/sluice/worker/state"
	"github.com/sluiceio/sluice/worker/task"
)

// Timing is the time by which windows are meant.
type Timing uint8

const (
	// ByEvent: the times of records, which end with the watermark.
	ByEvent Timing = iota
	// ByClock: the clock of the machine. Nothing is late, and the end of the input ends all windows.
	ByClock
)

// rules are what is the same for all that may be done with windows.
type rules[K comparable, In any] struct {
	key        func(In) K
	lateness   element.Time
	lateOutput string
	timing     Timing
	registry   *codec.Registry
}

// times is what the operators for all kinds of windows know of time, whatever their records are.
type times struct {
	task.Base
	rt       *task.Runtime
	timing   Timing
	lateness element.Time
	clock    *progress.Clock
	// touch is by how much the last instant that decides about a window lies behind the last one inside: 1 for sessions, which a
	// record at their very end still prolongs.
	touch element.Time
	// swept is the time up to which windows have fired.
	swept element.Time
	// due is a time before which no window fires or ends.
	due element.Time
	// ending: the input has ended, and no time will pass any more.
	ending bool
	// wake is when the loop will call OnTime; MaxTime: never.
	wake element.Time
	// firing is the window whose results are emitted, if emitting.
	firing   window.Window
	emitting bool
}

// emits notes that the results of w are emitted, key after key; emitted, that they are.
func (f *times) emits(w window.Window) { f.firing, f.emitting = w, true }

func (f *times) emitted() { f.emitting = false }

// occasion is the window that is emitted, for the report of a failure (task.Occasioned).
func (f *times) occasion(key any) string {
	if f.timing == ByClock { // another one on each attempt
		return fmt.Sprintf("a window by the clock of %s, key %v", f.rt.Task.Operator, key)
	}
	return fmt.Sprintf("window %v of %s, key %v", f.firing, f.rt.Task.Operator, key)
}

// open begins to keep time.
func (f *times) open(rt *task.Runtime, by Timing, lateness element.Time) (err error) {
	*f = times{rt: rt, timing: by, swept: element.MinTime, due: element.MaxTime, wake: element.MaxTime}
	if by == ByEvent {
		f.lateness = lateness
	}
	f.clock, err = progress.Open(rt)
	return err
}

// lateTo is where late records go; nil: they are dropped.
func lateTo[In any](rt *task.Runtime, output string) (task.Push[In], error) {
	if output == "" {
		return nil, nil
	}
	return task.SideOutput[In](rt, output)
}

// frame is what the operators for all kinds of windows have in common: times, and where late records go.
type frame[K comparable, In any] struct {
	times
	key  func(In) K
	hash func(K) uint64
	late task.Push[In]
}

func newFrame[K comparable, In any](rt *task.Runtime, r rules[K, In]) (f frame[K, In], err error) {
	f.key = r.key
	if f.hash, err = codec.Hasher[K](); err != nil {
		return f, err
	}
	if f.late, err = lateTo[In](rt, r.lateOutput); err != nil {
		return f, err
	}
	err = f.open(rt, r.timing, r.lateness)
	return f, err
}

// drop counts a late record, and passes it on if somebody wants it.
func drop[In any](rt *task.Runtime, late task.Push[In], v In) {
	rt.Counters.Late++
	if late != nil {
		late(v)
	}
}

// at is the time that decides about the windows of the record in flight.
func (f *times) at() element.Time {
	if f.timing == ByEvent { // the limits of time, before and after everything, are in no window: these are next to them
		return max(element.MinTime+1, min(f.rt.At, element.MaxTime-1))
	}
	return max(f.rt.Clock(), f.swept+1) // clocks are put back
}

// now is the time that the windows of a key with this hash have come to.
func (f *times) now(h uint64) element.Time {
	return f.clock.At(h, f.horizon())
}

// horizon is the time that the windows of all keys have come to.
func (f *times) horizon() element.Time {
	if f.timing == ByEvent {
		return f.rt.Watermark
	}
	return f.swept
}

// last is the last instant that decides about a window, and the time of its results: the watermark has to reach it.
func (f *times) last(w window.Window) element.Time { return w.Last() + f.touch }

// overAt is when a window takes no record any more: its end and the allowed lateness have passed.
func (f *times) overAt(w window.Window) element.Time {
	if at := f.last(w) + f.lateness; at >= w.Last() {
		return at
	}
	return element.MaxTime // beyond the end of time
}

// fired reports whether a window of a key with this hash has fired before the checkpoint that was restored.
func (f *times) firedBefore(h uint64, w window.Window) bool {
	return f.clock.Ahead() && f.clock.Had(h) >= w.Last()
}

// expect has sweep called when time t is covered.
func (f *times) expect(t element.Time) {
	f.due = min(f.due, t)
	if f.timing == ByClock && t < element.MaxTime {
		f.await(t + 1)
	}
}

// await has the loop call OnTime at t, if not earlier.
func (f *times) await(t element.Time) {
	if t < f.wake {
		f.wake = t
		f.rt.WakeAt(t.Std())
	}
}

// watermark calls sweep for the windows that end by watermark t.
func (f *times) watermark(t element.Time, sweep func(element.Time) error) error {
	if f.timing == ByClock && t != element.MaxTime {
		return nil
	}
	return f.sweepTo(t, sweep)
}

// tick calls sweep for the windows that end by the clock of the operator, which tests may set.
func (f *times) tick(_ time.Time, sweep func(element.Time) error) error {
	f.wake = element.MaxTime
	if err := f.sweepTo(element.At(f.rt.Now())-1, sweep); err != nil {
		return err
	}
	if f.due < element.MaxTime {
		f.await(f.due + 1)
	}
	return nil
}

func (f *times) sweepTo(t element.Time, sweep func(element.Time) error) error {
	if t >= f.due {
		f.due = element.MaxTime
		if err := sweep(t); err != nil {
			return err
		}
	}
	f.swept = max(f.swept, t)
	f.clock.Pass(f.horizon())
	return nil
}

// restored begins anew with the tables of a checkpoint.
func (f *times) restored() {
	f.swept, f.wake, f.due = element.MinTime, element.MaxTime, element.MinTime
	f.clock.Restored(f.horizon())
	if f.timing == ByEvent {
		f.swept = f.rt.Watermark
	} else {
		f.await(f.rt.Clock())
	}
}

// OnBarrier puts down how far time has come.
func (f *times) OnBarrier(element.CheckpointID) error {
	f.clock.Barrier(f.horizon())
	return nil
}

// spaces makes a table of the operator with a namespace for each window or pane.
func spaces[K comparable, H any](rt *task.Runtime, table string, r *codec.Registry, declare func(*state.Directory[K]) (H, error)) (*state.Spaces[K, H], error) {
	s, err := state.NewSpaces(rt.Options(table, r), rt.KeyGroups.First, rt.KeyGroups.End, declare)
	if err == nil {
		rt.Keep(s.Table())
	}
	return s, err
}

// counted declares how often a key has fired, in a namespace.
func counted[K comparable](d *state.Directory[K]) (*state.Value[int32], error) {
	return state.ValueOf[int32](d, "fired")
}

// again is the number of a late firing of a key; before: the key was in the window already, which has fired with it.
func again[K comparable](refired *state.Spaces[K, *state.Value[int32]], k K, h uint64, w window.Window, before bool) (int, error) {
	sp, err := refired.Open(int64(w.Start))
	if err != nil {
		return 0, err
	}
	sp.Dir.Seek(k, h)
	n := sp.Handles.Ref()
	if *n == 0 && before {
		*n = 1
	}
	*n++
	return int(*n) - 1, nil
}

// forgetRefired drops the counts of windows that take no record any more at time t, if there are any.
func forgetRefired[K comparable](p *panes, refired *state.Spaces[K, *state.Value[int32]], t element.Time) {
	if refired == nil {
		return
	}
	for sp := range refired.All() {
		if p.fromOver(element.Time(sp.ID)) > t {
			break
		}
		refired.Drop(sp)
	}
}
