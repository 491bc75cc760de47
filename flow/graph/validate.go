package graph

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluiceio/sluice/proto/jobpb"
)

// Codes of faults in a graph.
const (
	CodeBadID       = "E010" // an id that cannot be part of a name
	CodeDoubleID    = "E011" // an id that is used twice
	CodeEndless     = "E013" // batch mode with endless input
	CodeNoID        = "E014" // an operator whose state could not be found again
	CodeInit        = "E016" // state is to be loaded from input that never ends
	CodeBlocking    = "E020" // a blocking exchange behind endless input
	CodeWhole       = "E021" // an operator that needs the whole of its input gets one that never ends
	CodeMalformed   = "E025" // not a graph
	CodeParallelism = "E037" // more subtasks than key groups
)

// DefaultMaxParallelism is the number of key groups of a job that says none.
const DefaultMaxParallelism = 256

// KeyGroups is the number of key groups of the job.
func KeyGroups(g *jobpb.Graph) int32 {
	if g.MaxParallelism == 0 {
		return DefaultMaxParallelism
	}
	return g.MaxParallelism
}

// Validate reports every fault of g that makes it unplannable. It trusts nothing: a graph comes from a user's process.
func Validate(g *jobpb.Graph) []*jobpb.Diagnostic {
	if err := g.Validate(); err != nil {
		return []*jobpb.Diagnostic{{Code: CodeMalformed, Message: err.Error(), Hints: []string{"the job binary and the cluster may be of different releases: build it again"}}}
	}
	v := &validation{g: g, first: map[string]*jobpb.Operator{}}
	for _, o := range g.Operators {
		v.checkID(o)
		v.checkBounds(o)
		v.checkParallelism(o)
	}
	return v.faults
}

type validation struct {
	g      *jobpb.Graph
	first  map[string]*jobpb.Operator // by id
	faults []*jobpb.Diagnostic
}

func (v *validation) fault(code string, o *jobpb.Operator, message string, hints ...string) {
	if code == CodeWhole && slices.ContainsFunc(v.faults, func(d *jobpb.Diagnostic) bool { return d.Code == code && d.Where == o.Location && d.Where != "" }) {
		return // one call of the user may make several operators
	}
	v.faults = append(v.faults, &jobpb.Diagnostic{Code: code, Message: message, Where: o.Location, Hints: hints})
}

// maxID is the longest id, in bytes: ids are part of external names.
const maxID = 100

func (v *validation) checkID(o *jobpb.Operator) {
	switch {
	case o.Id == "":
		v.fault(CodeNoID, o, fmt.Sprintf("a %s without an id", o.Kind), "give it a name that is unique in the job")
		return
	case len(o.Id) > maxID || strings.ContainsFunc(o.Id, func(r rune) bool { return r < ' ' || r == 0x7f || r == '/' || r == '\\' }) || strings.Trim(o.Id, " .") != o.Id:
		v.fault(CodeBadID, o, fmt.Sprintf("%.120q cannot be an id", o.Id),
			fmt.Sprintf("use at most %d bytes, without control characters and slashes, and no dot or space at its ends", maxID))
	}
	if other := v.first[o.Id]; other != nil {
		hint := "ids are unique in a job: rename one of them"
		if other.Location != "" {
			hint = fmt.Sprintf("the other one stands at %s; ids are unique in a job: rename one", other.Location)
		}
		v.fault(CodeDoubleID, o, fmt.Sprintf("id %q is used twice", o.Id), hint)
		return
	}
	v.first[o.Id] = o
	if o.GeneratedId && o.Stateful && !o.Bounded {
		v.fault(CodeNoID, o, fmt.Sprintf("operator without id: %s keeps state that could not be found again after the next change of the code", o.Id),
			fmt.Sprintf(".ID(%q), or another name that you will not change", o.Kind))
	}
}

