package operatortest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/task"
)

// Order is what an operator promises about the order of its results.
type Order uint8

const (
	// Sets: what is emitted at one step comes in any order.
	Sets Order = iota
	// Exact: in the same order every time.
	Exact
	// BetweenEvents: results overtake each other, but no event.
	BetweenEvents
)

// Subject is an operator that OneSlot plays, with the types of its records erased.
type Subject struct {
	// Covers are the stages that it is made of, as package and function: "window.Tumbling".
	Covers []string
	Script []Step
	Order  Order
	// Later: results are emitted later than the step that they follow from, by the clock or when a call returns.
	Later bool
	// Whole: the operator has no snapshots. Its attempt begins anew.
	Whole bool
	// Least is how much of the script any input has; 0: it may end at once.
	Least int
	// Rests: the operator looks only every so many records whether it has to stop, which its own tests check.
	Rests bool
	// Grain is how exact the times of results are, in microseconds; 0: they are exact. A slow output moves the clock.
	Grain element.Time

	inputs int
	build  func(rt *task.Runtime, out func(v any)) (pushes []func(v any), op task.Operator, err error)
	keys   []func(v any) uint64 // by input; nil: no keys
}

// Step is one step of a script: a record of an input, an event for all of them, or the end of one.
type Step struct {
	Kind  StepKind
	Input int
	Value any
	At    element.Time
	Pass  time.Duration
}

// StepKind says what a Step is.
type StepKind uint8

const (
	// Give hands over Value with the time At.
	Give StepKind = iota
	// Advance passes the watermark At.
	Advance
	// Wait lets time go by.
	Wait
	// EndOf ends Input.
	EndOf
)

// One is an operator with one input.
func One[In, Out any](stage func() task.StageOf[In, Out]) Subject {
	return Subject{inputs: 1, build: func(rt *task.Runtime, out func(v any)) ([]func(v any), task.Operator, error) {
		push, op, err := stage()(rt, func(v Out) { out(v) })
		return []func(v any){feed(push)}, op, err
	}}
}

// Two is an operator with two inputs.
func Two[L, R, Out any](stages func() (task.StageOf[L, Out], task.StageOf[R, Out])) Subject {
	return Subject{inputs: 2, build: func(rt *task.Runtime, out func(v any)) ([]func(v any), task.Operator, error) {
		first, second := stages()
		left, op, err := first(rt, func(v Out) { out(v) })
		if err != nil {
			return nil, op, err
		}
		right, _, err := second(rt, func(v Out) { out(v) })
		return []func(v any){feed(left), feed(right)}, op, err
	}}
}

func feed[T any](push task.Push[T]) func(v any) { return func(v any) { push(v.(T)) } }

// Keyed is s behind keyed edges.
func Keyed[K comparable, L any](s Subject, key func(L) K) Subject {
	return s.keyed(hashed(key))
}

// KeyedBoth is s, which has two inputs, behind keyed edges.
func KeyedBoth[K comparable, L, R any](s Subject, left func(L) K, right func(R) K) Subject {
	return s.keyed(hashed(left), hashed(right))
}

func (s Subject) keyed(keys ...func(any) uint64) Subject {
	s.keys = keys
	return s
}

func hashed[K comparable, T any](key func(T) K) func(any) uint64 {
	hash, err := codec.Hasher[K]()
	if err != nil {
		panic(err) // a key that the test has chosen
	}
	return func(v any) uint64 { return hash(key(v.(T))) }
}

// course is what happens to an operator besides its script.
type course struct {
	name string
	// slow: the one slot of the output is full for a while after each record and each event.
	slow bool
	// idle: the input is idle before each step.
	idle bool
	// barrier: there is one after each step; aborted: every second of their checkpoints is given up.
	barrier, aborted bool
	// turns: after each step the operator is replaced by as many as the next of these says, which restore its snapshot.
	turns []int
	// memory for state, in bytes; 0: no limit.
	memory int64
}

// courses through which what an operator emits must stay the same.
func courses(s *Subject) []course {
	all := []course{
		{name: "an output that takes its time", slow: true},
		{name: "an input that is idle in between", idle: true},
		{name: "a barrier after every step", barrier: true},
	}
	if s.Whole {
		return all
	}
	all = append(all,
		course{name: "a checkpoint after every step, every second one given up", barrier: true, aborted: true, slow: true},
		course{name: "snapshot and restore after every step", turns: []int{1}},
		course{name: "snapshot and restore after every step, and a slow output", turns: []int{1}, slow: true},
		course{name: "no memory for state", memory: 1, barrier: true},
	)
	if s.keys != nil {
		all = append(all, course{name: "another parallelism after every step", turns: []int{2, 1, 3}})
	}
	return all
}

