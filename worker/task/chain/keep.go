package chain

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/state"
	"github.com/sluiceio/sluice/worker/state/budget"
	"github.com/sluiceio/sluice/worker/state/overflow"
)

// StateMemory is what the process gives to the state of its operators.
type StateMemory struct {
	// Budget is the memory of all state of the process, Overflow where it goes with what exceeds it. Without both,
	// everything stays in memory.
	Budget   *budget.Budget
	Overflow *overflow.Store
	// Checkpoints: changes are tracked, for barriers and rewinds.
	Checkpoints bool
}

// Restorer is an Operator that derives something from its tables. OnRestored is called when they hold the state of a
// completed checkpoint, imported or rewound, before the first record.
type Restorer interface {
	OnRestored() error
}

// Options are those of a table of the operator, which has that name among its tables. r has the codecs of the pipeline.
func (rt *Runtime) Options(table string, r *codec.Registry) state.Options {
	return state.Options{
		Operator: rt.Task.Operator, Table: table, MaxParallelism: rt.MaxParallelism, Registry: r, Now: rt.Now,
		Checkpoints: rt.State.Checkpoints, Budget: rt.State.Budget, Overflow: rt.State.Overflow,
	}
}

// Keep makes t one of the operator's tables, while the operator is built: the loop maintains it once per batch, the driver
// of checkpoints freezes, completes and rewinds it, and it is closed behind the operator.
func (rt *Runtime) Keep(t state.Table) { rt.tables = append(rt.tables, t) }

// Tables are those that Keep was told of.
func (rt *Runtime) Tables() []state.Table { return rt.tables }

// Wake is the time that the operator waits for; zero: none.
func (rt *Runtime) Wake() time.Time { return rt.wake }

// maintainUnits is how many units of a table are looked at per batch.
const maintainUnits = 64

// Maintain does what tables have to do between batches: they read the clock, make room and look for what has expired.
// The error, if any, is the first failure of the state.
func (rt *Runtime) Maintain() error {
	rt.clockRead = false
	for _, t := range rt.tables {
		if err := t.Maintain(maintainUnits); err != nil {
			return err
		}
	}
	for _, t := range rt.derived {
		if err := t.Maintain(maintainUnits); err != nil {
			return err
		}
	}
	return nil
}

// Clock is the time of the machine, read once per batch. For operators with tables.
func (rt *Runtime) Clock() element.Time {
	if !rt.clockRead {
		rt.clock, rt.clockRead = element.At(rt.Now()), true
	}
	return rt.clock
}

// TableErr is the first failure of the tables.
func (rt *Runtime) TableErr() error {
	for _, t := range rt.derived {
		if err := t.Err(); err != nil {
			return err
		}
	}
	for _, t := range rt.tables {
		if err := t.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Measure counts the bytes of the tables.
func (rt *Runtime) Measure() {
	now := int64(0)
	for _, t := range rt.tables {
		now += int64(t.Bytes())
	}
	for _, t := range rt.derived {
		now += int64(t.Bytes())
	}
	rt.Counters.StateBytes += now - rt.bytes
	rt.bytes = now
}

// CloseTables closes them. Called behind Operator.Close.
func (rt *Runtime) CloseTables() error {
	var errs []error
	for _, t := range rt.tables {
		errs = append(errs, t.Close())
	}
	for _, t := range rt.derived {
		errs = append(errs, t.Close())
	}
	rt.tables, rt.derived = nil, nil
	rt.Measure()
	return errors.Join(errs...)
}

// Due reports, once, that the time has come that the operator waits for.
func (rt *Runtime) Due(now time.Time) bool {
	if rt.wake.IsZero() || rt.wake.After(now) {
		return false
	}
	rt.wake = time.Time{}
	return true
}

// Maintain does what the operators' tables have to do before the next batch.
func (c *Chain) Maintain() error {
	for _, i := range c.keepers {
		n := &c.nodes[i]
		c.active, c.event = i, element.Event{}
		if err := c.check(n, n.Runtime.Maintain()); err != nil {
			return err
		}
	}
	c.active = -1
	return nil
}

// Measure counts the bytes of the operators' tables.
func (c *Chain) Measure() {
	for _, i := range c.keepers {
		c.nodes[i].Runtime.Measure()
	}
}

func (n *Node) closeTables() error {
	if n.Runtime == nil {
		return nil
	}
	if err := n.Runtime.CloseTables(); err != nil {
		return fmt.Errorf("close the state of %s: %w", n.ID, err)
	}
	return nil
}