func (v *validation) checkBounds(o *jobpb.Operator) {
	bounded := true
	for i, in := range o.Inputs {
		up := v.g.Operators[in.Operator]
		bounded = bounded && up.Bounded
		if in.Exchange == jobpb.ExchangeKind_EXCHANGE_BLOCKING && in.Why == "" && !up.Bounded {
			v.fault(CodeBlocking, o, fmt.Sprintf("input %d of %q (from %q) is to be exchanged as a whole%s, but %s", i, o.Id, up.Id, at(in.Location), v.endless(in)),
				"leave the exchange to the planner, or bound the source")
		}
	}
	if len(o.Inputs) > 0 && bounded != o.Bounded {
		v.fault(CodeMalformed, o, fmt.Sprintf("%q says bounded=%t, its inputs say otherwise", o.Id, o.Bounded), "build the job again with one release")
	}
	if len(o.Inputs) == 0 && !o.Bounded && v.g.Mode == jobpb.Mode_MODE_BATCH {
		v.fault(CodeEndless, o, fmt.Sprintf("batch mode%s, but source %q never ends", at(v.g.ModeLocation), o.Id), "use another mode, or bound the source")
	}
	v.checkWhole(o)
}

// checkWhole: what an operator wants to its end has one.
func (v *validation) checkWhole(o *jobpb.Operator) {
	for _, in := range o.Inputs {
		if v.g.Operators[in.Operator].Bounded {
			continue
		}
		before, gated := followers(o, in)
		switch {
		case gated:
			v.fault(CodeInit, o, fmt.Sprintf("%q is loaded from %q before it processes anything, but %s", o.Id, v.g.Operators[in.Operator].Id, v.endless(in)),
				"bound the source, or process both inputs as they come")
			return
		case before || o.BatchMemory:
			v.fault(CodeWhole, o, fmt.Sprintf("%q (%s) needs the whole of its input, but %s", o.Id, o.Kind, v.endless(in)),
				"bound the source, or divide the input into windows: KeyBy(…).Window(…)")
			return
		}
	}
	gates := 0
	for _, in := range o.Inputs {
		if _, gated := followers(o, in); gated {
			gates++
		}
	}
	if gates == 0 && slices.ContainsFunc(o.Inputs, (*jobpb.Input).GetGated) {
		v.fault(CodeMalformed, o, fmt.Sprintf("%q has a gate and nothing in front of it", o.Id), "build the job again with one release")
	}
}

// followers: whether an operator wants other inputs after this one, and one of them gated.
func followers(o *jobpb.Operator, first *jobpb.Input) (any, gated bool) {
	for _, in := range o.Inputs {
		if in.Phase > first.Phase {
			any, gated = true, gated || in.Gated
		}
	}
	return any, gated
}

// endless names the source that never ends behind an input.
func (v *validation) endless(in *jobpb.Input) string {
	o := v.g.Operators[in.Operator]
	for len(o.Inputs) > 0 {
		i := slices.IndexFunc(o.Inputs, func(in *jobpb.Input) bool { return !v.g.Operators[in.Operator].Bounded })
		if i < 0 { // it lies about its bounds, which is reported
			break
		}
		o = v.g.Operators[o.Inputs[i].Operator]
	}
	return fmt.Sprintf("source %q%s never ends", o.Id, at(o.Location))
}

// at is a place inside a sentence.
func at(location string) string {
	if location == "" {
		return ""
	}
	return " (at " + location + ")"
}

func (v *validation) checkParallelism(o *jobpb.Operator) {
	groups := KeyGroups(v.g)
	if o.Parallelism <= groups {
		return
	}
	for _, in := range o.Inputs {
		if in.Partitioner == jobpb.Partitioner_PARTITIONER_HASH {
			v.fault(CodeParallelism, o, fmt.Sprintf("%q has parallelism %d, but there are %d key groups: some subtasks would get no keys", o.Id, o.Parallelism, groups),
				"lower the parallelism, or raise the number of key groups of the job")
			return
		}
	}
}
