package window

import (
	"math/bits"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/flow/window"
	"github.com/sluiceio/sluice/worker/state"
)

// crowd is how many open sessions a key may have before they are kept in order as well. A look at that many in turn costs less
// than a way down the tree.
const crowd = 32

// order is the sessions of a crowded key in the order of time, so that a record finds those that it meets, and a timer those
// that are over, without a look at all: a bounded input has its watermark at its end, and keys with thousands of open sessions
// until then.
//
// Sessions are disjoint and each is a gap long at least, so their ids lie in the order of their times, and no two in one
// unit of time, which is the largest power of two that is no longer than the gap. The tree has a leaf for each unit that has a
// session, and above it 64 children per node. It is a map of the key, one entry per node, so it is frozen, rewound,
// evicted and moved as the sessions are.
//
// Rejected: sessions in a sorted list per key (each insertion moves half of it, and a checkpoint writes all of it), and
// something in memory beside the state (it would be made anew for each key that comes back from the overflow).
type order struct {
	nodes *state.Map[Node, uint64]
	unit  uint64 // of the current key, as a number of bits
	looks int64  // nodes and sessions that were looked at, in all
}

// Node names a node of an order: which of those with this height it is. A leaf has height 0 and the id of its session for its
// value, the others have the set of their children. The one above all is unitNode.
type Node struct {
	Height uint8
	At     uint64
}

// unitNode has the unit of the tree and is there as long as the tree is. The gap may be another one after an upgrade.
var unitNode = Node{Height: 255}

const (
	fanBits = 6
	fanMask = 1<<fanBits - 1
)

// top is the height of the root.
func (x *order) top() uint8 { return uint8((64 - x.unit + fanBits - 1) / fanBits) }

// unitOf is the unit for sessions with a gap.
func unitOf(gap element.Time) uint64 { return uint64(bits.Len64(uint64(gap)) - 1) }

// open reports whether the current key has a tree that serves for the gap.
func (x *order) open(gap element.Time) bool {
	n, ok := x.nodes.Load(unitNode)
	x.unit = n
	return ok && n <= unitOf(gap)
}

// begin makes an empty tree.
func (x *order) begin(gap element.Time) {
	x.nodes.Clear()
	x.unit = unitOf(gap)
	x.nodes.Put(unitNode, x.unit)
}

// place is the leaf for a time.
func (x *order) place(t element.Time) uint64 { return (uint64(t) ^ 1<<63) >> x.unit }

// parent is the node of a height above a leaf, and the bit of its child on the way to it.
func parent(leaf uint64, height uint8) (n Node, child uint64) {
	return Node{height, leaf >> (fanBits * uint64(height))}, 1 << (leaf >> (fanBits * uint64(height-1)) & fanMask)
}

func (x *order) insert(id element.Time) {
	leaf := x.place(id)
	x.looks++
	x.nodes.Put(Node{At: leaf}, uint64(id))
	for h := uint8(1); h <= x.top(); h++ {
		n, child := parent(leaf, h)
		x.looks++
		children := x.nodes.Ref(n)
		was := *children
		if *children |= child; was != 0 {
			return
		}
	}
}

func (x *order) remove(id element.Time) {
	leaf := x.place(id)
	x.looks++
	x.nodes.Delete(Node{At: leaf})
	for h := uint8(1); h <= x.top(); h++ {
		n, child := parent(leaf, h)
		x.looks++
		children := x.nodes.Ref(n)
		if *children &^= child; *children != 0 {
			return
		}
		x.nodes.Delete(n)
	}
}

// id is the session of a leaf.
func (x *order) id(leaf uint64) (element.Time, bool) {
	x.looks++
	v, ok := x.nodes.Load(Node{At: leaf})
	return element.Time(v), ok
}

// upTo is the last id at or before t.
func (x *order) upTo(t element.Time) (element.Time, bool) {
	leaf := x.place(t)
	if id, ok := x.id(leaf); ok && id <= t {
		return id, true
	}
	return x.beside(leaf, func(child uint64) uint64 { return child - 1 },
		func(children uint64) uint64 { return uint64(bits.Len64(children) - 1) })
}

