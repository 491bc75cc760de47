package flow

import (
	"fmt"
	"reflect"
	"runtime"

	"github.com/sluiceio/sluice/flow/graph"
	"github.com/sluiceio/sluice/flow/launch"
	"github.com/sluiceio/sluice/flow/launch/param"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/worker/task"
)

// PlanError is every fault that was found in a job before anything ran.
type PlanError = launch.PlanError

// Build makes the pipeline of a job and checks it. Nothing is opened. The error, if any, is a *PlanError with every fault.
func Build[C any](name string, cfg *C, build func(*Pipeline, *C) error) (*Pipeline, error) {
	p, diags := assemble(name, cfg, build)
	if len(diags) > 0 {
		return nil, &PlanError{Diagnostics: diags}
	}
	return p, nil
}

// assemble builds and checks. The configuration's own faults are found before.
func assemble[C any](name string, cfg *C, build func(*Pipeline, *C) error) (*Pipeline, []*jobpb.Diagnostic) {
	p := New(name)
	set, diags := param.Of(cfg)
	if len(diags) > 0 {
		return p, diags
	}
	p.graph.Params = set.Values()
	p.run(func() error { return build(p, cfg) }, funcPlace(build))
	if len(p.diags) == 0 {
		p.check()
	}
	return p, p.diags
}

// run calls the user's build function; its error and its panic are faults of the plan.
func (p *Pipeline) run(build func() error, where string) {
	defer func() {
		if v := recover(); v != nil {
			p.fault("E043", panicPlace(), fmt.Sprintf("build panicked: %v", v), "a build function must not panic: return an error")
		}
	}()
	if err := build(); err != nil {
		p.fault("E046", where, fmt.Sprintf("build returned an error: %v", err), "the message above is the job's own")
	}
}

func funcPlace(f any) string {
	fn := runtime.FuncForPC(reflect.ValueOf(f).Pointer())
	if fn == nil {
		return ""
	}
	return place(fn.FileLine(fn.Entry()))
}

// check completes the graph and finds what is wrong with it.
func (p *Pipeline) check() {
	p.post()
	p.nameParts()
	for _, n := range p.nodes {
		if n.output != nil {
			schema, err := n.output(p)
			if err != nil {
				p.typeFault(n.op.Location, err)
			}
			n.op.OutputSchema = schema
		}
		for _, s := range n.sides {
			if _, err := s.output(p); err != nil {
				p.typeFault(n.op.Location, err)
			}
		}
		for _, declare := range n.declare {
			declare(p)
		}
	}
	p.unusedReplacements()
	p.diags = append(p.diags, graph.Validate(p.graph)...)
}

// Program is the job as the runtime takes it, for test harnesses and tools; p must not be changed afterwards.
func (p *Pipeline) Program() (*task.Program, error) {
	prog, diags := p.program()
	if len(diags) > 0 {
		return nil, &PlanError{Diagnostics: diags}
	}
	return prog, nil
}

func (p *Pipeline) program() (*task.Program, []*jobpb.Diagnostic) {
	prog := &task.Program{Graph: p.graph, Nodes: make([]task.Node, len(p.nodes))}
	for i, n := range p.nodes {
		node := &prog.Nodes[i]
		node.Committer = n.committer
		if n.source != nil {
			node.Source = n.source()
		}
		for _, in := range n.inputs {
			x, err := in.exchange(p)
			if err != nil {
				p.typeFault(n.op.Location, err)
			}
			node.Stages = append(node.Stages, in.stage())
			node.Exchanges = append(node.Exchanges, x)
		}
	}
	return prog, p.diags
}
