package task

import (
	"sync/atomic"
	"time"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/worker/task/chain"
)

// meter counts for one subtask. The loop adds to plain integers and publishes a copy; everyone else reads the copy.
type meter struct {
	busy, idle, backpressured time.Duration
	published                 time.Time
	outlets                   []chain.Outlet

	asked atomic.Bool                  // somebody wants to know about the clock
	clock atomic.Pointer[taskpb.Clock] // as it was told last; nil: never

	copy   [gauges]atomic.Int64
	counts atomic.Pointer[[]*chain.Count] // of the job's own; nil until the subtask is wired
}

// The published values.
const (
	recordsIn = iota
	recordsOut
	bytesIn
	bytesOut
	busyUS
	idleUS
	backpressuredUS
	watermarkUS
	late
	errorsSkipped
	deadLetters
	stateBytes
	replayed
	spilledBytes
	spilledRecords
	spillFiles
	spillDepth
	storedBytes
	rereadBytes
	gauges
)

func newMeter() *meter {
	m := &meter{}
	m.copy[watermarkUS].Store(int64(element.MinTime))
	return m
}

// blocked is the time that the subtask has waited for its consumers.
func (m *meter) blocked() (d time.Duration) {
	for _, o := range m.outlets {
		d += o.Stats().Blocked
	}
	return d
}

// add accounts for a step that took so long, of which it waited for input and was blocked by its consumers.
func (m *meter) add(took, waited, blocked time.Duration) {
	m.idle += waited
	m.backpressured += blocked
	m.busy += max(0, took-waited-blocked)
}

// publish copies the counters. It costs a few atomic stores.
func (m *meter) publish(l *loop) {
	m.published = l.now
	c := l.cur
	in, totals := l.head.Received(), c.Totals()
	out, outBytes, stored := c.Counters.Written, int64(0), int64(0)
	for _, o := range m.outlets {
		s := o.Stats()
		out, outBytes, stored = out+s.Records, outBytes+s.Bytes, stored+s.Stored
	}
	for i, v := range [gauges]int64{
		recordsIn:       in.Records,
		recordsOut:      out,
		bytesIn:         in.Bytes,
		bytesOut:        outBytes,
		busyUS:          m.busy.Microseconds(),
		idleUS:          m.idle.Microseconds(),
		backpressuredUS: m.backpressured.Microseconds(),
		watermarkUS:     int64(totals.Watermark),
		late:            c.Counters.Late,
		errorsSkipped:   totals.Skipped,
		deadLetters:     totals.Letters,
		stateBytes:      c.Counters.StateBytes,
		replayed:        c.Counters.Replayed,
		spilledBytes:    c.Counters.Spilled,
		spilledRecords:  c.Counters.SpilledRecords,
		spillFiles:      c.Counters.SpillFiles,
		spillDepth:      c.Counters.SpillDepth,
		storedBytes:     stored,
		rereadBytes:     in.Stored,
	} {
		m.copy[i].Store(v)
	}
	for _, count := range c.Counts() {
		count.Publish()
	}
	if m.asked.Load() {
		m.tell(l)
	}
}

// tell answers a question about the clock. It walks over the inputs, which publish must not do every time.
func (m *meter) tell(l *loop) {
	m.asked.Store(false)
	m.clock.Store(l.chain.Clock(l.head))
}

// declare makes the counts of the job's own known.
func (m *meter) declare(all []*chain.Count) {
	all = all[:min(len(all), jobpb.MaxUserCounters)]
	m.counts.Store(&all)
}

// fill writes the published counters.
func (m *meter) fill(c *taskpb.Counters) {
	c.RecordsIn = m.copy[recordsIn].Load()
	c.RecordsOut = m.copy[recordsOut].Load()
	c.BytesIn = m.copy[bytesIn].Load()
	c.BytesOut = m.copy[bytesOut].Load()
	c.BusyUs = m.copy[busyUS].Load()
	c.IdleUs = m.copy[idleUS].Load()
	c.BackpressuredUs = m.copy[backpressuredUS].Load()
	c.WatermarkUs = m.copy[watermarkUS].Load()
	c.Late = m.copy[late].Load()
	c.ErrorsSkipped = m.copy[errorsSkipped].Load()
	c.DeadLetters = m.copy[deadLetters].Load()
	if all := m.counts.Load(); all != nil {
		for _, count := range *all {
			c.User = append(c.User, &jobpb.UserCounter{Operator: count.Operator, Name: count.Name, Value: count.Shown()})
		}
	}
	c.StateBytes = m.copy[stateBytes].Load()
	c.Replayed = m.copy[replayed].Load()
	c.SpilledBytes = m.copy[spilledBytes].Load()
	c.SpilledRecords = m.copy[spilledRecords].Load()
	c.SpillFiles = m.copy[spillFiles].Load()
	c.SpillDepth = int32(m.copy[spillDepth].Load())
	c.StoredBytes = m.copy[storedBytes].Load()
	c.RereadBytes = m.copy[rereadBytes].Load()
}
