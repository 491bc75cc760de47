package model

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/proto/jobpb"
)

// stages is a source that is merged while it runs and dealt out in turn to a second stage, whose records go to a third one
// by key, and so to a fourth. Each stage has two subtasks: a0 a1 b0 b1 c0 c1 d0 d1; s0 and s1 feed a.
func stages() *jobpb.Plan {
	p := &jobpb.Plan{Graph: &jobpb.Graph{}}
	for i, name := range []string{"s", "t", "a", "b", "c", "d"} {
		p.Graph.Operators = append(p.Graph.Operators, &jobpb.Operator{Id: name, Bounded: true})
		p.Chains = append(p.Chains, &jobpb.Chain{Index: int32(i), Operators: []int32{int32(i)}, Parallelism: 2, Name: name})
	}
	edge := func(from, to int32, by jobpb.Partitioner, kind jobpb.ExchangeKind, reproducible bool) {
		p.Edges = append(p.Edges, &jobpb.Edge{
			Index: int32(len(p.Edges)), FromOperator: from, ToOperator: to, FromChain: from, ToChain: to, Partitioner: by, Exchange: kind, Reproducible: reproducible,
		})
	}
	const blocking, pipelined = jobpb.ExchangeKind_EXCHANGE_BLOCKING, jobpb.ExchangeKind_EXCHANGE_PIPELINED
	edge(0, 2, jobpb.Partitioner_PARTITIONER_FORWARD, pipelined, true)
	edge(1, 2, jobpb.Partitioner_PARTITIONER_FORWARD, pipelined, true)
	edge(2, 3, jobpb.Partitioner_PARTITIONER_REBALANCE, blocking, false)
	edge(3, 4, jobpb.Partitioner_PARTITIONER_HASH, blocking, true)
	edge(4, 5, jobpb.Partitioner_PARTITIONER_HASH, blocking, true)
	return p
}