// after is the first id after t.
func (x *order) after(t element.Time) (element.Time, bool) {
	leaf := x.place(t)
	if id, ok := x.id(leaf); ok && id > t {
		return id, true
	}
	return x.beside(leaf, func(child uint64) uint64 { return ^(child | (child - 1)) },
		func(children uint64) uint64 { return uint64(bits.TrailingZeros64(children)) })
}

// beside is the id next to a leaf on one side: up to the first node that has children there, and down to the nearest leaf. side
// is the set of children on that side of one, nearest the one of a set that comes first.
func (x *order) beside(leaf uint64, side, nearest func(uint64) uint64) (element.Time, bool) {
	for h := uint8(1); h <= x.top(); h++ {
		n, child := parent(leaf, h)
		x.looks++
		children := x.nodes.Get(n) & side(child)
		if children == 0 {
			continue
		}
		at := n.At<<fanBits | nearest(children)
		for h--; h > 0; h-- {
			x.looks++
			if children = x.nodes.Get(Node{h, at}); children == 0 {
				return 0, false // the state has failed, and says so
			}
			at = at<<fanBits | nearest(children)
		}
		return x.id(at)
	}
	return 0, false
}

// crowded reports whether the sessions of the current key are in order: when there are more than crowd of them, and then until
// there are half as many, so that a key at the limit does not come and go.
func (o *keyed[K, In, Acc]) crowded() bool {
	n := o.open.Len()
	if o.order == nil || n <= crowd/2 {
		return false
	}
	gap := o.windows.Session.Gap
	switch {
	case o.order.open(gap):
		return true
	case n <= crowd:
		return false
	}
	o.order.begin(gap)
	for id := range o.open.All() {
		o.order.insert(id)
	}
	return true
}

// meet notes the sessions that w meets, and returns what they cover together with it.
func (o *keyed[K, In, Acc]) meet(w window.Window, crowded bool) (cover window.Window) {
	o.met = o.met[:0]
	cover = w
	if !crowded {
		o.looks(o.open.Len())
		for id, e := range o.open.All() {
			if s := e.window(); s.Meets(w) {
				o.met = append(o.met, spot{win: s, id: id})
				cover = cover.Cover(s)
			}
		}
		return cover
	}
	id, ok := o.order.upTo(w.Start)
	if !ok {
		id, ok = o.order.after(w.Start)
	}
	for ok {
		o.looks(1)
		if e := o.open.Look(id); e != nil && e.window().Meets(w) {
			o.met = append(o.met, spot{win: e.window(), id: id})
			cover = cover.Cover(e.window())
		}
		if id > w.End {
			break // it begins before its id, perhaps in w; those behind it begin later
		}
		id, ok = o.order.after(id)
	}
	return cover
}

// gone takes a window from the key.
func (o *keyed[K, In, Acc]) gone(id element.Time) {
	crowded := o.crowded()
	o.open.Delete(id)
	switch {
	case !crowded:
	case o.open.Len() <= crowd/2:
		o.order.nodes.Clear()
	default:
		o.order.remove(id)
	}
}

// inTurn calls see for the windows of the key that something may have to be done about up to t, and for those from which the
// next deadline follows. With a trigger that fires sessions at their end, and then no more, those are the ones that begin until
// then, and the one behind them; with any other they are all.
func (o *keyed[K, In, Acc]) inTurn(t element.Time, crowded bool, see func(id element.Time, e Entry[Acc])) {
	if !crowded || !o.trigger.atEnd {
		o.looks(o.open.Len())
		for id, e := range o.open.All() {
			see(id, e)
		}
		return
	}
	for id, ok := o.order.after(element.MinTime); ok; id, ok = o.order.after(id) {
		o.looks(1)
		e := o.open.Look(id)
		if e == nil {
			return // the state has failed, and says so
		}
		see(id, *e)
		if e.Start > t {
			return
		}
	}
}

// looks counts n sessions that are looked at.
func (o *keyed[K, In, Acc]) looks(n int) {
	if o.order != nil {
		o.order.looks += int64(n)
	}
}

func (o *keyed[K, In, Acc]) looked() int64 { return o.order.looks }
