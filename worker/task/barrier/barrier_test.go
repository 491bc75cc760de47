package barrier_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/task/barrier"
)

// model is channels with their queues: records are 0, barriers their id, the end -1. It obeys the steps as a gate does.
type model struct {
	t      *rapid.T
	a      *barrier.Aligner
	queues [][]int
	held   []bool
	ended  []bool
	passed []int   // by channel: the highest barrier that was taken
	frozen []int   // checkpoints, in order
	cut    [][]int // by frozen checkpoint, by channel: the highest barrier that was taken when it was frozen
	given  int     // the highest checkpoint that was given up from outside
}

func (m *model) obey(ch int, s barrier.Step) {
	if s.Resume {
		clear(m.held)
	}
	if s.Freeze != 0 {
		m.frozen = append(m.frozen, int(s.Freeze))
		m.cut = append(m.cut, slices.Clone(m.passed))
		for c, id := range m.passed {
			if !m.ended[c] && id != int(s.Freeze) {
				m.t.Fatalf("checkpoint %d was frozen when channel %d had brought barrier %d", s.Freeze, c, id)
			}
		}
	}
	if s.Hold {
		m.held[ch] = true
	}
	for c := range m.held {
		if m.held[c] != m.a.Held(c) && !m.ended[c] {
			m.t.Fatalf("channel %d: held is %v", c, m.held[c])
		}
	}
}

// take reads the next element of a channel, if that may be read.
func (m *model) take(ch int) {
	if m.held[ch] || len(m.queues[ch]) == 0 {
		return
	}
	x := m.queues[ch][0]
	m.queues[ch] = m.queues[ch][1:]
	switch {
	case x == 0:
		// A record behind a barrier: that checkpoint must be decided.
		if id := element.CheckpointID(m.passed[ch]); id > m.a.Decided() {
			m.t.Fatalf("a record from behind barrier %d of channel %d was read before the others had brought it", id, ch)
		}
	case x < 0:
		m.ended[ch] = true
		m.obey(ch, m.a.End(ch))
	default:
		m.passed[ch] = x
		m.obey(ch, m.a.Barrier(ch, element.CheckpointID(x)))
	}
}

// TestNothingOfAfterABarrierIsReadBeforeIt plays random channels, triggers and aborts.
func TestNothingOfAfterABarrierIsReadBeforeIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 4).Draw(t, "channels")
		m := &model{t: t, a: barrier.New(n), queues: make([][]int, n), held: make([]bool, n), ended: make([]bool, n), passed: make([]int, n)}
		for ch := range n { // every channel brings some of the barriers, in order, and perhaps its end
			for id := 1; id <= 5; id++ {
				m.queues[ch] = append(m.queues[ch], make([]int, rapid.IntRange(0, 2).Draw(t, "records"))...)
				if rapid.IntRange(0, 9).Draw(t, "misses") > 0 {
					m.queues[ch] = append(m.queues[ch], id)
				}
			}
			m.queues[ch] = append(m.queues[ch], 0)
			if rapid.Bool().Draw(t, "ends") {
				m.queues[ch] = append(m.queues[ch], -1)
			}
		}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				m.obey(0, m.a.Trigger(element.CheckpointID(rapid.IntRange(1, 5).Draw(t, "triggered"))))
			case 1:
				id := rapid.IntRange(1, 5).Draw(t, "aborted")
				if slices.Contains(m.frozen, id) {
					continue
				}
				m.given = max(m.given, id)
				m.obey(0, m.a.Abort(element.CheckpointID(id)))
			default:
				if n > 0 {
					m.take(rapid.IntRange(0, n-1).Draw(t, "channel"))
				}
			}
		}
		if !slices.IsSorted(m.frozen) || len(slices.Compact(slices.Clone(m.frozen))) != len(m.frozen) {
			t.Fatalf("frozen in the order %v", m.frozen)
		}
		// Whatever has happened, the last word of the coordinator lets everything go.
		m.obey(0, m.a.Abort(100))
		if slices.Contains(m.held, true) {
			t.Fatalf("channels are held: %v", m.held)
		}
	})
}

func TestAlignment(t *testing.T) {
	a := barrier.New(3)
	steps := []struct {
		what string
		got  barrier.Step
		want barrier.Step
	}{
		{"the first barrier", a.Barrier(0, 1), barrier.Step{Hold: true, Began: true}},
		{"a trigger of the same id", a.Trigger(1), barrier.Step{}},
		{"the second barrier", a.Barrier(1, 1), barrier.Step{Hold: true}},
		{"the end of the third channel", a.End(2), barrier.Step{Resume: true, Freeze: 1}},
		{"a late barrier", a.Barrier(0, 1), barrier.Step{}},
		{"the next one", a.Barrier(0, 2), barrier.Step{Hold: true, Began: true}},
		{"a higher id gives it up", a.Barrier(1, 3), barrier.Step{Resume: true, Hold: true, Began: true}},
		{"the barrier that was given up", a.Barrier(0, 2), barrier.Step{}},
		{"the one that counts", a.Barrier(0, 3), barrier.Step{Resume: true, Freeze: 3}},
		{"one that aligns", a.Barrier(0, 4), barrier.Step{Hold: true, Began: true}},
		{"an abort", a.Abort(4), barrier.Step{Resume: true}},
		{"a barrier of after it", a.Barrier(1, 4), barrier.Step{}},
		{"an abort of what was never seen", a.Abort(6), barrier.Step{}},
		{"a barrier of it", a.Barrier(1, 6), barrier.Step{}},
		{"both have ended", a.End(0), barrier.Step{}},
		{"", a.End(1), barrier.Step{}},
		{"the trigger is enough", a.Trigger(7), barrier.Step{Freeze: 7}},
		{"once", a.Trigger(7), barrier.Step{}},
	}
	for _, s := range steps {
		if s.got != s.want {
			t.Errorf("%s: %+v, want %+v", s.what, s.got, s.want)
		}
	}
	if a.Current() != 0 || a.Decided() != 7 {
		t.Errorf("at %d, decided %d", a.Current(), a.Decided())
	}
}

// A channel that ends while its barrier is held counts once.
func TestAnEndBehindABarrierCountsOnce(t *testing.T) {
	a := barrier.New(2)
	a.Barrier(0, 1)
	if s := a.End(0); s != (barrier.Step{}) {
		t.Errorf("%+v", s)
	}
	if s := a.Barrier(1, 1); s.Freeze != 1 {
		t.Errorf("%+v", s)
	}
}
