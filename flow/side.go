package flow

import (
	"fmt"

	"github.com/sluiceio/sluice/worker/operator/process"
)

// Tag names a side output of type S.
type Tag[S any] struct{ name string }

// NewTag makes a tag. The name is that of the side output in plans.
func NewTag[S any](name string) Tag[S] { return Tag[S]{name} }

// Name is that of the side output.
func (t Tag[S]) Name() string { return t.name }

// side is a side output that an operator has, or that somebody reads.
type side struct {
	name   string
	open   process.Side
	output func(*Pipeline) (schema string, err error)
}

// sideOutput declares that n emits records of S under this name.
func sideOutput[S any](p *Pipeline, n *node, name string) {
	n.sides = append(n.sides, side{name: name, open: process.SideOf[S](name), output: schemaOf[S]})
}

// SideOutput is what the operator that produced s emits under tag, as by Ctx.Side or LateTo. Its records keep their times. It
// belongs to the operator: ID, Parallelism, OnError and SlotGroup cannot be set on it.
func (s Stream[T]) SideOutput[S any](tag Tag[S]) Stream[S] {
	known, is := s.end.n.side(tag.name)
	if !s.end.n.processes() && !is {
		s.end.p.fault("E018", caller(), fmt.Sprintf("%s (%s) has no side output %q", s.end.n.op.Id, s.end.n.op.Kind, tag.name),
			"side outputs come from Process (Ctx.Side) and from windows (LateTo)")
	}
	if _, same := known.open.(process.SideOf[S]); is && !same {
		s.end.p.fault("E018", caller(), fmt.Sprintf("side output %q of %s is read as two types", tag.name, s.end.n.op.Id),
			"emit and read it by one tag, and give side outputs of different types different names")
	}
	if !is {
		sideOutput[S](s.end.p, s.end.n, tag.name)
	}
	return Stream[S]{end: &outlet{p: s.end.p, n: s.end.n, port: tag.name}}
}

// processes: n is an operator of the user's own, whose side outputs are those that are read.
func (n *node) processes() bool {
	switch n.op.Kind {
	case "process", "coprocess", "broadcastprocess", "bootstrap":
		return true
	}
	return false
}

// side is the side output of this name, if n has one.
func (n *node) side(name string) (s side, is bool) {
	for _, s := range n.sides {
		if s.name == name {
			return s, true
		}
	}
	return s, false
}

// processOptions are what the stage of a processor gets from its modifiers.
func (p *Pipeline) processOptions(n *node) process.Options {
	o := process.Options{OnError: n.policyOf(p), Registry: p.registry}
	for _, s := range n.sides {
		o.Sides = append(o.Sides, s.open)
	}
	return o
}
