package flowtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/flow/launch"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// runs is how often Deterministic runs a job, the first time not counted.
const runs = 12

// Deterministic builds the job repeatedly and fails the test at the first difference between two graphs.
//
// With sinks among the options (Sink) it also runs the job, again and again, each time in a bubble of testing/synctest: with
// another number of cores, and with the records of the Sources among the options coming at other moments, in batches of other
// sizes, so that inputs meet in ever other orders; those of Disordered are shuffled, too. The clock of a bubble goes on only
// when everything that has come was processed, so that a seed fixes the order of arrival. Every run must commit the
// same values to each sink, in any order. The first seed that does not is printed; Seed runs it alone.
func Deterministic[C any](t *testing.T, cfg *C, build func(*flow.Pipeline, *C) error, opts ...Option) {
	t.Helper()
	if err := sameGraph(cfg, build); err != nil {
		t.Fatal(err)
	}
	if err := sameAnswer(t, cfg, build, opts); err != nil {
		t.Fatal(err)
	}
}

// seed is an Option of Deterministic.
type seed uint64

// Seed makes Deterministic run this seed alone.
func Seed(n uint64) Option { return seed(n) }

func (seed) prepare(*flow.Pipeline, *launch.Embedding) {}

func sameGraph[C any](cfg *C, build func(*flow.Pipeline, *C) error) error {
	graph := func() (*jobpb.Graph, error) {
		p, err := flow.Build("test", cfg, build)
		if err != nil {
			return nil, err
		}
		prog, err := p.Program()
		if err != nil {
			return nil, err
		}
		return prog.Graph, nil
	}
	first, err := graph()
	if err != nil {
		return err
	}
	var broken error
	diags := launch.Deterministic(first, func() (*jobpb.Graph, []*jobpb.Diagnostic) {
		g, err := graph()
		if err != nil {
			broken = err
			return first, nil
		}
		return g, nil
	})
	if broken == nil && len(diags) > 0 {
		broken = &flow.PlanError{Diagnostics: diags}
	}
	return broken
}

// answering is a Collected of any type.
type answering interface {
	Option
	answer() []string
}

// answer is what was committed, sorted.
func (c *Collected[T]) answer() []string {
	rows := []string{}
	for _, v := range c.Values() {
		rows = append(rows, fmt.Sprintf("%s: %+v", c.id, v))
	}
	slices.Sort(rows)
	return rows
}

func sameAnswer[C any](t *testing.T, cfg *C, build func(*flow.Pipeline, *C) error, opts []Option) error {
	t.Helper()
	seeds := []uint64{}
	for n := range uint64(runs) {
		seeds = append(seeds, n+1)
	}
	sinks := false
	for _, o := range opts {
		_, sink := o.(answering)
		sinks = sinks || sink
		if n, ok := o.(seed); ok {
			seeds = []uint64{uint64(n)}
		}
	}
	if !sinks {
		return nil
	}
	if err := Try(t, cfg, build, append(slices.Clip(opts), Cores(1))...); err != nil {
		return fmt.Errorf("undisturbed: %w", err)
	}
	want := answers(opts)
	for _, n := range seeds {
		if err := explore(t, cfg, build, opts, n); err != nil {
			return fmt.Errorf("seed %d (replay it with flowtest.Seed(%d)): %w", n, n, err)
		}
		if d := difference(want, answers(opts)); d != "" {
			return fmt.Errorf("seed %d (replay it with flowtest.Seed(%d)): other records than undisturbed:\n%s", n, n, d)
		}
	}
	return nil
}

// explore runs the job once, as a seed says.
func explore[C any](t *testing.T, cfg *C, build func(*flow.Pipeline, *C) error, opts []Option, n uint64) (err error) {
	t.Helper()
	r := rand.New(rand.NewPCG(n, 0))
	const mostCores = 4
	disturbed := append(slices.Clip(opts), Cores(1+r.IntN(mostCores)))
	for i, o := range opts {
		if v, ok := o.(varied); ok {
			disturbed[i] = option(func(p *flow.Pipeline, _ *launch.Embedding) { v.vary(p, r) })
		}
	}
	synctest.Test(t, func(t *testing.T) { err = Try(t, cfg, build, disturbed...) })
	return err
}

func answers(opts []Option) (rows []string) {
	for _, o := range opts {
		if a, ok := o.(answering); ok {
			rows = append(rows, a.answer()...)
		}
	}
	return rows
}

// difference are the first rows, of both multisets, that the other one does not have.
func difference(want, got []string) string {
	count := map[string]int{}
	for _, row := range want {
		count[row]--
	}
	for _, row := range got {
		count[row]++
	}
	var lines []string
	for _, row := range slices.Concat(want, got) {
		if n := count[row]; n < 0 {
			lines = append(lines, "- "+row)
		} else if n > 0 {
			lines = append(lines, "+ "+row)
		}
		count[row] = 0
	}
	const most = 10
	if len(lines) > most {
		lines = append(lines[:most], "…")
	}
	return strings.Join(lines, "\n")
}
