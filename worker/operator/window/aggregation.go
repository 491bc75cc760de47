package window

import (
	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/flow/window"
)

// Aggregation is what is computed per key and window. Its functions are shared by all subtasks of a process.
type Aggregation[K comparable, In, Acc, Out any] struct {
	Key func(In) K
	// New is the accumulator of a key without records; nil: the zero value.
	New func() Acc
	Add func(acc *Acc, v In)
	// Merge combines the accumulators of two parts of a window, a before b; it may change and return a, and keep what b
	// leads to. Needed where windows overlap or merge.
	Merge func(a, b Acc) Acc
	// Clone makes a copy that shares nothing with its argument; nil: a plain copy does not.
	Clone func(Acc) (Acc, error)
	// Result is called once per key when its window fires, and again for every late record that is allowed. It must not
	// change the accumulator.
	Result func(k K, f Firing, acc *Acc) Out
	// Lateness is how long after its end a window still takes records, in microseconds: each makes it fire again.
	Lateness element.Time
	// LateOutput names the side output that takes later records; empty: they are dropped.
	LateOutput string
	// Timing is the time by which windows are meant.
	Timing Timing
	// Registry has the codecs of the pipeline.
	Registry *codec.Registry
}

func (a *Aggregation[K, In, Acc, Out]) rules() rules[K, In] {
	return rules[K, In]{a.Key, a.Lateness, a.LateOutput, a.Timing, a.Registry}
}

// Firing says which window a result is of, and the how manieth one it is: 0 is the one on time, or the first.
type Firing struct {
	window.Window
	Pane int
}

// fold is how accumulators are put together.
type fold[Acc any] struct {
	join  func(a, b Acc) Acc
	clone func(Acc) (Acc, error) // nil: a plain copy shares nothing
}

// merge adds from to into, which may be changed; from stays as it is.
func (f *fold[Acc]) merge(into, from *Acc) error {
	if f.clone == nil {
		*into = f.join(*into, *from)
		return nil
	}
	own, err := f.clone(*from)
	if err == nil {
		*into = f.join(*into, own)
	}
	return err
}

// copy makes into a copy of from that shares nothing with it.
func (f *fold[Acc]) copy(into, from *Acc) (err error) {
	if f.clone == nil {
		*into = *from
		return nil
	}
	*into, err = f.clone(*from)
	return err
}
