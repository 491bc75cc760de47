package task

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// lives is an unbounded source of one split per subtask, each fed by the test.
type lives struct {
	counted[int]
	of []*live
}

func newLives(n int) *lives {
	s := &lives{counted: counted[int]{n: n, splits: n, endless: true}}
	for range n {
		s.of = append(s.of, &live{counted: s.counted, feed: make(chan record)})
	}
	return s
}

func (s *lives) OpenReader(ctx context.Context, t *connector.Task) (connector.Reader[int], error) {
	return s.of[t.Subtask].OpenReader(ctx, t)
}

// stands is what the subtasks of a chain in both processes have told last: their watermark, or that they are idle.
func (p pair) stands(chain int32) (text string) {
	for range 2 { // an answer is that to the question before
		text = ""
		for _, c := range p {
			for _, k := range c.proc.Sample().Clocks {
				if k.Chain != chain {
					continue
				}
				text += fmt.Sprintf("[%d] %s", k.Index, at(k.WatermarkUs))
				if k.Idle {
					text += " idle"
				}
			}
		}
		synctest.Wait()
	}
	return text
}

// Idleness, and its end, cross unions, joins and the exchange between processes: time is held by whoever is active, wherever.
func TestIdlenessCrossesProcessesAndInputs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newLives(2), newLives(1)
		opts := SourceOptions[int]{Watermarks: WatermarksBounded, IdleAfter: time.Minute}
		j := newJob(t)
		x, same := NewExchange(mustCodec[int](t)), mapped(func(v int) int { return v })
		by := jobpb.Partitioner_PARTITIONER_REBALANCE
		both := j.join("both", 2,
			end{from: j.source("a", 2, NewSource[int](a, opts)), by: by, x: x, st: same},
			end{from: j.source("b", 1, NewSource[int](b, opts)), by: by, x: x, st: same})
		j.join("behind", 2, end{from: both, by: by, x: x, st: same})
		p := startPair(t, j)
		p.deploy(t, 1, 1)
		p[0].awaitRunning(4)
		p[1].awaitRunning(3)
		step := func(what, want string) {
			t.Helper()
			<-time.After(10 * time.Millisecond)
			for _, chain := range []int32{2, 3} {
				if got := p.stands(chain); got != want {
					t.Errorf("%s: chain %d is at %s, want %s", what, chain, got, want)
				}
			}
		}
		step("at the beginning", "[0] -∞[1] -∞")
		a.of[0].give(record{v: 1, at: 100})
		a.of[1].give(record{v: 1, at: 200})
		b.of[0].give(record{v: 1, at: 150})
		step("the slowest holds", "[0] 99[1] 99")
		<-time.After(50 * time.Second)
		a.of[1].give(record{v: 1, at: 300})
		b.of[0].give(record{v: 1, at: 250})
		step("it is not idle yet", "[0] 99[1] 99")
		<-time.After(20 * time.Second)
		step("a subtask is idle", "[0] 249[1] 249")
		a.of[1].give(record{v: 1, at: 400})
		<-time.After(50 * time.Second)
		step("an input is idle", "[0] 399[1] 399")
		<-time.After(time.Minute)
		step("all is idle", "[0] 399 idle[1] 399 idle")
		a.of[0].give(record{v: 1, at: 110})
		step("who is back behind the clock does not turn it back", "[0] 399[1] 399")
		a.of[1].give(record{v: 1, at: 500})
		step("but holds it", "[0] 399[1] 399")
		a.of[0].give(record{v: 1, at: 450})
		step("until it has caught up", "[0] 449[1] 449")
	})
}

// After a restart no idleness of before counts: a split is silent from when its reader gets it.
func TestIdlenessBeginsAnewAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newLives(2)
		j := newJob(t)
		opts := SourceOptions[int]{Watermarks: WatermarksBounded, IdleAfter: time.Minute}
		j.join("out", 2, end{from: j.source("a", 2, NewSource[int](a, opts)), by: jobpb.Partitioner_PARTITIONER_REBALANCE,
			x: NewExchange(mustCodec[int](t)), st: mapped(func(v int) int { return v })})
		p := startPair(t, j)
		p.deploy(t, 1, 1)
		p[0].awaitRunning(2)
		p[1].awaitRunning(2)
		<-time.After(50 * time.Second)
		a.of[1].give(record{v: 1, at: 300})
		<-time.After(20 * time.Second)
		if got := p.stands(1); got != "[0] 299[1] 299" {
			t.Errorf("before, it is at %s", got)
		}
		p[0].restart()
		p.deploy(t, 2, 2)
		for _, c := range p {
			c.await(2)
			c.awaitRunning(2)
		}
		a.of[1].give(record{v: 1, at: 300})
		<-time.After(50 * time.Second)
		if got := p.stands(1); got != "[0] -∞[1] -∞" {
			t.Errorf("a split that had been idle does not hold the clock after a restart: %s", got)
		}
		<-time.After(5 * time.Second)
		a.of[1].give(record{v: 1, at: 300})
		<-time.After(10 * time.Second)
		if got := p.stands(1); got != "[0] 299[1] 299" {
			t.Errorf("afterwards it is at %s", got)
		}
	})
}
