package task

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/shuffle"
	"github.com/sluiceio/sluice/worker/task/fault"
	"github.com/sluiceio/sluice/worker/task/layout"
	"github.com/sluiceio/sluice/worker/task/mail"
	"github.com/sluiceio/sluice/worker/task/mark"
)

// wiring makes the chain of one attempt. It lives on the goroutine of the subtask and is done with before the first
// record.
type wiring struct {
	*attempt
	ctx  context.Context
	cur  *Cursor
	log  *slog.Logger
	mail *mail.Box

	opened []func(error) error // what to close if the wiring fails, in the order of opening
}

// wired is a chain with its head, ready to run.
type wired struct {
	chain *chain
	head  head
}

// wire builds the operators from the sinks to the head, because each needs to know where it emits to.
func (w *wiring) wire() (_ *wired, err error) {
	defer func() {
		if err != nil {
			for i := len(w.opened) - 1; i >= 0; i-- {
				err = errors.Join(err, w.opened[i](err))
			}
		}
	}()
	op := w.plan().Operators[0]
	if w.proc.cfg.Program.Nodes[op].Source != nil {
		return w.wireSource(op)
	}
	ins, nodes, err := w.operator(op)
	if err != nil {
		return nil, err
	}
	h := &gateHead{chain: newChain(w.ctx, w.cur, nodes, -1), marks: mark.New(len(ins))}
	for i, in := range ins {
		g, err := w.gate(layout.Input{Op: op, Index: int32(i)}, in)
		if err != nil {
			return nil, err
		}
		w.opened = append(w.opened, func(err error) error { g.close(err); return nil })
		h.gates = append(h.gates, g)
	}
	return &wired{h.chain, h}, nil
}

func (w *wiring) wireSource(op int32) (*wired, error) {
	rt := w.runtime(op)
	outs, kids, offsets, err := w.consumers(op)
	if err != nil {
		return nil, err
	}
	rt.ports = outs
	self := node{id: rt.Task.Operator, rt: rt, op: Base{}, kids: offsets, size: 1 + len(kids)}
	c := newChain(w.ctx, w.cur, append([]node{self}, kids...), 0)
	h, err := w.proc.cfg.Program.Nodes[op].Source.open(sourceConfig{rt: rt, chain: c, mail: w.mail, out: outs[""], request: w.requestSplits(op)})
	if err != nil {
		return nil, fault.Of(err, fault.CodeSource, rt.Task.Operator)
	}
	return &wired{c, h}, nil
}

// operator builds an operator and everything behind it: the pushes of its inputs, and its part of the tree.
func (w *wiring) operator(op int32) (ins []any, nodes []node, err error) {
	rt := w.runtime(op)
	outs, kids, offsets, err := w.consumers(op)
	if err != nil {
		return nil, nil, err
	}
	rt.ports = outs
	self := node{id: rt.Task.Operator, rt: rt, kids: offsets, size: 1 + len(kids)}
	for i, st := range w.proc.cfg.Program.Nodes[op].Stages {
		in, o, err := w.build(st, rt, outs[""])
		if o != nil && i == 0 {
			self.op = o
			w.opened = append(w.opened, func(error) error { return fault.Protect(o.Close) })
		}
		if err != nil {
			return nil, nil, fault.Of(err, codeOf(err), rt.Task.Operator)
		}
		if v := reflect.ValueOf(in); v.Kind() != reflect.Func || v.IsNil() {
			return nil, nil, fault.Fatal(fault.CodeDeploy, "%s: its stage %d has no push but %T", rt.Task.Operator, i, in)
		}
		ins = append(ins, in)
		self.entries = append(self.entries, entryOf(in))
	}
	if self.op == nil {
		self.op = Base{}
	}
	return ins, append([]node{self}, kids...), nil
}

// build calls user code: a panic of it is an error of this operator.
func (w *wiring) build(st Stage, rt *Runtime, outs []any) (in any, op Operator, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fault.Panicked(v, rt.Task.Operator, "while the operator was opened")
		}
	}()
	if len(outs) == 1 {
		return st.Build(rt, outs[0])
	}
	return st.Build(rt, outs)
}

