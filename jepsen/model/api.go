package model

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/sluiceio/sluice/jepsen/history"
)

// The model of the API is what clients may rely on, for one request id: submits with it are one job, whoever is asked; a job that was
// acknowledged is seen by every later question; what has ended stays as it has ended, and what is being ended does not
// run again.
//
// Lists are split up: what they say of one request is judged with the other calls of that request. That every call of one
// object is linearizable makes the whole linearizable; that a list is a snapshot of all of them is not judged here.

// call of one request.
type call struct {
	what    string // history.Submit, …, or seen: a list had it, or not
	answer  string // job id, status; "" of status: no such job
	unknown bool
}

const seen = "seen"

// request is the state of one request id.
type request struct {
	job   string // "": none; unnamed: there is one, its id is not known
	phase int
	end   string // status that it has ended with
}

const unnamed = "?"

// phases of a job, in the order of life. Within alive the statuses come and go.
const (
	alive = iota
	ending
	ended
)

func phaseOf(status string) int {
	switch {
	case history.Terminal(status):
		return ended
	case strings.HasSuffix(status, "LING") || strings.HasSuffix(status, "FAILING") || strings.HasSuffix(status, "STOPPING"):
		return ending
	}
	return alive
}

// step is the model.
func step(s request, c call) (bool, request) {
	switch c.what {
	case history.Submit:
		switch {
		case s.job == "" || s.job == unnamed && !c.unknown:
			if s.job = c.answer; c.unknown {
				s.job = unnamed
			}
			return true, s
		case c.unknown:
			return true, s
		}
		return s.job == c.answer, s
	case seen:
		return (c.answer != "") == (s.job != ""), s
	case history.Cancel:
		if c.unknown {
			s.phase = max(s.phase, ending)
			return s.job != "", s
		}
		fallthrough
	case history.Status:
		if c.unknown {
			return true, s
		}
		if c.answer == "" || s.job == "" {
			return c.answer == "" && s.job == "", s
		}
		phase := phaseOf(c.answer)
		if phase < s.phase || s.end != "" && s.end != c.answer {
			return false, s
		}
		if s.phase = phase; phase == ended {
			s.end = c.answer
		}
		return true, s
	}
	return false, s
}

// Verdict of a check.
type Verdict string

const (
	Linearizable Verdict = "linearizable"
	Violated     Verdict = "not linearizable"
	Undecided    Verdict = "not decided in time"
)

// Linearize judges the calls of a history. Calls counts them; about names a request for which no order explains the answers.
func Linearize(ops []history.Op, limit time.Duration) (v Verdict, calls int, about string, err error) {
	byRequest, err := calledBy(ops)
	if err != nil {
		return Undecided, 0, "", err
	}
	m := porcupine.Model{
		Init: func() any { return request{} },
		Step: func(state, input, _ any) (bool, any) { return stepAny(state, input) },
		DescribeOperation: func(input, _ any) string {
			return fmt.Sprintf("%+v", input)
		},
	}
	v = Linearizable
	names := make([]string, 0, len(byRequest))
	for name := range byRequest {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		calls += len(byRequest[name])
		switch porcupine.CheckOperationsTimeout(m, byRequest[name], limit) {
		case porcupine.Illegal:
			return Violated, calls, name, nil
		case porcupine.Unknown:
			v, about = Undecided, name
		}
	}
	return v, calls, about, nil
}

func stepAny(state, input any) (bool, any) {
	s, okState := state.(request)
	c, okCall := input.(call)
	if !okState || !okCall {
		return false, state
	}
	return step(s, c)
}

// open is a call without an answer yet.
type open struct {
	op      history.Op
	request string
}

// calledBy sorts calls by request. A call that certainly had no effect is left out; one whose outcome is unknown may take effect at
// any time after it was made.
func calledBy(ops []history.Op) (map[string][]porcupine.Operation, error) {
	answers := map[int]history.Op{}
	jobs := map[string]string{} // request by job
	for _, op := range ops {
		if op.Kind != history.OK && op.Kind != history.Fail && op.Kind != history.Unknown {
			continue
		}
		answers[op.Call] = op
	}
	var all []open
	clients := map[string]int{}
	for _, op := range ops {
		if op.Kind != history.Invoke {
			continue
		}
		o, err := opened(op)
		if err != nil {
			return nil, err
		}
		var job string
		if a := answers[op.Call]; op.What == history.Submit && a.Kind == history.OK && json.Unmarshal(a.Value, &job) == nil {
			jobs[job] = o.request
		}
		all = append(all, o)
	}
	by := map[string][]porcupine.Operation{}
	for _, o := range all {
		if _, ok := clients[o.op.Client]; !ok {
			clients[o.op.Client] = len(clients)
		}
		if err := add(by, o, answers, jobs, clients[o.op.Client]); err != nil {
			return nil, err
		}
	}
	return by, nil
}

func opened(op history.Op) (o open, err error) {
	o.op = op
	switch op.What {
	case history.Submit:
		err = json.Unmarshal(op.Value, &o.request)
	case history.Status, history.Cancel:
		var a history.Ask
		err = json.Unmarshal(op.Value, &a)
		o.request = a.Request
	}
	if err != nil {
		err = fmt.Errorf("history line %d: %s: %w", op.Index, op.What, err)
	}
	return o, err
}

func add(by map[string][]porcupine.Operation, o open, answers map[int]history.Op, jobs map[string]string, client int) error {
	a, answered := answers[o.op.Call]
	if a.Kind == history.Fail {
		return nil
	}
	made := porcupine.Operation{ClientId: client, Call: int64(o.op.Index), Return: int64(a.Index)}
	unknown := !answered || a.Kind == history.Unknown
	if unknown {
		made.Return = math.MaxInt64
	}
	if o.op.What == history.List {
		if unknown {
			return nil
		}
		var ids []string
		if err := json.Unmarshal(a.Value, &ids); err != nil {
			return fmt.Errorf("history line %d: list: %w", a.Index, err)
		}
		for job, request := range jobs {
			c := call{what: seen}
			if slices.Contains(ids, job) {
				c.answer = job
			}
			op := made
			op.Input = c
			by[request] = append(by[request], op)
		}
		return nil
	}
	if unknown && o.op.What == history.Status {
		return nil // a question changes nothing
	}
	c := call{what: o.op.What, unknown: unknown}
	if !unknown {
		if err := json.Unmarshal(a.Value, &c.answer); err != nil {
			return fmt.Errorf("history line %d: %s: %w", a.Index, o.op.What, err)
		}
	}
	made.Input = c
	by[o.request] = append(by[o.request], made)
	return nil
}