func newPlan(t *testing.T, p *jobpb.Plan) *Plan {
	t.Helper()
	n, err := NewPlan(p)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// places are the subtasks that a text names.
func places(p *jobpb.Plan, text string) []bool {
	set := make([]bool, 0, 12)
	for _, c := range p.Chains {
		for i := range c.Parallelism {
			set = append(set, slices.Contains(strings.Fields(text), fmt.Sprint(c.Name, i)))
		}
	}
	return set
}

// states of a text of one letter per stage a, b, c, d and subtask: w, a, f. The sources are as the subtask that they feed.
func states(text string) (s []State) {
	of := map[rune]State{'w': Waiting, 'a': Acting, 'f': Finished}
	for _, r := range strings.ReplaceAll(text, " ", "") {
		s = append(s, of[r])
	}
	return slices.Concat(s[:2], s[:2], s)
}

func TestWhatRunsAgainIsWhatTheRuleSays(t *testing.T) {
	p := stages()
	n := newPlan(t, p)
	for _, c := range []struct{ name, states, fails, unreadable, want string }{
		{"an attempt is lost: it, and what is chained to it by records under way", "aa ww ww ww", "a0", "", "a0 s0 t0"},
		{"what nobody has read yet has finished and stays so", "fa ww ww ww", "a1", "", "a1 s1 t1"},
		{"a lost result is wanted by readers that wait: its producer alone", "ff ww ww ww", "", "a0", "a0 s0 t0"},
		{"a lost result of unordered routing: all of its readers", "ff aa ww ww", "", "a0", "a0 s0 t0 b0 b1"},
		{"and also those that have finished, because their records are dealt anew", "ff fa ww ww", "", "a0", "a0 s0 t0 b0 b1"},
		{"a reader fails: what it has read stays", "ff fa ww ww", "b1", "", "b1"},
		{"a lost result by key: its producer, and the readers that are not done", "ff ff fa ww", "", "b0", "b0 c1"},
		{"a lost result that everybody has read is not made again", "ff ff aa ww", "", "a0", ""},
		{"a result is lost with the one that it was made of: dealt anew, so everybody", "ff ff fa ww", "", "b0 a0", "a0 s0 t0 b0 b1 c0 c1"},
		{"the last stage with all before it lost on the way", "ff ff ff fa", "", "c0 b0 a1", "a1 s1 t1 b0 b1 c0 c1 d0 d1"},
		{"the last stage by key", "ff ff ff fa", "", "c0", "c0 d1"},
		{"who waits does not run again, but what it will read has changed for those behind it", "ff wf fa ww", "", "a0", "a0 s0 t0 b1 c0 c1"},
		{"everything has finished: nothing is wanted", "ff ff ff ff", "", "a0 a1 b0 b1 c0 c1", ""},
		{"a loss of who waits is none", "ff ww ww ww", "b0 b1", "", ""},
	} {
		m := Moment{States: states(c.states), Fails: places(p, c.fails), Unreadable: places(p, c.unreadable)}
		if may, want := n.May(m), places(p, c.want); !slices.Equal(may, want) {
			t.Errorf("%s: %v, want %v", c.name, may, want)
		}
	}
}

// Whatever the states really are, what runs again lies between Must and May; and if they are known, all three are the same.
func TestUnknownStatesMakeARangeThatHoldsEveryAnswer(t *testing.T) {
	n := newPlan(t, stages())
	rnd := rand.New(rand.NewPCG(1, 2))
	flip := func() (set []bool) {
		for range n.Subtasks {
			set = append(set, rnd.IntN(4) == 0)
		}
		return set
	}
	for range 2000 {
		unknown := Moment{Fails: flip(), Unreadable: flip()}
		known := Moment{Fails: unknown.Fails, Unreadable: unknown.Unreadable}
		for i := range n.Subtasks {
			is := []State{Waiting, Acting, Finished}[rnd.IntN(3)]
			known.States = append(known.States, is)
			unknown.States = append(unknown.States, is|State(rnd.IntN(8)))
			if k := n.Together(i)[0]; k < i { // waiting is a matter of regions
				known.States[i], unknown.States[i] = known.States[k], unknown.States[k]
			}
		}
		exact := n.May(known)
		if must := n.Must(known); !slices.Equal(must, exact) {
			t.Fatalf("%v: must %v, may %v", known, must, exact)
		}
		may, must := n.May(unknown), n.Must(unknown)
		for i := range exact {
			if must[i] && !exact[i] || exact[i] && !may[i] {
				t.Fatalf("subtask %d: must %t, is %t, may %t\nknown %v\nunknown %v", i, must[i], exact[i], may[i], known, unknown)
			}
		}
	}
}

func TestAPlanThatCannotBeJudgedIsRefused(t *testing.T) {
	for what, spoil := range map[string]func(p *jobpb.Plan){
		"reproducible": func(p *jobpb.Plan) { p.Edges[2].Reproducible = true },
		"rules false":  func(p *jobpb.Plan) { p.Graph.Operators[3].Nondeterministic = true },
		"depends on the order": func(p *jobpb.Plan) { // what b stores comes in another order, and c deals it out
			p.Graph.Operators[3].Unordered = true
			p.Edges[4].Partitioner = jobpb.Partitioner_PARTITIONER_REBALANCE
		},
		"not modelled":   func(p *jobpb.Plan) { p.Edges[3].Partitioner = jobpb.Partitioner_PARTITIONER_RESCALE },
		"forward from 2": func(p *jobpb.Plan) { p.Chains[2].Parallelism = 3 },
		"inside their region": func(p *jobpb.Plan) {
			e := proto.CloneOf(p.Edges[3])
			e.Index, e.Exchange = 5, jobpb.ExchangeKind_EXCHANGE_PIPELINED
			p.Edges = append(p.Edges, e)
		},
	} {
		p := stages()
		spoil(p)
		if _, err := NewPlan(p); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%q: %v", what, err)
		}
	}
}

func TestReadersAndPlacesAreThoseOfThePlan(t *testing.T) {
	n := newPlan(t, stages())
	if r := n.Readers(n.Position(3, 1)); !slices.Equal(r, []int{n.Position(4, 0), n.Position(4, 1)}) {
		t.Errorf("readers of b1: %v", r)
	}
	if r := n.Together(n.Position(2, 1)); !slices.Equal(r, []int{n.Position(0, 1), n.Position(1, 1), n.Position(2, 1)}) {
		t.Errorf("with a1: %v", r)
	}
	if i := n.Position(9, 0); i != -1 {
		t.Errorf("a subtask that is not there is at %d", i)
	}
}
