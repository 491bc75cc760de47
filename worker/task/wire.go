package task

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/shuffle"
	"github.com/sluiceio/sluice/shuffle/stored"
	"github.com/sluiceio/sluice/worker/task/chain"
	"github.com/sluiceio/sluice/worker/task/edge"
	"github.com/sluiceio/sluice/worker/task/fault"
	"github.com/sluiceio/sluice/worker/task/layout"
	"github.com/sluiceio/sluice/worker/task/mail"
	"github.com/sluiceio/sluice/worker/task/source"
)

// wiring makes the chain of one attempt. It lives on the goroutine of the subtask and is done with before the first
// record.
type wiring struct {
	*attempt
	ctx  context.Context
	cur  *chain.Cursor
	log  *slog.Logger
	mail *mail.Box

	opened []func(error) error // what to close if the wiring fails, in the order of opening
}

// wired is a chain with its head, ready to run.
type wired struct {
	chain *chain.Chain
	head  chain.Head
}

// wire builds the operators from the sinks to the head, because each needs to know where it emits to.
func (w *wiring) wire() (done *wired, err error) {
	defer func() {
		if done != nil {
			return
		}
		cause := cmp.Or(err, run.ErrExited) // user code may have ended the goroutine
		for i := len(w.opened) - 1; i >= 0; i-- {
			cause = errors.Join(cause, w.opened[i](cause))
		}
		err = cause
	}()
	op := w.plan().Operators[0]
	if w.proc.cfg.Program.Nodes[op].Source != nil {
		return w.wireSource(op)
	}
	ins, nodes, err := w.operator(op)
	if err != nil {
		return nil, err
	}
	if err := w.resume(op, nodes[0].Operator); err != nil {
		return nil, err
	}
	var inputs []edge.Input
	graph := w.layout.Graph.Operators[op].Inputs
	for i, in := range ins {
		g, err := w.gate(layout.Input{Op: op, Index: int32(i)}, in)
		if err != nil {
			return nil, err
		}
		w.opened = append(w.opened, func(err error) error { g.Close(err); return nil })
		inputs = append(inputs, edge.Input{
			Gate: g, Stored: w.stores(op, i), Phase: graph[i].Phase, Gated: graph[i].Gated,
		})
	}
	c := chain.New(w.ctx, w.cur, nodes, -1)
	h := edge.NewHead(c, inputs, w.hasLoaded)
	h.From(w.from)
	return &wired{c, h}, nil
}

// stores reports whether an input of the operator at the head is read from files.
func (w *wiring) stores(op int32, input int) bool {
	return edge.Blocking(w.layout.Edges[layout.Input{Op: op, Index: int32(input)}])
}

func (w *wiring) wireSource(op int32) (*wired, error) {
	rt := w.runtime(op)
	outs, kids, offsets, err := w.consumers(op)
	if err != nil {
		return nil, err
	}
	rt.Connect(outs)
	self := chain.Node{ID: rt.Task.Operator, Runtime: rt, Operator: Base{}, Kids: offsets, Size: 1 + len(kids)}
	c := chain.New(w.ctx, w.cur, append([]chain.Node{self}, kids...), 0)
	h, err := w.proc.cfg.Program.Nodes[op].Source.Open(source.Config{
		Runtime: rt, Chain: c, Mail: w.mail, Out: outs[""], Request: w.requestSplits(op), Gate: w.gateOfSource(), Groups: w.proc.groups,
		From: w.restoredOf(rt.Task.Operator).source,
	})
	if err != nil {
		return nil, fault.Of(err, fault.CodeSource, rt.Task.Operator)
	}
	return &wired{c, h}, nil
}

// operator builds an operator and everything behind it: the pushes of its inputs, and its part of the tree.
func (w *wiring) operator(op int32) (ins []any, nodes []chain.Node, err error) {
	rt := w.runtime(op)
	outs, kids, offsets, err := w.consumers(op)
	if err != nil {
		return nil, nil, err
	}
	rt.Connect(outs)
	rt.OnTick(w.mail.Tick)
	self := chain.Node{ID: rt.Task.Operator, Runtime: rt, Kids: offsets, Size: 1 + len(kids)}
	for i, st := range w.proc.cfg.Program.Nodes[op].Stages {
		rt.Building(i)
		in, o, err := w.build(st, rt, outs[""])
		if o != nil && i == 0 {
			self.Operator = o
			w.opened = append(w.opened, func(error) error { return fault.Protect(o.Close) })
		}
		if err != nil {
			return nil, nil, opening(err, rt.Task.Operator)
		}
		if v := reflect.ValueOf(in); v.Kind() != reflect.Func || v.IsNil() {
			return nil, nil, fault.Fatal(fault.CodeDeploy, "%s: its stage %d has no push but %T", rt.Task.Operator, i, in)
		}
		ins = append(ins, in)
		self.Codes = append(self.Codes, chain.CodeOf(in))
	}
	if self.Operator == nil {
		self.Operator = Base{}
	}
	return ins, append([]chain.Node{self}, kids...), nil
}

