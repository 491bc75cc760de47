package chain

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/spill"
	"github.com/sluiceio/sluice/worker/state"
	"github.com/sluiceio/sluice/worker/task/fault"
)

// Cursor is where the loop of a subtask stands. All operators of the subtask share one.
type Cursor struct {
	// At is the event time of the record in flight. The head of the chain sets it before each Push. An operator that
	// emits with another time (a window result) sets it before it emits; if it does so while it handles a record, it
	// puts the old time back. OnWatermark and Finish may leave any time behind.
	At element.Time
	// Counters of the subtask that only operators can count.
	Counters Counters

	watermark element.Time // the last one that entered the chain
	skipped   int64
	letters   int64
	counts    []*Count
	fault     *fault.Fault
	where     func() string // position of the record in flight; nil: unknown
	alarm     func(time.Time)
	skipLog   time.Time // of the last record that was reported as skipped or rejected
}

// Counters are plain integers of the goroutine of the subtask. They are published once per batch.
type Counters struct {
	Late           int64 // records dropped because their window had closed
	Replayed       int64 // records processed again after a restore
	StateBytes     int64 // size of the keyed state
	Written        int64 // records that went into sinks
	Spilled        int64 // bytes moved from memory to disk
	SpilledRecords int64 // records moved from memory to disk
	SpillFiles     int64 // files made for them
	SpillDepth     int64 // deepest level of recursive partitions, or of merge passes; 0: nothing was spilled
}

// Batch is what a batch operator works with beyond its state.
type Batch struct {
	// Memory is how many bytes its records may take; what exceeds it goes to disk. It is the operator's own: nobody else
	// takes of it, nothing is shared between subtasks.
	Memory int64
	// Spill is where it goes; one per process. Nil: nowhere, and Memory is no limit.
	Spill *spill.Area
}

// KeyGroups is the half-open range of key groups that a subtask owns.
type KeyGroups struct{ First, End int }

// Contains reports whether the range holds group g.
func (k KeyGroups) Contains(g int) bool { return k.First <= g && g < k.End }

// Runtime is what one operator of one subtask knows about its surroundings. It belongs to the goroutine of the
// subtask. Its fields do not change while the attempt lives, but Watermark and those of Cursor.
type Runtime struct {
	*Cursor
	// Ctx ends when the attempt has to stop. User code that blocks must watch it.
	Ctx context.Context
	// Task says which operator, subtask and attempt this is.
	Task *connector.Task
	// Now is the clock. Never per record: Cursor.At is the time of a record.
	Now func() time.Time
	// MaxParallelism is the number of key groups of the job.
	MaxParallelism int
	// KeyGroups are those whose keys reach this subtask through a keyed exchange.
	KeyGroups KeyGroups
	// Batch is the operator's share of the memory for joins and sorts; zero unless jobpb.Operator.batch_memory asks for it.
	Batch Batch
	// State is what the operator's tables are made with.
	State StateMemory
	// Restored is what the attempt starts from.
	Restored Restored
	// Watermark is the last one that this operator was told, set before OnWatermark. It is not that of the chain: what an
	// operator in front emits at a watermark comes before it.
	Watermark element.Time

	shared    any
	input     int                       // whose stage is being built
	ahead     map[int]ahead             // of LookAhead, by input
	ports     map[string][]any          // side outputs: the pushes of their consumers
	branch    int                       // which consumer of several is at work
	wake      time.Time                 // of WakeAt; zero: none
	prepare   []connector.Committable   // output that no completed checkpoint has
	writer    []byte                    // state of the writer of a sink, as of the last barrier
	replaced  bool                      // the tables have begun anew since the base
	notified  atomic.Bool               // OnNotify is due
	tick      func()                    // rouses the loop; nil: nobody is there
	pass      func(element.Event) error // of a Relay
	tables    []state.Table             // that Keep was told of
	names     []string                  // of the tables, as far as they were ever frozen
	growth    map[string]*growth        // of the tables, by name
	derived   []state.Table             // that Derive was told of
	bytes     int64                     // of them, as counted
	clock     element.Time              // of Clock
	clockRead bool                      // clock is of this batch
}

// NewCursor stands before the first record.
func NewCursor() *Cursor { return &Cursor{At: element.MinTime, watermark: element.MinTime} }

// Observe tells the cursor who knows where the record in flight comes from, and whom to ask for a look at what is due.
// Called by the loop, once.
func (c *Cursor) Observe(where func() string, alarm func(time.Time)) { c.where, c.alarm = where, alarm }

// Totals is what the cursor has seen.
type Totals struct {
	Watermark element.Time // the last one that entered the chain
	Skipped   int64        // records dropped by an error policy
	Letters   int64        // records that have become dead letters
}

