package graph

import (
	"fmt"

	"github.com/sluiceio/sluice/proto/jobpb"
)

// Codes of warnings.
const (
	CodeEveryUpdate = "W022" // an aggregate over the updates of another one
	CodeNoSink      = "W023" // an operator whose results go nowhere
)

// Warn reports what a valid graph may do and its author may not have meant.
func Warn(g *jobpb.Graph) []*jobpb.Diagnostic {
	return append(everyUpdate(g), noSink(g)...)
}

// noSink finds operators whose results nobody reads: most are streams whose author has forgotten To. A peek may be
// there for its effect.
func noSink(g *jobpb.Graph) (found []*jobpb.Diagnostic) {
	read := make([]bool, len(g.Operators))
	for _, o := range g.Operators {
		for _, in := range o.Inputs {
			read[in.Operator] = true
		}
	}
	for i, o := range g.Operators {
		if read[i] || o.Kind == "sink" || o.Kind == "peek" {
			continue
		}
		found = append(found, &jobpb.Diagnostic{
			Code: CodeNoSink, Where: o.Location, Message: fmt.Sprintf("the results of %q go nowhere", o.Id), Hints: []string{"end the stream in a sink: .To(id, sink)"},
		})
	}
	return found
}

// everyUpdate finds aggregates over the updates of another one.
//
// On endless input a rolling aggregate emits every update: a key that was counted to three sends 1, 2 and 3. Another
// aggregate behind it takes each of them for a record of its own. A window closes the groups: it emits once per key and
// window. A process function keeps what it likes, so nothing is said about what stands behind one.
func everyUpdate(g *jobpb.Graph) []*jobpb.Diagnostic {
	var found []*jobpb.Diagnostic
	updates := make([]*jobpb.Operator, len(g.Operators)) // by operator: whose updates it emits; nil: nobody's
	for i, o := range g.Operators {
		if o.Bounded {
			continue // final values only
		}
		from := updatesInto(o, updates)
		switch o.Kind {
		case "map", "filter", "flatmap", "peek", "union":
			updates[i] = from
			continue
		case "count", "reduce", "fold":
			updates[i] = o
		case "window.count", "window.fold", "window.aggregate":
		default:
			continue
		}
		if from != nil {
			found = append(found, &jobpb.Diagnostic{
				Code: CodeEveryUpdate, Where: o.Location,
				Message: fmt.Sprintf("%q takes in every update of %q, not only the last value of each key, because the input is endless", o.Id, from.Id),
				Hints:   []string{fmt.Sprintf("close the groups of %q by a window: .Window(flow.Tumbling(…)) between its KeyBy and its aggregate", from.Id)},
			})
		}
	}
	return found
}

// updatesInto is the rolling aggregate whose updates reach o; the first one, if there are several.
func updatesInto(o *jobpb.Operator, updates []*jobpb.Operator) *jobpb.Operator {
	for _, in := range o.Inputs {
		if up := updates[in.Operator]; up != nil && in.Port == "" {
			return up
		}
	}
	return nil
}
