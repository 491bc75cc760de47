package task

import (
	"context"
	"time"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
)

// Cursor is where the loop of a subtask stands. All operators of the subtask share one.
type Cursor struct {
	// At is the event time of the record in flight. The head of the chain sets it before each Push. An operator that
	// emits with another time (a window result) sets it before it emits; nothing relies on it being put back, because
	// the head sets it again and OnWatermark starts with any.
	At element.Time
	// Watermark is the last one passed to the operators of the subtask.
	Watermark element.Time
	// Counters of the subtask that operators add to: plain integers of its goroutine.
	Counters Counters
}

// Counters are what only operators can count. They are published once per batch.
type Counters struct {
	Late       int64 // records dropped because their window had closed
	Replayed   int64 // records processed again after a restore
	StateBytes int64 // size of the keyed state
	Spilled    int64 // bytes moved from memory to disk
}

// KeyGroups is the half-open range of key groups that a subtask owns.
type KeyGroups struct{ First, End int }

// Contains reports whether the range holds group g.
func (k KeyGroups) Contains(g int) bool { return k.First <= g && g < k.End }

// Runtime is what one operator of one subtask knows about its surroundings. It belongs to the goroutine of the
// subtask. The fields do not change while the attempt lives; those of Cursor do.
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

	shared any
	err    error
}

// Fail reports an error of user code, or of a connector, that must end the attempt. The loop looks at it once per
// batch: the records of the batch that follow still arrive. The first error wins, with the position of its record.
func (rt *Runtime) Fail(err error) {
	if rt.err == nil {
		rt.err = err
	}
}

// Skip reports a record that an error policy has dropped: counted, and logged at a bounded rate.
func (rt *Runtime) Skip(err error) {}

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

// SideOutput is where the operator emits to its side output of this name. Without a consumer it drops.
func SideOutput[T any](rt *Runtime, port string) (Push[T], error) {
	return output[T](rt, nil)
}
