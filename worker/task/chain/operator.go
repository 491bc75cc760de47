package chain

import "github.com/sluiceio/sluice/flow/element"

// Operator is the control side of one operator of one subtask; records go through its Push and never through here.
// All calls come from the loop of the subtask, between records. An error fails the attempt.
//
// The order of calls is
//
//	(OnWatermark | OnBarrier | OnInputEnd)* [OnWatermark(MaxTime) Finish OnBarrier*] Close
//
// and Close comes in any case, also after a failure and after a panic of the operator itself. What an operator remembers over a
// failure is in its tables (Runtime.Keep), which are frozen behind OnBarrier.
type Operator interface {
	// OnWatermark says that no record with a time at or below t follows. Times grow from call to call. The operator
	// may emit; what it emits reaches the operators behind it before they see the same watermark.
	OnWatermark(t element.Time) error
	// OnBarrier separates the records of checkpoint id from those after it: what is not in the tables of the operator has to be
	// put there now. It must not emit. It comes also behind Finish, until a completed checkpoint contains the end.
	OnBarrier(id element.CheckpointID) error
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

// Occasioned is an Operator that knows more about what it does than which event it handles: which timer it calls, which window
// it emits.
type Occasioned interface {
	// Occasion describes that for the report of a failure, in the same words on every attempt; empty: there is no more to say. It
	// is called after the operator, or what it has called, has failed or panicked, and changes nothing.
	Occasion() string
}

// Holder is an Operator that holds watermarks and idleness back: it sees watermarks itself, those behind it see one, MaxTime,
// at the end. Such an operator may emit records with any time until then.
type Holder interface {
	HoldsWatermarks()
}

// Base is an Operator that ignores every event and has no state. Embed it and override what matters.
type Base struct{}

var _ Operator = Base{}

// OnWatermark does nothing.
func (Base) OnWatermark(element.Time) error { return nil }

// OnBarrier does nothing.
func (Base) OnBarrier(element.CheckpointID) error { return nil }

// Finish does nothing.
func (Base) Finish() error { return nil }

// Close does nothing.
func (Base) Close() error { return nil }
