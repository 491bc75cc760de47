package graph

import (
	"fmt"
	"strings"

	"github.com/sluiceio/sluice/proto/jobpb"
)

// Codes of faults in a graph.
const (
	CodeBadID       = "E010" // an id that cannot be part of a name
	CodeDoubleID    = "E011" // an id that is used twice
	CodeBlocking    = "E012" // a blocking exchange behind endless input
	CodeEndless     = "E013" // batch mode with endless input
	CodeNoID        = "E014" // an operator whose state could not be found again
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
		if in.Exchange == jobpb.ExchangeKind_EXCHANGE_BLOCKING && !up.Bounded {
			v.fault(CodeBlocking, o, fmt.Sprintf("input %d of %q (from %q) is endless and cannot be exchanged as a whole", i, o.Id, up.Id),
				"leave the exchange to the planner, or bound the source")
		}
	}
	if len(o.Inputs) > 0 && bounded != o.Bounded {
		v.fault(CodeMalformed, o, fmt.Sprintf("%q says bounded=%t, its inputs say otherwise", o.Id, o.Bounded), "build the job again with one release")
	}
	if len(o.Inputs) == 0 && !o.Bounded && v.g.Mode == jobpb.Mode_MODE_BATCH {
		v.fault(CodeEndless, o, fmt.Sprintf("batch mode, but source %q never ends", o.Id), "use another mode, or bound the source")
	}
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
