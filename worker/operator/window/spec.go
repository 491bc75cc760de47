package window

import (
	"fmt"
	"time"

	"github.com/sluiceio/sluice/flow/window"
	"github.com/sluiceio/sluice/worker/task"
)

// Spec says which windows a record belongs to, and by which time.
type Spec struct {
	kind         kind
	size, offset time.Duration
	slide        time.Duration
	timing       Timing
}

type kind uint8

const (
	tumblingKind kind = iota
	slidingKind
	sessionKind
	globalKind
)

// TumblingSpec is for windows that are size long and adjacent.
func TumblingSpec(size time.Duration) Spec { return Spec{size: size} }

// SlidingSpec is for windows that are size long, and of which one begins every slide.
func SlidingSpec(size, slide time.Duration) Spec {
	return Spec{kind: slidingKind, size: size, slide: slide}
}

// SessionSpec is for windows of records that are no more than gap apart.
func SessionSpec(gap time.Duration) Spec { return Spec{kind: sessionKind, size: gap} }

// GlobalSpec is for one window, for all time.
func GlobalSpec() Spec { return Spec{kind: globalKind} }

// ProcessingTime means the windows by the clock of the machine that handles a record, not by the time of the record. Nothing
// is late, and the end of bounded input ends all windows. Results differ when records are processed again.
func (w Spec) ProcessingTime() Spec {
	w.timing = ByClock
	return w
}

// Offset moves the windows by d, as for days that begin at a local midnight. Sessions begin with their first record and have
// none.
func (w Spec) Offset(d time.Duration) Spec {
	w.offset = d
	return w
}

// Timing is the time by which the windows are meant.
func (w Spec) Timing() Timing { return w.timing }

func (w Spec) String() string {
	if w.timing == ByClock {
		w.timing = ByEvent
		return w.String() + ", by the clock"
	}
	var s string
	switch w.kind {
	case globalKind:
		return "global"
	case slidingKind:
		s = fmt.Sprintf("sliding %v every %v", w.size, w.slide)
	case sessionKind:
		return fmt.Sprintf("session %v", w.size)
	default:
		s = fmt.Sprintf("tumbling %v", w.size)
	}
	if w.offset != 0 {
		s += fmt.Sprintf(", offset %v", w.offset)
	}
	return s
}

// Windows say which ones a record belongs to. Without any of them there is one, for all time.
type Windows struct {
	Tumbling *window.Tumbling
	Sliding  *window.Sliding
	Session  *window.Session
}

// windows are those that an operator with a trigger has.
func (w Spec) windows() (s Windows, err error) {
	switch w.kind {
	case slidingKind:
		spec, err := window.NewSliding(w.size, w.slide, w.offset)
		return Windows{Sliding: &spec}, err
	case sessionKind:
		spec, err := window.NewSession(w.size)
		return Windows{Session: &spec}, err
	case tumblingKind:
		spec, err := window.NewTumbling(w.size, w.offset)
		return Windows{Tumbling: &spec}, err
	}
	return s, nil
}

// byKey reports whether the windows belong to a key.
func (w Spec) byKey() bool { return w.kind == sessionKind || w.kind == globalKind }

// Aggregate is the operator for such windows, which fire when t says so; nil: at their end.
func Aggregate[K comparable, In, Acc, Out any](w Spec, t func(by Timing) Trigger[K, In], a Aggregation[K, In, Acc, Out]) (task.StageOf[In, Out], error) {
	a.Timing = w.timing
	s, err := w.windows()
	switch {
	case err != nil:
		return nil, err
	case t != nil || w.byKey():
		return Aggregated(s, trigger(t, w.timing), a), nil
	case s.Sliding != nil:
		return Sliding(*s.Sliding, a), nil
	}
	return Tumbling(*s.Tumbling, a), nil
}

// Keep is the operator that keeps the records of such windows, which fire when t says so; nil: at their end.
func Keep[K comparable, In, Out any](w Spec, t func(by Timing) Trigger[K, In], g Gathering[K, In, Out]) (task.StageOf[In, Out], error) {
	g.Timing = w.timing
	s, err := w.windows()
	if err != nil {
		return nil, err
	}
	if t != nil || w.byKey() {
		return Gathered(s, trigger(t, w.timing), g), nil
	}
	slide := w.slide
	if w.kind == tumblingKind {
		slide = w.size
	}
	spec, err := window.NewSliding(w.size, slide, w.offset)
	return Gather(spec, g), err
}

func trigger[K comparable, In any](t func(by Timing) Trigger[K, In], by Timing) Trigger[K, In] {
	if t == nil {
		return AtEnd[K, In](by)
	}
	return t(by)
}
