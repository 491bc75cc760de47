package flow

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/sluiceio/sluice/proto/jobpb"
)

// Mode says how exchanges are chosen that the job does not fix itself.
type Mode uint8

const (
	// ModeAuto: an exchange is blocking if it is a shuffle and everything upstream of it ends, else pipelined.
	ModeAuto Mode = iota
	// ModeStreaming: every exchange is pipelined.
	ModeStreaming
	// ModeBatch: every source must be bounded, and every shuffle is blocking.
	ModeBatch
)

// Exchange says how the records of an edge may be consumed.
type Exchange uint8

const (
	// Auto leaves the choice to the plan, which prints its reason.
	Auto Exchange = iota
	// Pipelined: consumable while they are produced.
	Pipelined
	// Blocking: consumable after the producer has finished.
	Blocking
)

// Pipeline collects the operators of a job. It is used by one goroutine and must be built deterministically: the same
// configuration gives the same graph.
type Pipeline struct {
	graph *jobpb.Graph
	nodes []*node
	kinds map[string]int // number of operators by kind, for generated ids
	diags []*jobpb.Diagnostic
}

// node is an operator with its typed parts; its index in Pipeline.nodes is its index in the graph.
type node struct {
	index int32
	op    *jobpb.Operator
}

// New makes an empty pipeline. Jobs get theirs from Main, tests from Build.
func New(name string) *Pipeline {
	return &Pipeline{graph: &jobpb.Graph{Name: name}, kinds: map[string]int{}}
}

// SetMode sets how exchanges are chosen.
func (p *Pipeline) SetMode(m Mode) { p.graph.Mode = jobpb.Mode(m) }

// DefaultParallelism sets the number of subtasks of operators that do not set their own.
func (p *Pipeline) DefaultParallelism(n int) { p.graph.DefaultParallelism = int32(n) }

// MaxParallelism sets the number of key groups, the upper limit of parallelism of keyed operators. It is fixed for the life
// of the state.
func (p *Pipeline) MaxParallelism(keyGroups int) { p.graph.MaxParallelism = int32(keyGroups) }

// Set gives a setting of the engine a value, which --sluice.KEY=VALUE and submit --set override.
func (p *Pipeline) Set(key, value string) {
	if p.graph.Settings == nil {
		p.graph.Settings = map[string]string{}
	}
	p.graph.Settings[key] = value
}

// add appends an operator and gives it a generated id.
func (p *Pipeline) add(kind string, in ...*jobpb.Input) *node {
	p.kinds[kind]++
	n := &node{index: int32(len(p.nodes)), op: &jobpb.Operator{
		Id:          fmt.Sprintf("%s-%d", kind, p.kinds[kind]),
		GeneratedId: true,
		Kind:        kind,
		Location:    caller(),
		Bounded:     len(in) > 0,
		Inputs:      in,
	}}
	for _, i := range in {
		n.op.Bounded = n.op.Bounded && p.nodes[i.Operator].op.Bounded
	}
	p.nodes = append(p.nodes, n)
	p.graph.Operators = append(p.graph.Operators, n.op)
	return n
}

const facade = "github.com/sluiceio/sluice/flow."

// caller is the place in the user's source that called this package: the directory, file and line of the first frame
// outside it.
func caller() string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		if !strings.HasPrefix(f.Function, facade) {
			return fmt.Sprintf("%s:%d", shortPath(f.File), f.Line)
		}
		if !more {
			return ""
		}
	}
}

// shortPath keeps the last directory and the file name: the rest differs between machines.
func shortPath(file string) string {
	i := strings.LastIndexByte(file, '/')
	if i <= 0 {
		return file
	}
	return file[strings.LastIndexByte(file[:i], '/')+1:]
}
