package nemesis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sluiceio/sluice/jepsen/history"
)

// Target is a process that can be hurt. cluster.Node is one.
type Target interface {
	Name() string
	Alive() bool
	// Kill ends the process as kill -9 does.
	Kill() error
	// Start runs it again on its old data.
	Start(ctx context.Context) error
	// Pause stops the process without ending it; Resume continues it.
	Pause() error
	Resume() error
}

// Action is one thing to do to a target.
type Action string

const (
	Kill   Action = "kill"
	Start  Action = "start"
	Pause  Action = "pause"
	Resume Action = "resume"
)

// Step is an action after a delay. Healing steps (start, resume) act on the target of the step that they heal.
type Step struct {
	After  time.Duration
	Action Action
	Heals  int // index of the step that this one heals; -1 for a step that hurts
}

// Plan draws n faults from kinds (Kill, Pause), the pauses between them and their lengths, from one seed.
func Plan(seed uint64, n int, gap, length time.Duration, kinds ...Action) []Step {
	rnd := rand.New(rand.NewPCG(seed, 0x5ce9e7))
	var steps []Step
	for range n {
		kind := kinds[rnd.IntN(len(kinds))]
		heal := Start
		if kind == Pause {
			heal = Resume
		}
		steps = append(steps, Step{After: jitter(rnd, gap), Action: kind, Heals: -1})
		steps = append(steps, Step{After: jitter(rnd, length), Action: heal, Heals: len(steps) - 1})
	}
	return steps
}

// jitter is uniform in [d/2, 3d/2).
func jitter(rnd *rand.Rand, d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d/2 + time.Duration(rnd.Int64N(int64(d)))
}

// Nemesis performs plans.
type Nemesis struct {
	// Pick chooses the target when a hurting step is due, for example the leader of that moment.
	Pick func(ctx context.Context) (Target, error)
	Log  *history.Recorder
}

// Outcome counts the faults that really took effect.
type Outcome struct {
	Hurt   map[Action]int
	Missed int // the target was dead already, or there was none
}

// Run performs steps in order. It heals everything that it has hurt before it returns, also on an error.
func (n *Nemesis) Run(ctx context.Context, steps []Step) (out Outcome, err error) {
	out.Hurt = map[Action]int{}
	hurt := map[int]Target{}
	defer func() {
		for i, t := range hurt {
			if e := n.heal(context.WithoutCancel(ctx), steps[i].Action, t); e != nil && err == nil {
				err = e
			}
		}
	}()
	for i, s := range steps {
		if err := wait(ctx, s.After); err != nil {
			return out, err
		}
		if s.Heals >= 0 {
			if t := hurt[s.Heals]; t != nil {
				delete(hurt, s.Heals)
				if err := n.heal(ctx, steps[s.Heals].Action, t); err != nil {
					return out, err
				}
			}
			continue
		}
		t, err := n.Pick(ctx)
		if err != nil || !t.Alive() {
			out.Missed++
			continue
		}
		if err := n.hurt(s.Action, t); err != nil {
			return out, err
		}
		hurt[i] = t
		out.Hurt[s.Action]++
	}
	return out, nil
}

func (n *Nemesis) hurt(a Action, t Target) error {
	n.Log.Fault(string(a), t.Name())
	var err error
	switch a {
	case Kill:
		err = t.Kill()
	case Pause:
		err = t.Pause()
	default:
		err = fmt.Errorf("no such fault")
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", a, t.Name(), err)
	}
	return nil
}

func (n *Nemesis) heal(ctx context.Context, was Action, t Target) error {
	var err error
	switch was {
	case Kill:
		n.Log.Fault(string(Start), t.Name())
		err = t.Start(ctx)
	case Pause:
		n.Log.Fault(string(Resume), t.Name())
		err = t.Resume()
	}
	if err != nil {
		return fmt.Errorf("heal %s of %s: %w", was, t.Name(), err)
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
