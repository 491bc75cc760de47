package batch

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/worker/spill"
	"github.com/sluiceio/sluice/worker/task"
)

// MinMemory is the least share that an operator can work with, in bytes.
const MinMemory = 64 << 10

// Memory is one operator's share of the memory, and its files.
type Memory struct {
	*spill.Budget
	rt    *task.Runtime
	space *spill.Space // nil: there is no limit, and nothing is spilled
	held  int64        // of Counters.StateBytes
}

// Open takes what the runtime has for the operator.
func Open(rt *task.Runtime) (*Memory, error) {
	b := rt.Batch
	if b.Spill == nil {
		return &Memory{Budget: spill.NewBudget(0), rt: rt}, nil
	}
	if b.Memory > 0 && b.Memory < MinMemory {
		return nil, &spill.Error{
			Code: spill.CodeBudget, Path: rt.Task.Operator, Bytes: MinMemory, Fatal: true,
			Err: fmt.Errorf("its share of batch.memory is %d", b.Memory),
		}
	}
	m := &Memory{Budget: spill.NewBudget(b.Memory), rt: rt}
	counts := spill.Counts{Bytes: &rt.Counters.Spilled, Records: &rt.Counters.SpilledRecords, Files: &rt.Counters.SpillFiles}
	m.space = b.Spill.NewSpace(m.Budget, counts, spill.BlockFor(b.Memory))
	// Spilling begins when nothing is left: it needs the buffers that all streams share, and those of a few streams.
	m.ReserveStreams(4)
	return m, nil
}

// ReserveStreams keeps memory for the buffers that all streams share and for those of n streams.
func (m *Memory) ReserveStreams(n int) {
	if m.space != nil {
		m.Reserve(m.space.Overhead() + int64(n)*m.Block())
	}
}

// Block is the memory of a stream that is being written or read.
func (m *Memory) Block() int64 {
	if m.space == nil {
		return 0
	}
	return int64(m.space.Block())
}

// NewFile makes a file for streams. It must not be called if there is no limit.
func (m *Memory) NewFile() *spill.File { return m.space.NewFile() }

// Limits of the number of partitions.
const (
	minFanOut = 4
	maxFanOut = 32
)

// FanOut is the number of partitions of which each has buffers open streams, as a power of two: their buffers are an eighth of the
// memory at most.
func (m *Memory) FanOut(buffers int) (bitsOfHash uint) {
	n := int64(maxFanOut)
	if m.Limit() > 0 {
		n = min(n, max(minFanOut, m.Limit()/8/(int64(buffers)*m.Block())))
	}
	return uint(bits.Len64(uint64(n)) - 1)
}

// Needed is the number of partitions, as a power of two, of which each is a small part of the memory if all of them have
// bytes: two at least, and at most that of FanOut.
func (m *Memory) Needed(buffers int, bytes int64) (bitsOfHash uint) {
	most := m.FanOut(buffers)
	if m.Limit() <= 0 {
		return most
	}
	return min(most, max(1, uint(bits.Len64(uint64(bytes*16/m.Limit())))))
}

// Deeper counts a level of recursion, or a merge pass.
func (m *Memory) Deeper(level int) {
	m.rt.Counters.SpillDepth = max(m.rt.Counters.SpillDepth, int64(level))
}

// Publish counts what is held as state.
func (m *Memory) Publish() {
	m.rt.Counters.StateBytes += m.Used() - m.held
	m.held = m.Used()
}

// errUnlimited says that something was to be spilled although nothing is short: a bug of the operator.
var errUnlimited = errors.New("nothing can be spilled: memory has no limit")

// MustSpill is an error if there is no limit.
func (m *Memory) MustSpill() error {
	if m.space == nil || m.Limit() <= 0 {
		return errUnlimited
	}
	return nil
}

// Close gives everything back that lies on the disk.
func (m *Memory) Close() error {
	m.rt.Counters.StateBytes -= m.held
	m.held = 0
	if m.space == nil {
		return nil
	}
	return m.space.Close()
}

// odd multipliers, one per use: the hash of a key is multiplied once per record on the first level.
const (
	spread = 0x9e3779b97f4a7c15
	step   = 0xd1b54a32d192ed03
)

// Level makes fresh bits of a key's hash for a level of recursion: the highest ones choose the partition, the next 32 find the
// row. On the first level the product spreads the low bits, of which a subtask has all, over the high ones, of which it
// has the share that its key groups leave.
func Level(h uint64, level int) uint64 {
	if level == 0 {
		return h * spread
	}
	return codec.Mix(h + uint64(level)*step)
}