// Totals so far.
func (c *Cursor) Totals() Totals {
	return Totals{Watermark: c.watermark, Skipped: c.skipped, Letters: c.letters}
}

// NewRuntime is the surroundings of a single operator outside a Process, for harnesses: subtask 0 of 1, without side
// outputs. WakeAt does nothing. Err tells what Fail was called with.
func NewRuntime(ctx context.Context, operator string) *Runtime {
	return &Runtime{
		Cursor:         NewCursor(),
		Watermark:      element.MinTime,
		Ctx:            ctx,
		Task:           &connector.Task{Job: "harness", Operator: operator, Parallelism: 1, Attempt: 1, Log: slog.New(slog.DiscardHandler)},
		Now:            time.Now,
		MaxParallelism: 256,
		KeyGroups:      KeyGroups{0, 256},
	}
}

// Fail reports an error of user code that must end the attempt. The loop looks at it once per batch: the records of
// the batch that follow still arrive. The first error wins, with the position of its record.
func (rt *Runtime) Fail(err error) {
	if rt.fault != nil || err == nil {
		return
	}
	f := *fault.Of(err, fault.CodeUser, rt.Task.Operator)
	if f.Position == "" {
		f.Position = rt.position()
	}
	rt.fault = &f
}

// Stopped is why nothing more should be emitted: an operator of the subtask has failed, or the attempt has to end. An
// operator that has many records to emit at one event asks after each of them.
func (rt *Runtime) Stopped() error {
	if err := rt.Err(); err != nil {
		return err
	}
	return rt.Ctx.Err()
}

// Err is the first error that any operator of the subtask has reported.
func (c *Cursor) Err() error {
	if c.fault == nil {
		return nil
	}
	return c.fault
}

// skipLogEvery bounds how often a skipped record is logged; all are counted.
const skipLogEvery = time.Second

// Skip reports a record that an error policy has dropped: it is counted, and logged once per second at most.
func (rt *Runtime) Skip(err error) { rt.SkipAt(err, rt.position()) }

// SkipAt is Skip for a record that never was in flight.
func (rt *Runtime) SkipAt(err error, position string) {
	rt.skipped++
	if rt.tells() {
		rt.Task.Log.Warn("record skipped", "error", err, "position", position, "skipped", rt.skipped)
	}
}

// Letter reports a record that has become a dead letter, as SkipAt does.
func (rt *Runtime) Letter(err error, position string) {
	rt.letters++
	if rt.tells() {
		rt.Task.Log.Warn("record rejected", "error", err, "position", position, "letters", rt.letters)
	}
}

// tells: a record that was dropped is to be logged.
func (rt *Runtime) tells() bool {
	now := rt.Now()
	if now.Sub(rt.skipLog) < skipLogEvery {
		return false
	}
	rt.skipLog = now
	return true
}

// position is the place of the record in flight, or of the event that is being handled.
func (c *Cursor) position() string {
	if c.where == nil {
		return ""
	}
	return c.where()
}

// Waker is an Operator that works by the clock.
type Waker interface {
	// OnTime is called at or soon after the time that Runtime.WakeAt has set, once for each time set. The operator may
	// emit.
	OnTime(now time.Time) error
}

// WakeAt asks the loop to call the operator's OnTime (see Waker), at t or soon after. It replaces the time asked for
// before.
func (rt *Runtime) WakeAt(t time.Time) {
	rt.wake = t
	rt.Alarm(t)
}

// Alarm has the loop look at what is due at t; zero: never.
func (c *Cursor) Alarm(t time.Time) {
	if c.alarm != nil {
		c.alarm(t)
	}
}

// Shared is the value that the stages of one operator with several inputs have in common: the first call makes it,
// later calls of the same attempt return it. S must be the same in all of them.
func Shared[S any](rt *Runtime, make func() (S, error)) (S, error) {
	if s, ok := rt.shared.(S); ok {
		return s, nil
	}
	s, err := make()
	if err == nil {
		rt.shared = s
	}
	return s, err
}

// Connect says what the operator emits to: by port, the pushes of the consumers. Called by the wiring, before the
// operator is built.
func (rt *Runtime) Connect(ports map[string][]any) { rt.ports = ports }

// SideOutput is where the operator emits to its side output of this name, to be called while it is built. Without a
// consumer it drops.
func SideOutput[T any](rt *Runtime, port string) (Push[T], error) {
	outs := rt.ports[port]
	if len(outs) == 1 {
		return Output[T](rt, outs[0])
	}
	return Output[T](rt, outs)
}
