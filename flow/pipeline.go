package flow

import (
	"fmt"

	"github.com/sluiceio/sluice/connector/manual"
	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/setting"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/worker/task"
	"github.com/sluiceio/sluice/worker/task/reject"
)

// Mode says how exchanges are chosen that the job does not fix itself.
type Mode uint8

const (
	// ModeAuto leaves the choice to the plan, which prints its reasons.
	ModeAuto Mode = iota
	// ModeStreaming: every exchange is pipelined.
	ModeStreaming
	// ModeBatch: every source is bounded (E013), and every exchange blocking: the job goes stage by stage.
	ModeBatch
)

// Exchange says how the records of an edge may be consumed.
type Exchange uint8

const (
	// Auto leaves the choice to the plan, which prints its reason.
	Auto Exchange = iota
	// Pipelined: consumable while they are produced.
	Pipelined
	// Blocking: consumable after the producer has finished, from its disk, and as often as need be. The input must be bounded
	// (E020).
	Blocking
)

// Pipeline collects the operators of a job. It is used by one goroutine and must be built deterministically: the same
// configuration gives the same graph.
type Pipeline struct {
	graph    *jobpb.Graph
	nodes    []*node
	kinds    map[string]int // number of operators by kind, for generated ids
	diags    []*jobpb.Diagnostic
	registry *codec.Registry
	codecs   map[any]any // compiled *codec.Codec[T] by reflect.Type
	replaced map[string]replacement
	letters  func(all Stream[DeadLetter], more []Stream[DeadLetter]) // of DeadLetters; nil: not called
	byHand   *manual.Connectors                                      // nil: sources and sinks are the job's own
}

// node is an operator with its typed parts; its index in Pipeline.nodes is its index in the graph. The typed parts are
// functions because modifiers (OnError, ID) and codecs may follow the call that made the operator.
type node struct {
	index  int32
	op     *jobpb.Operator
	policy bool // there are errors for OnError
	source func() task.SourceHead
	inputs []input
	// output compiles the codec of what the operator emits; nil for sinks.
	output func(*Pipeline) (schema string, err error)
	// declare finds what else the graph has to know (keys, state); it reports faults itself.
	declare   []func(*Pipeline)
	committer committer
	sides     []side
	// parts are the operators that the call which made this one has put in front of it.
	parts []part
}

// part is an operator that belongs to another one, and what it does for that.
type part struct {
	n    *node
	does string
}

// input is the typed part of one input of a node.
type input struct {
	stage    func() task.Stage
	exchange func(*Pipeline) (task.Exchange, error)
}

// New makes an empty pipeline. Jobs get theirs from Main, tests from Build.
func New(name string) *Pipeline {
	return &Pipeline{
		graph:    &jobpb.Graph{Name: name},
		kinds:    map[string]int{},
		registry: codec.NewRegistry(),
		codecs:   map[any]any{},
		replaced: map[string]replacement{},
	}
}

// SetMode sets how exchanges are chosen.
func (p *Pipeline) SetMode(m Mode) {
	if m > ModeBatch {
		p.fault("E018", caller(), fmt.Sprintf("mode %d does not exist", m), "use flow.ModeAuto, flow.ModeStreaming or flow.ModeBatch")
		return
	}
	p.graph.Mode, p.graph.ModeLocation = jobpb.Mode(m), caller()
}

// DefaultParallelism sets the number of subtasks of operators that do not set their own. AllSlots means every slot that the
// job can get.
func (p *Pipeline) DefaultParallelism(n int) {
	if n < 1 && n != AllSlots {
		p.fault("E018", caller(), fmt.Sprintf("default parallelism is %d", n), "use a positive number, or flow.AllSlots")
		return
	}
	p.graph.DefaultParallelism = int32(n)
}

// MaxParallelism sets the number of key groups, the upper limit of parallelism of keyed operators. It is fixed for the life
// of the state.
func (p *Pipeline) MaxParallelism(keyGroups int) {
	if keyGroups < 1 || keyGroups > codec.MaxParallelism {
		p.fault("E018", caller(), fmt.Sprintf("the number of key groups is %d", keyGroups),
			fmt.Sprintf("use a number between 1 and %d; 256 suits most jobs", codec.MaxParallelism))
		return
	}
	p.graph.MaxParallelism = int32(keyGroups)
}

// Set gives a setting of the engine a value. --sluice.KEY=VALUE of an embedded run and --set KEY=VALUE of a submit win
// over it.
func (p *Pipeline) Set(key, value string) {
	for _, pr := range setting.Check(map[string]string{key: value}) {
		if !pr.Warning() {
			p.fault(pr.Code, caller(), pr.Message, pr.Hints...)
		}
	}
	if p.graph.Settings == nil {
		p.graph.Settings = map[string]string{}
	}
	p.graph.Settings[key] = value
}

// Codec makes c the encoding of T in this job, in place of the one derived from the structure of T.
func (p *Pipeline) Codec[T any](c Codec[T]) { p.registered(codec.Register(p.registry, c)) }

// Variant lets the interface type I hold a T, under a name that stands in stored bytes and must not change.
func (p *Pipeline) Variant[I, T any](name string) {
	p.registered(codec.Variant[I, T](p.registry, name))
}

func (p *Pipeline) registered(err error) {
	if err != nil {
		p.typeFault(caller(), err)
	}
}

// Codec is an encoding of T written by hand.
type Codec[T any] = codec.Custom[T]

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

// name gives n the id that the user chose.
func (n *node) name(id string) { n.op.Id, n.op.GeneratedId = id, false }

// nameParts calls the parts of an operator after it, so that a failure of one leads to the call in the user's code. An id that the
// user has given to something else stays with that.
func (p *Pipeline) nameParts() {
	taken := map[string]bool{}
	for _, n := range p.nodes {
		taken[n.op.Id] = true
	}
	for _, n := range p.nodes {
		for _, part := range n.parts {
			if id := n.op.Id + "." + part.does; !taken[id] {
				part.n.op.Id = id
			}
		}
	}
}

// policyOf is what the runtime does with the errors of n.
func (n *node) policyOf(p *Pipeline) task.ErrorPolicy {
	pol, _ := reject.Parse(n.op.ErrorPolicy) // OnError has looked at it
	pol.Registry = p.registry
	return pol
}

// derive makes n the producer of a stream of U.
func derive[U any](p *Pipeline, n *node) Stream[U] {
	n.output = schemaOf[U]
	return Stream[U]{end: &outlet{p: p, n: n}}
}

func schemaOf[U any](p *Pipeline) (string, error) {
	c, err := codecOf[U](p)
	if err != nil {
		return "", err
	}
	return c.Schema(), nil
}

// unary adds an operator with one input; stage makes its typed part when the graph is complete.
func unary[T, U any](s Stream[T], kind string, stage func(n *node) task.Stage) (Stream[U], *node) {
	n := s.end.p.add(kind, s.end.edge())
	n.inputs = []input{inputOf(s, func() task.Stage { return stage(n) })}
	return derive[U](s.end.p, n), n
}

// inputOf is the typed part of an edge that leaves s, and of what it leads to.
func inputOf[T any](s Stream[T], stage func() task.Stage) input {
	return input{stage: stage, exchange: func(p *Pipeline) (task.Exchange, error) {
		c, err := codecOf[T](p)
		if err != nil {
			return nil, err
		}
		if s.end.part == jobpb.Partitioner_PARTITIONER_CUSTOM {
			return task.NewCustomExchange(c, s.end.to.(func(v T, consumers int) int)), nil
		}
		return task.NewExchange(c), nil
	}}
}
