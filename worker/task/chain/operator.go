package chain

import (
	"iter"

	"github.com/sluiceio/sluice/flow/element"
)

// Operator is the control side of one operator of one subtask; records go through its Push and never through here.
// All calls but Snapshot come from the loop of the subtask, between records. An error fails the attempt.
//
// The order of calls is
//
//	Restore? (OnWatermark | OnBarrier | OnInputEnd)* [OnWatermark(MaxTime) Finish] Close
//
// and Close comes in any case, also after a failure and after a panic of the operator itself.
//
// OnBarrier, Snapshot and Restore belong to checkpoints: the barrier reaches the operator in band, the loop calls
// OnBarrier, and the checkpoint driver of the process then calls Snapshot.
type Operator interface {
	// OnWatermark says that no record with a time at or below t follows. Times grow from call to call. The operator
	// may emit; what it emits reaches the operators behind it before they see the same watermark.
	OnWatermark(t element.Time) error
	// OnBarrier separates the records of checkpoint id from those after it. It fixes what Snapshot will write, in time
	// that does not depend on the size of the state, and must not emit.
	OnBarrier(id element.CheckpointID) error
	// Snapshot writes the state as OnBarrier(id) has fixed it. It is called once after OnBarrier and may run on another
	// goroutine, at the same time as records: it touches only what OnBarrier has set aside. put copies what it keeps.
	Snapshot(id element.CheckpointID, put func(Entry) error) error
	// Restore replaces the state by the entries of a completed checkpoint. Called before the first record, at most once.
	Restore(entries iter.Seq2[Entry, error]) error
	// Finish says that the input has ended, after OnWatermark(MaxTime). The operator may emit its last records.
	Finish() error
	// Close releases resources. It must not emit and must not block for long.
	Close() error
}

// InputEnder is an Operator with several inputs that wants to know when one of them has ended (build before probe). It is
// called once per input, in the order in which they end and, of those that end together, in the order of the
// operator's inputs; the last of them before OnWatermark(MaxTime) and Finish, which stay as they are. No record of the
// input follows. The operator may emit. An operator with one input learns it from Finish alone.
type InputEnder interface {
	OnInputEnd(input int) error
}

// Holder is an Operator that holds watermarks and idleness back: it sees watermarks itself, those behind it see one, MaxTime,
// at the end. Such an operator may emit records with any time until then.
type Holder interface {
	HoldsWatermarks()
}

// OperatorState is the KeyGroup of entries that belong to no key.
const OperatorState = -1

// Entry is one entry of an operator's state in a snapshot.
type Entry struct {
	State    string // name of the state within the operator
	KeyGroup int    // or OperatorState
	Key      []byte
	Value    []byte
	Deleted  bool // tombstone: the entry existed at the base of this snapshot and is gone
}

// Base is an Operator that ignores every event and has no state. Embed it and override what matters.
type Base struct{}

var _ Operator = Base{}

// OnWatermark does nothing.
func (Base) OnWatermark(element.Time) error { return nil }

// OnBarrier does nothing.
func (Base) OnBarrier(element.CheckpointID) error { return nil }

// Snapshot writes nothing.
func (Base) Snapshot(element.CheckpointID, func(Entry) error) error { return nil }

// Restore expects nothing: entries that nobody reads would be lost state.
func (Base) Restore(entries iter.Seq2[Entry, error]) error {
	for e, err := range entries {
		if err != nil {
			return err
		}
		return &StateError{State: e.State}
	}
	return nil
}

// Finish does nothing.
func (Base) Finish() error { return nil }

// Close does nothing.
func (Base) Close() error { return nil }

// StateError is state in a snapshot that the operator does not have.
type StateError struct{ State string }

func (e *StateError) Error() string { return "the operator has no state " + e.State }
