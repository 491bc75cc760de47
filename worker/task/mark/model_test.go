package mark

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/flow/element"
)

// definition is the merge rule as it is written: the minimum over what is active, computed anew from all inputs each time. What
// has ended counts for nothing while others have not, and what was said never falls.
type definition struct {
	at     []element.Time
	states []State
	ends   []element.Time // that inputs ended with
	said   element.Time
	idle   bool // said last
	over   bool
}

func (d *definition) add() {
	d.at, d.states = append(d.at, element.MinTime), append(d.states, Active)
}

func (d *definition) in(s State) (out []int) {
	for i, is := range d.states {
		if is == s {
			out = append(out, i)
		}
	}
	return out
}

// least is the minimum over the active inputs from first on, and the first input that has it; -1: none is active.
func (d *definition) least(first int) (at element.Time, holder int) {
	at, holder = element.MaxTime, -1
	for _, i := range d.in(Active) {
		if i >= first && (holder < 0 || d.at[i] < at) {
			at, holder = d.at[i], i
		}
	}
	return at, holder
}

// next is all that has to be said since it was asked last.
func (d *definition) next() []element.Event {
	least, holder := d.least(0)
	switch {
	case holder >= 0:
		if least <= d.said && !d.idle {
			return nil
		}
		d.said, d.idle = max(d.said, least), false
		return []element.Event{{Kind: element.Watermark, Time: d.said}}
	case len(d.in(Idle)) > 0:
		if d.idle {
			return nil
		}
		d.idle = true
		return []element.Event{{Kind: element.Idle}}
	case d.over:
		return nil
	}
	d.over = true
	end := slices.Min(d.ends)
	if end < element.MaxTime { // stopped: it promises no less than before
		end = max(end, d.said)
	}
	return []element.Event{{Kind: element.End, Time: end}}
}

func (d *definition) set(i int, t element.Time) {
	if d.states[i] != Ended {
		d.states[i], d.at[i] = Active, max(d.at[i], t)
	}
}

func (d *definition) become(i int, s State) {
	if d.states[i] != Ended {
		d.states[i] = s
	}
}

func (d *definition) finish(i int, t element.Time) {
	if d.states[i] != Ended {
		d.states[i], d.ends = Ended, append(d.ends, t)
	}
}

// change does the same to both. Most of it moves time; idleness comes and goes in the middle, and what is done to an input
// that has ended already counts for nothing.
func change(t *rapid.T, m *Merger, d *definition) {
	i := rapid.IntRange(0, len(d.at)-1).Draw(t, "input")
	at := element.Time(rapid.IntRange(0, 20).Draw(t, "time"))
	switch rapid.SampledFrom([]string{"set", "set", "set", "rest", "rest", "wake", "wake", "end", "stop", "add"}).Draw(t, "change") {
	case "set":
		m.Set(i, at)
		d.set(i, at)
	case "rest":
		m.Rest(i)
		d.become(i, Idle)
	case "wake":
		if woken := m.Wake(i); woken != (d.states[i] == Idle) {
			t.Fatalf("input %d, state %d: woken %v", i, d.states[i], woken)
		}
		d.become(i, Active)
	case "end":
		m.Finish(i, element.MaxTime)
		d.finish(i, element.MaxTime)
	case "stop":
		m.Finish(i, at)
		d.finish(i, at)
	case "add":
		if !d.over {
			m.Add()
			d.add()
		}
	}
}

// TestWatermarkIsTheMinimumOfActiveInputs holds the Merger to the definition: it says all that the definition says and nothing
// else, however many changes lie between two questions.
func TestWatermarkIsTheMinimumOfActiveInputs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "inputs")
		m, d := New(n), &definition{said: element.MinTime}
		for range n {
			d.add()
		}
		for range rapid.IntRange(0, 40).Draw(t, "questions") {
			for range rapid.IntRange(1, 3).Draw(t, "changes") {
				change(t, m, d)
			}
			var said []element.Event
			for ev, ok := m.Next(); ok; ev, ok = m.Next() {
				said = append(said, ev)
			}
			if want := d.next(); !slices.Equal(said, want) {
				t.Fatalf("said %v, want %v; inputs %v %v", said, want, d.at, d.states)
			}
			compare(t, m, d)
		}
	})
}

// compare holds what is told to users of a Merger to the definition.
func compare(t *rapid.T, m *Merger, d *definition) {
	if at, idle := m.Said(); at != d.said || idle != d.idle {
		t.Fatalf("said last %v %v, want %v %v", at, idle, d.said, d.idle)
	}
	if active := slices.Sorted(m.Active()); !slices.Equal(active, d.in(Active)) {
		t.Fatalf("active %v, want %v", active, d.in(Active))
	}
	if m.Len() != len(d.at) {
		t.Fatalf("%d inputs, want %d", m.Len(), len(d.at))
	}
	for i := range d.at {
		if at, state := m.At(i); at != d.at[i] || state != d.states[i] {
			t.Fatalf("input %d: %v %d, want %v %d", i, at, state, d.at[i], d.states[i])
		}
		if _, want := d.least(i); m.Holder(i) != want {
			t.Fatalf("from input %d on %d holds the clock, want %d", i, m.Holder(i), want)
		}
	}
}
