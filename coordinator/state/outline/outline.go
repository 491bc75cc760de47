package outline

import (
	"github.com/sluiceio/sluice/coordinator/region"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// Outline is a plan with its lookups.
type Outline struct {
	*region.Layout
	slot  []int32          // by chain: slot of its subtask 0
	slots int              // of the whole job
	chain map[string]int32 // by id of an operator
	of    []int32          // by operator: its chain
}

// New prepares the lookups of a plan, which must be valid. It is an error if its regions are none.
func New(p *jobpb.Plan) (*Outline, error) {
	l, err := region.NewLayout(p)
	if err != nil {
		return nil, err
	}
	n := len(p.Graph.Operators)
	o := &Outline{Layout: l, slot: make([]int32, len(p.Chains)), chain: make(map[string]int32, n), of: make([]int32, n)}
	for _, c := range p.Chains {
		for _, i := range c.Operators {
			o.chain[p.Graph.Operators[i].Id], o.of[i] = c.Index, c.Index
		}
	}
	groups := region.SlotGroups(p)
	for i, g := range groups.Of {
		o.slot[i] = groups.First[g]
	}
	o.slots = int(groups.First[len(groups.First)-1])
	return o, nil
}

// SlotOf is the slot in which subtask index of a chain lives.
func (o *Outline) SlotOf(chain, index int32) int { return int(o.slot[chain] + index) }

// Slots is how many the whole job needs.
func (o *Outline) Slots() int { return o.slots }

// ChainOf is the chain of an operator, by its index in the graph.
func (o *Outline) ChainOf(operator int32) int32 { return o.of[operator] }

// Has reports whether a chain holds the operator with this id.
func (o *Outline) Has(chain int32, id string) bool {
	c, ok := o.chain[id]
	return ok && c == chain
}

// Writer is the region of the subtask that prepares output of a sink; false if the plan has none such.
func (o *Outline) Writer(sink string, subtask int32) (region int32, ok bool) {
	c, ok := o.chain[sink]
	if !ok {
		return 0, false
	}
	pos, ok := o.Position(c, subtask)
	if !ok {
		return 0, false
	}
	return o.Of(pos), true
}
