package launch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/sluiceio/sluice/coordinator/plan"
	"github.com/sluiceio/sluice/flow/graph"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// makePlan is the plan for an embedded run on this many cores; diags are its errors.
func makePlan(g *jobpb.Graph, settings map[string]string, slots int) (p *jobpb.Plan, diags []*jobpb.Diagnostic) {
	p, all := plan.Make(g, plan.Options{Settings: settings, DefaultParallelism: slots, Slots: slots})
	for _, d := range all {
		if strings.HasPrefix(d.Code, "E") {
			diags = append(diags, d)
		}
	}
	return p, diags
}

// plan prints the plan and runs nothing.
func (c command) plan() int {
	prog, diags := c.job.Build(c.args.Params)
	if len(diags) > 0 {
		return planFault(c.streams, diags)
	}
	p, diags := makePlan(prog.Graph, c.args.Settings, runtime.GOMAXPROCS(0))
	if len(diags) > 0 {
		return planFault(c.streams, diags)
	}
	switch {
	case c.args.Switches["json"]: // the warnings stand in it
		text, err := planJSON(p)
		if err != nil {
			fmt.Fprintf(c.streams.Err, "error: %v\n", err)
			return ExitOther
		}
		c.streams.Out.Write(text)
	case c.args.Switches["dot"]:
		printDiagnostics(c.streams.Err, "warning", p.Graph.Warnings)
		fmt.Fprint(c.streams.Out, graph.DOT(p))
	default:
		fmt.Fprint(c.streams.Out, graph.Text(p))
		if c.args.Switches["v"] {
			fmt.Fprint(c.streams.Out, details(p))
		}
	}
	return ExitOK
}

// planJSON is the protobuf JSON of the plan, indented. protojson varies its white space on purpose, so it is written anew.
func planJSON(p *jobpb.Plan) ([]byte, error) {
	raw, err := protojson.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("plan as JSON: %w", err)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return nil, fmt.Errorf("plan as JSON: %w", err)
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// details are what -v adds: record types, keys, state and parameters.
func details(p *jobpb.Plan) string {
	var b strings.Builder
	b.WriteString("\noperators:\n")
	for _, op := range p.Graph.Operators {
		fmt.Fprintf(&b, "  %s (%s) at %s\n", op.Id, op.Kind, op.Location)
		if op.OutputSchema != "" {
			fmt.Fprintf(&b, "    emits %s\n", op.OutputSchema)
		}
		for _, in := range op.Inputs {
			if in.KeySchema != "" {
				fmt.Fprintf(&b, "    keyed by %s\n", in.KeySchema)
			}
		}
		for _, s := range op.States {
			fmt.Fprintf(&b, "    state %s %q: %s, %s\n", s.Kind, s.Name, s.Schema, flatness(s.Flat))
		}
	}
	pairs(&b, "parameters", p.Graph.Params)
	pairs(&b, "settings in code", p.Graph.Settings)
	return b.String()
}

func flatness(flat bool) string {
	if flat {
		return "flat"
	}
	return "not flat: encoded on first access after a checkpoint"
}

func pairs(b *strings.Builder, title string, m map[string]string) {
	if len(m) == 0 {
		return
	}
	fmt.Fprintf(b, "%s:\n", title)
	for _, k := range sortedKeys(m) {
		fmt.Fprintf(b, "  %s = %s\n", k, m[k])
	}
}
