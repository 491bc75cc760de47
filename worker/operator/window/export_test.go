package window

import (
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/state"
	"github.com/sluiceio/sluice/worker/task"
)

// Crowd is how many open sessions a key may have that are not in order.
const Crowd = crowd

// Looks is how many sessions and nodes of their order an operator has looked at.
func Looks(op task.Operator) int64 { return op.(interface{ looked() int64 }).looked() }

// Order is the order of the sessions of a key.
type Order struct{ x order }

// NewOrder is an empty one, in a directory that has a current key.
func NewOrder(d *state.Directory[int64]) (*Order, error) {
	nodes, err := state.MapOf[Node, uint64](d, "order")
	o := &Order{order{nodes: nodes}}
	return o, err
}

func (o *Order) Begin(gap element.Time)                          { o.x.begin(gap) }
func (o *Order) Open(gap element.Time) bool                      { return o.x.open(gap) }
func (o *Order) Insert(id element.Time)                          { o.x.insert(id) }
func (o *Order) Remove(id element.Time)                          { o.x.remove(id) }
func (o *Order) UpTo(t element.Time) (id element.Time, ok bool)  { return o.x.upTo(t) }
func (o *Order) After(t element.Time) (id element.Time, ok bool) { return o.x.after(t) }
func (o *Order) Nodes() int                                      { return o.x.nodes.Len() }
