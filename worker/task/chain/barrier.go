package chain

import (
	"slices"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/worker/state"
)

// Reloader is an Operator that can load again what it has loaded before: while the inputs in front of its gates have not ended,
// there is nothing in its tables but what came from them.
type Reloader interface{ Reloads() }

// Restored is what a checkpoint has of one operator, beside its tables.
type Restored struct {
	// Checkpoint that the attempt starts from; 0: it starts from nothing.
	Checkpoint element.CheckpointID
	// Writers are the states of the writers of a sink that this one continues.
	Writers [][]byte
}

// Snapshot writes a table as of a barrier.
type Snapshot = state.Snapshot

// Frozen is what one operator has for a checkpoint, as of its barrier.
type Frozen struct {
	State  *snapshotpb.OperatorState
	Tables []*state.Snapshot // to be written
	// KeyGroups that the entries of the tables are of.
	KeyGroups KeyGroups
}

// Freeze is the barrier of a checkpoint, for every operator in the order of the chain. Nothing of it depends on the size of the
// state.
func (c *Chain) Freeze(id element.CheckpointID) ([]Frozen, error) {
	var out []Frozen
	c.event = element.Event{Kind: element.Barrier, Checkpoint: id}
	for i := range c.nodes {
		n := &c.nodes[i]
		if n.Runtime == nil {
			continue
		}
		c.active = i
		f, err := n.freeze(id)
		if err != nil || c.cur.fault != nil {
			return nil, c.check(n, err)
		}
		if len(f.Tables) > 0 || len(f.State.Writer) > 0 || len(f.State.Committables) > 0 {
			out = append(out, f)
		}
	}
	c.active = -1
	return out, nil
}

func (n *Node) freeze(id element.CheckpointID) (Frozen, error) {
	rt := n.Runtime
	f := Frozen{State: &snapshotpb.OperatorState{Operator: n.ID}, KeyGroups: rt.KeyGroups}
	if err := n.Operator.OnBarrier(id); err != nil {
		return f, err
	}
	for i, t := range rt.tables {
		extent := state.Delta
		if i < len(rt.names) {
			extent = rt.growthOf(rt.names[i]).extent()
		}
		s, err := t.Freeze(id, extent)
		if err != nil {
			return f, err
		}
		name := s.Header().Table
		if i == len(rt.names) {
			rt.names = append(rt.names, name)
		}
		f.Tables = append(f.Tables, s)
		anew := rt.replaced || s.Extent() == state.Full
		if anew {
			f.State.Replaced = append(f.State.Replaced, name)
		}
		rt.growthOf(name).froze(id, anew || t.Base() == 0)
	}
	f.State.Writer, f.State.Committables = rt.writer, n.committables(nil)
	return f, nil
}

// Barrier sends the barrier of a checkpoint behind the records, to the consumers of live edges.
func (c *Chain) Barrier(id element.CheckpointID) error {
	for i := range c.nodes {
		n := &c.nodes[i]
		if n.Outlet == nil || n.Stored {
			continue
		}
		if err := n.Outlet.Broadcast(element.Event{Kind: element.Barrier, Checkpoint: id}); err != nil {
			return c.check(n, err)
		}
	}
	return nil
}

// Completed says that a checkpoint in which the chain took part is completed.
func (c *Chain) Completed(id element.CheckpointID) {
	for i := range c.nodes {
		if rt := c.nodes[i].Runtime; rt != nil {
			for _, t := range rt.tables {
				t.Completed(id)
			}
			for _, g := range rt.growth { // in any order: each counts by itself
				g.completed(id)
			}
			rt.prepare = slices.DeleteFunc(rt.prepare, func(p connector.Committable) bool { return p.Checkpoint <= id })
			rt.replaced = false
		}
	}
}

// Aborted says that a checkpoint that was frozen will never complete.
func (c *Chain) Aborted(id element.CheckpointID) {
	for _, i := range c.keepers {
		for _, t := range c.nodes[i].Runtime.tables {
			t.Aborted(id)
		}
	}
}

// Over reports whether the input has ended and every operator has finished.
func (c *Chain) Over() bool { return c.over }

// Restore gives every operator its tables by load, and has it derive from them what it needs.
func (c *Chain) Restore(load func(rt *Runtime, reloads bool) error) error {
	c.restoring = true
	for i := range c.nodes {
		n := &c.nodes[i]
		if n.Runtime == nil {
			continue
		}
		c.active, c.event = i, element.Event{}
		_, reloads := n.Operator.(Reloader)
		if err := c.check(n, load(n.Runtime, reloads)); err != nil {
			return err
		}
		r, ok := n.Operator.(Restorer)
		if !ok {
			continue
		}
		if err := c.check(n, r.OnRestored()); err != nil {
			return err
		}
		if err := c.check(n, n.Runtime.TableErr()); err != nil {
			return err
		}
	}
	c.active, c.restoring = -1, false
	return nil
}

// Replace says that the tables of the operator begin anew, whatever the checkpoint has of them: snapshots say so until the next one
// is completed.
func (rt *Runtime) Replace() { rt.replaced = true }

// Prepared keeps prepared output of a sink: for the last report of the attempt, or for the snapshots until a completed one has it.
func (rt *Runtime) Prepared(cs []connector.Committable) { rt.prepare = append(rt.prepare, cs...) }

// Wrote keeps the state of the writer of a sink, behind a barrier.
func (rt *Runtime) Wrote(s []byte) { rt.writer = s }

// Committables is the prepared output of the sinks.
func (c *Chain) Committables() []*jobpb.Committable {
	var out []*jobpb.Committable
	for i := range c.nodes {
		if n := &c.nodes[i]; n.Runtime != nil {
			out = n.committables(out)
		}
	}
	return out
}

func (n *Node) committables(out []*jobpb.Committable) []*jobpb.Committable {
	for _, p := range n.Runtime.prepare {
		out = append(out, &jobpb.Committable{
			Sink: n.ID, Subtask: int32(p.Subtask), Checkpoint: uint64(p.Checkpoint), N: int32(p.N), Data: p.Data,
		})
	}
	return out
}