// cuts is at how many places of a script its input ends.
const cuts = 2

// OneSlot plays the script of s and the end of its input in front of an output that holds one record: undisturbed first, and then
// through every course that must not be seen, with ends of the input in between. What is emitted at each step, or over
// all if that is up to a clock, has to be the same; events keep their places; nothing is emitted by a barrier, while the slot is
// full, or behind the end; and an operator that is told to stop stops.
func OneSlot(t *testing.T, s Subject) {
	t.Helper()
	if len(s.Script) == 0 {
		t.Fatal("no script")
	}
	records := 0
	for cut := len(s.Script); cut >= s.Least; cut -= max(1, len(s.Script)/cuts) {
		want := s.play(t, course{name: "undisturbed"}, cut)
		if cut == len(s.Script) {
			records = want.count()
		}
		for _, c := range courses(&s) {
			if cut < len(s.Script) && c.turns == nil && !c.slow {
				continue // the end is the same wherever it comes
			}
			if got := s.play(t, c, cut); got.text(&s, c) != want.text(&s, c) {
				t.Fatalf("%s, end after step %d: emits\n%s\ninstead of\n%s", c.name, cut, got.text(&s, c), want.text(&s, c))
			}
		}
	}
	if records == 0 {
		t.Fatal("the script makes the operator emit nothing: it shows nothing")
	}
	if !s.Rests {
		s.stops(t)
	}
}

// output is what came out, by step; the last part is the end.
type output [][]string

func (p output) count() (n int) {
	for _, step := range p {
		for _, line := range step {
			if !isEvent(line) {
				n++
			}
		}
	}
	return n
}

// event begins the line of one.
const event = "— "

func isEvent(line string) bool { return strings.HasPrefix(line, event) }

// text is the output as far as it must be the same.
func (p output) text(s *Subject, c course) string {
	if s.Later {
		p = output{slices.Concat(p...)}
	}
	var b strings.Builder
	for i, step := range p {
		lines := slices.DeleteFunc(slices.Clone(step), func(line string) bool {
			return isEvent(line) && (line == event+"idle" || c.turns != nil && s.Later) // what was held back the engine says again
		})
		if s.Later {
			lines = lastOfEvents(lines)
		}
		if s.Order != Exact || c.turns != nil && s.keys != nil {
			sortBetweenEvents(lines)
		}
		fmt.Fprintf(&b, "%d: %s\n", i, strings.Join(lines, "\n   "))
	}
	return b.String()
}

// lastOfEvents drops events that another one follows at once: they say less.
func lastOfEvents(lines []string) (out []string) {
	for i, line := range lines {
		if isEvent(line) && i+1 < len(lines) && isEvent(lines[i+1]) {
			continue
		}
		out = append(out, line)
	}
	return out
}

func sortBetweenEvents(lines []string) {
	for from := 0; from < len(lines); {
		to := from
		for to < len(lines) && !isEvent(lines[to]) {
			to++
		}
		slices.Sort(lines[from:to])
		from = to + 1
	}
}

// play runs the first steps of the script and ends the input.
func (s *Subject) play(t *testing.T, c course, steps int) (out output) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &works{t: t, subject: s, course: c, mem: Memory(t, c.memory), watermark: element.MinTime, ended: make([]bool, s.inputs)}
		w.deploy(parallelism(c, 0))
		for i, step := range s.Script[:steps] {
			w.step(step)
			w.after(i)
			out = append(out, w.taken())
		}
		w.end()
		out = append(out, w.taken())
		w.close()
	})
	return out
}

func parallelism(c course, i int) int {
	if len(c.turns) == 0 {
		return 1
	}
	return c.turns[i%len(c.turns)]
}

// stops ends the attempt at the first record that is emitted at the end of the input.
func (s *Subject) stops(t *testing.T) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := &works{t: t, subject: s, mem: Memory(t, 0), watermark: element.MinTime, ended: make([]bool, s.inputs), ctx: ctx}
		w.deploy(1)
		for _, step := range s.Script {
			w.step(step)
		}
		w.taken()
		w.ending = cancel
		w.finish(w.subs[0])
		if lines := w.taken(); (output{lines}).count() > 1 {
			t.Fatalf("told to stop at the first of these records, it emits\n%s", strings.Join(lines, "\n"))
		}
		w.close()
	})
}
