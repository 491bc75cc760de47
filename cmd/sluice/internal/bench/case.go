package bench

import (
	"fmt"
	"slices"
	"strconv"
)

// Case is what is measured.
type Case struct {
	// Name is how the command line calls it: "nexmark q5", "keyed 1000000", "cost q5".
	Name string
	// verb and args are those of the load binary, loop those of the plain loop that does the same; nil: there is none.
	verb string
	args []string
	loop []string
	// judged: there is an independent digest of it.
	judged bool
}

// loops are the queries that package bench/cost has.
var loops = []string{"q0", "q1", "q2", "q3", "q4", "q5", "q7", "q8", "q9", "q11", "q18", "q19", "q20"}

// queries that are measured; q10 writes files, q12 goes by the clock.
var queries = []string{
	"q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "q8", "q9", "q11", "q11b", "q13", "q14", "q15", "q16", "q17", "q18", "q19", "q20", "q21", "q22",
}

// Kinds are the first words of cases, and what follows them.
const Kinds = "nexmark [q0…q22], cost [q0…q20], keyed N [zipf]"

// Parse reads the words of a command line.
func Parse(words []string) ([]Case, error) {
	if len(words) == 0 {
		return nil, fmt.Errorf("no case: %s", Kinds)
	}
	kind, rest := words[0], words[1:]
	switch kind {
	case "nexmark":
		return each(rest, queries, nexmark)
	case "cost":
		return each(rest, loops, func(q string) Case {
			return Case{Name: "cost " + q, verb: "cost", args: []string{"--query=" + q}, judged: true}
		})
	case "keyed":
		return keyed(rest)
	}
	return nil, fmt.Errorf("unknown case %q: %s", kind, Kinds)
}

func each(names, known []string, f func(string) Case) (cases []Case, err error) {
	if len(names) == 0 {
		names = known
	}
	for _, q := range names {
		if !slices.Contains(known, q) {
			return nil, fmt.Errorf("unknown query %q: %v", q, known)
		}
		cases = append(cases, f(q))
	}
	return cases, nil
}

func nexmark(q string) Case {
	c := Case{Name: "nexmark " + q, verb: "run", args: []string{"--query=" + q}, judged: true}
	if slices.Contains(loops, q) {
		c.loop = c.args
	}
	return c
}

func keyed(words []string) (cases []Case, err error) {
	by := ""
	if n := len(words); n > 0 && (words[n-1] == "zipf" || words[n-1] == "uniform") {
		by, words = words[n-1], words[:n-1]
	}
	if len(words) == 0 {
		return nil, fmt.Errorf("keyed: of how many keys? %s", Kinds)
	}
	for _, w := range words {
		n, err := strconv.ParseInt(w, 10, 64)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("keyed: %q is no number of keys", w)
		}
		c := Case{Name: "keyed " + w, verb: "run", args: []string{"--keys=" + w}}
		if by == "zipf" {
			c.Name, c.args = c.Name+" zipf", append(c.args, "--zipf")
		}
		cases = append(cases, c)
	}
	return cases, nil
}