// whileOpened is where a function of the job fails that is called before the first record.
const whileOpened = "while the operator was opened"

// opening is the fault of an operator that could not be opened.
func opening(err error, operator string) error {
	f := *fault.Of(err, fault.CodeUser, operator)
	f.Position = cmp.Or(f.Position, whileOpened)
	return &f
}

// build calls user code: a panic of it is an error of this operator.
func (w *wiring) build(st Stage, rt *Runtime, outs []any) (in any, op Operator, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fault.Panicked(v, rt.Task.Operator, whileOpened)
		}
	}()
	if len(outs) == 1 {
		return st.Build(rt, outs[0])
	}
	return st.Build(rt, outs)
}

// consumers builds what op emits to: by port the pushes, the nodes in order, and where among them the consumers of
// the main output begin, counted from op.
func (w *wiring) consumers(op int32) (outs map[string][]any, nodes []chain.Node, offsets []int, err error) {
	outs = map[string][]any{}
	for _, ref := range w.layout.Consumers[op] {
		var ins []any
		var sub []chain.Node
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

func (w *wiring) outlet(from int32, ref layout.Input, e *jobpb.Edge) ([]any, []chain.Node, error) {
	j := w.joint(e, from)
	span := w.layout.ConsumersOf(e, w.sub.Index)
	if edge.Blocking(e) {
		j.Stored.First, j.Stored.Consumers = span.First, span.End-span.First
	} else {
		var err error
		if j.Live.Ends, err = w.ends(e.ToChain, span); err != nil {
			return nil, nil, err
		}
		if w.terms.lazy || w.sub.Gated { // the leader waits for it, or for a sign that the gate was opened
			j.Live.First = w.hasProduced
		}
	}
	id := w.layout.ID(ref.Op)
	push, o, err := w.proc.cfg.Program.Nodes[ref.Op].Exchanges[ref.Index].Outlet(j)
	if err != nil {
		return nil, nil, fault.Of(fmt.Errorf("open the edge to %s: %w", id, err), fault.CodeDeploy, id)
	}
	w.opened = append(w.opened, o.Close)
	return []any{push}, []chain.Node{{ID: id, Outlet: o, Size: 1, Stored: edge.Blocking(e), Codes: []chain.Code{chain.CodeOf(push)}}}, nil
}

// patience is how long a gate waits for producers that are deployed only when there is something for them to do. Whether
// they live is for the leader to know.
const patience = 10 * 365 * 24 * time.Hour

func (w *wiring) gate(ref layout.Input, push any) (edge.Gate, error) {
	e := w.layout.Edges[ref]
	span := w.layout.ProducersOf(e, w.sub.Index)
	if span.First == span.End {
		return edge.NoChannels(), nil
	}
	j := w.joint(e, ref.Op)
	j.Input, j.Notify = int(ref.Index), w.mail.Wake
	if w.terms.lazy {
		j.Live.ConnectTimeout = patience
	}
	var err error
	if edge.Blocking(e) {
		j.Stored.Producers, err = w.producers(e, span)
		j.Stored.From, j.Stored.Read = w.position(e, j.Stored.Producers)
	} else {
		j.Live.Ends, j.Live.Finished, err = w.running(e.FromChain, span)
	}
	switch {
	case err != nil:
		return nil, err
	case edge.Blocking(e) && j.Stored.From.Producer == len(j.Stored.Producers):
		return edge.Ended(j.Stored.Read), nil
	case !edge.Blocking(e) && len(j.Live.Ends) == 0:
		return edge.NoChannels(), nil
	}
	id := w.layout.ID(ref.Op)
	g, err := w.proc.cfg.Program.Nodes[ref.Op].Exchanges[ref.Index].Gate(j, push)
	if err != nil {
		return nil, fault.Of(fmt.Errorf("open input %d of %s: %w", ref.Index, id, err), fault.CodeDeploy, id)
	}
	return g, nil
}

// joint is an end of e at operator op.
func (w *wiring) joint(e *jobpb.Edge, op int32) edge.Joint {
	return edge.Joint{
		Ctx: w.ctx, Self: w.identity(), Runtime: w.runtime(op), Edge: e,
		From: w.layout.ID(e.FromOperator), To: w.layout.ID(e.ToOperator),
		Live:   edge.Live{Network: w.proc.cfg.Network, Compression: w.terms.live},
		Stored: edge.Stored{Exchange: w.proc.cfg.Results, Compression: w.terms.stored},
	}
}

// ends are the other ends of the channels of an edge.
func (w *wiring) ends(chain int32, s layout.Span) ([]shuffle.End, error) {
	ends := make([]shuffle.End, 0, s.End-s.First)
	for i := s.First; i < s.End; i++ {
		l, err := w.location(chain, i)
		if err != nil {
			return nil, err
		}
		end := shuffle.End{Index: l.Index, Attempt: l.Attempt}
		if !w.proc.cfg.here(l.Process) {
			end.Peer = &shuffle.Peer{Worker: l.Worker, Address: l.DataAddress, Process: l.Process}
		}
		ends = append(ends, end)
	}
	return ends, nil
}

// producers are the partitions that a stored edge is read from: where the facts say that one is stored, that one, which
// may be older than the last attempt; else the one that the current attempt will have made.
func (w *wiring) producers(e *jobpb.Edge, s layout.Span) ([]stored.Producer, error) {
	out := make([]stored.Producer, 0, s.End-s.First)
	for i := s.First; i < s.End; i++ {
		l, err := w.location(e.FromChain, i)
		if err != nil {
			return nil, err
		}
		p := stored.Producer{Name: stored.Name{
			Job: w.proc.cfg.Job, JobEpoch: w.jobEpoch, Region: l.Region, RegionEpoch: l.RegionEpoch,
			Edge: e.Index, Producer: i, Attempt: l.Attempt,
		}}
		for _, have := range l.Partitions {
			if have.Edge == e.Index && have.State == jobpb.PartitionState_PARTITION_STORED {
				p.Stored, p.Name.RegionEpoch, p.Name.Attempt = true, have.RegionEpoch, have.Attempt
			}
		}
		if w.proc.cfg.Process != 0 && l.Worker != w.proc.cfg.Worker {
			p.Peer = &shuffle.Peer{Worker: l.Worker, Address: l.DataAddress}
		}
		out = append(out, p)
	}
	return out, nil
}

func (w *wiring) location(chain, index int32) (*taskpb.Location, error) {
	l := w.locations[subtaskID{chain, index}]
	if l == nil {
		return nil, fault.Fatal(fault.CodeDeploy, "the deployment does not say where subtask %d of chain %d is", index, chain)
	}
	return l, nil
}

// runtime is the surroundings of one operator in this attempt.
func (w *wiring) runtime(op int32) *Runtime {
	first, end := layout.KeyGroupsOf(w.index(), int(w.plan().Parallelism), w.layout.KeyGroups)
	id := w.layout.ID(op)
	rt := &Runtime{
		Cursor:         w.cur,
		Watermark:      element.MinTime,
		Ctx:            w.ctx,
		Task:           w.task(id, w.log.With("operator", id)),
		Now:            w.proc.cfg.Now,
		MaxParallelism: w.layout.KeyGroups,
		KeyGroups:      KeyGroups{First: first, End: end},
		State:          w.proc.cfg.State,
		Restored:       w.restoredOf(id).Restored,
	}
	rt.State.Checkpoints = w.sub.Checkpointed // tracking costs something
	if w.layout.Graph.Operators[op].BatchMemory {
		rt.Batch = Batch{Memory: w.terms.grant(w.layout, w.sub.Chain, w.sub.Index), Spill: w.proc.cfg.Spill}
	}
	return rt
}

// identity is what the ends of edges know about the attempt.
func (a *attempt) identity() edge.Identity {
	return edge.Identity{
		Job: a.proc.cfg.Job, JobEpoch: a.jobEpoch, Region: a.sub.Region, RegionEpoch: a.sub.RegionEpoch,
		Index: a.sub.Index, Attempt: a.sub.Attempt,
	}
}

// task is what connectors and user code of one operator learn about the attempt.
func (a *attempt) task(operator string, log *slog.Logger) *connector.Task {
	return &connector.Task{
		Job: a.proc.cfg.Job, Operator: operator, Subtask: a.index(), Parallelism: int(a.plan().Parallelism),
		Attempt: a.sub.Attempt, JobEpoch: a.jobEpoch, RegionEpoch: a.sub.RegionEpoch, Whole: a.proc.cfg.Process == 0, Log: log,
	}
}
