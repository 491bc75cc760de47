package window

import (
	"fmt"
	"time"

	"github.com/sluiceio/sluice/flow/element"
)

// Window is a span of event time: Start is inside, End is not.
type Window struct{ Start, End element.Time }

// Contains reports whether t is inside.
func (w Window) Contains(t element.Time) bool { return w.Start <= t && t < w.End }

// Last is the last instant inside w: the time of its results, and the watermark at which it is complete.
func (w Window) Last() element.Time { return w.End - 1 }

func (w Window) String() string { return fmt.Sprintf("[%v, %v)", w.Start, w.End) }

// Tumbling windows are Size long and adjacent; one of them begins at Offset. Size and Offset are in microseconds.
type Tumbling struct {
	Size, Offset element.Time
}

// NewTumbling checks the durations, which are cut to microseconds.
func NewTumbling(size, offset time.Duration) (Tumbling, error) {
	if size < time.Microsecond {
		return Tumbling{}, fmt.Errorf("window size is %v, it must be at least 1µs", size)
	}
	t := Tumbling{Size: element.Time(size.Microseconds()), Offset: element.Time(offset.Microseconds())}
	t.Offset = floorMod(t.Offset, t.Size)
	return t, nil
}

// Assign is the window of t. Windows that would reach beyond the limits of time are cut there.
func (w Tumbling) Assign(t element.Time) Window {
	in := floorMod(t, w.Size) - w.Offset // how far t is inside its window; both terms are in [0, Size)
	if in < 0 {
		in += w.Size
	}
	start, end := t-in, t+(w.Size-in)
	if start > t {
		start = element.MinTime
	}
	if end < t {
		end = element.MaxTime
	}
	return Window{start, end}
}

// floorMod is a modulo b in [0, b), also for negative a.
func floorMod(a, b element.Time) element.Time {
	m := a % b
	if m < 0 {
		m += b
	}
	return m
}