// consumers builds what op emits to: by port the pushes, the nodes in order, and where among them the consumers of
// the main output begin, counted from op.
func (w *wiring) consumers(op int32) (outs map[string][]any, nodes []node, offsets []int, err error) {
	outs = map[string][]any{}
	for _, ref := range w.layout.Consumers[op] {
		var ins []any
		var sub []node
		if e := w.layout.Edges[ref]; e != nil {
			ins, sub, err = w.outlet(op, ref, e)
		} else {
			ins, sub, err = w.operator(ref.Op)
		}
		if err != nil {
			return nil, nil, nil, err
		}
		port := w.layout.Port(ref)
		if port == "" {
			offsets = append(offsets, 1+len(nodes))
		}
		outs[port] = append(outs[port], ins[0])
		nodes = append(nodes, sub...)
	}
	return outs, nodes, offsets, nil
}

func (w *wiring) outlet(from int32, ref layout.Input, e *jobpb.Edge) ([]any, []node, error) {
	ends, err := w.ends(e.ToChain, w.layout.ConsumersOf(e, w.sub.Index))
	if err != nil {
		return nil, nil, err
	}
	id := w.layout.ID(ref.Op)
	push, o, err := w.proc.cfg.Program.Nodes[ref.Op].Exchanges[ref.Index].outlet(joint{
		attempt: w.attempt, ctx: w.ctx, rt: w.runtime(from), edge: e, ends: ends,
	})
	if err != nil {
		return nil, nil, fault.Of(fmt.Errorf("open the edge to %s: %w", id, err), fault.CodeDeploy, id)
	}
	w.opened = append(w.opened, o.close)
	return []any{push}, []node{{id: id, out: o, size: 1, entries: []entry{entryOf(push)}}}, nil
}

func (w *wiring) gate(ref layout.Input, push any) (gate, error) {
	e := w.layout.Edges[ref]
	ends, err := w.ends(e.FromChain, w.layout.ProducersOf(e, w.sub.Index))
	if err != nil {
		return nil, err
	}
	if len(ends) == 0 {
		return &closedGate{}, nil
	}
	id := w.layout.ID(ref.Op)
	g, err := w.proc.cfg.Program.Nodes[ref.Op].Exchanges[ref.Index].gate(joint{
		attempt: w.attempt, ctx: w.ctx, rt: w.runtime(ref.Op), edge: e, ends: ends, notify: w.mail.Wake,
		from: w.layout.ID(e.FromOperator),
	}, push)
	if err != nil {
		return nil, fault.Of(fmt.Errorf("open input %d of %s: %w", ref.Index, id, err), fault.CodeDeploy, id)
	}
	return g, nil
}

// ends are the other ends of the channels of an edge.
func (w *wiring) ends(chain int32, s layout.Span) ([]shuffle.End, error) {
	ends := make([]shuffle.End, 0, s.End-s.First)
	for i := s.First; i < s.End; i++ {
		l := w.locations[subtaskID{chain, i}]
		if l == nil {
			return nil, fault.Fatal(fault.CodeDeploy, "the deployment does not say where subtask %d of chain %d is", i, chain)
		}
		end := shuffle.End{Index: l.Index, Attempt: l.Attempt}
		if !w.proc.cfg.here(l.Process) {
			end.Peer = &shuffle.Peer{Worker: l.Worker, Address: l.DataAddress, Process: l.Process}
		}
		ends = append(ends, end)
	}
	return ends, nil
}

// runtime is the surroundings of one operator in this attempt.
func (w *wiring) runtime(op int32) *Runtime {
	first, end := layout.KeyGroupsOf(w.index(), int(w.plan().Parallelism), w.layout.KeyGroups)
	id := w.layout.ID(op)
	return &Runtime{
		Cursor:         w.cur,
		Watermark:      element.MinTime,
		Ctx:            w.ctx,
		Task:           w.task(id, w.log.With("operator", id)),
		Now:            time.Now,
		MaxParallelism: w.layout.KeyGroups,
		KeyGroups:      KeyGroups{first, end},
	}
}

func newCursor() *Cursor { return &Cursor{At: element.MinTime, watermark: element.MinTime} }

// task is what connectors and user code of one operator learn about the attempt.
func (a *attempt) task(operator string, log *slog.Logger) *connector.Task {
	return &connector.Task{
		Job: a.proc.cfg.Job, Operator: operator, Subtask: a.index(), Parallelism: int(a.plan().Parallelism),
		Attempt: a.sub.Attempt, JobEpoch: a.jobEpoch, RegionEpoch: a.sub.RegionEpoch, Log: log,
	}
}
