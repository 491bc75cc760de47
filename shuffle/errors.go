package shuffle

import (
	"errors"
	"fmt"

	"github.com/sluiceio/sluice/shuffle/budget"
	"github.com/sluiceio/sluice/shuffle/loss"
)

// Codes of errors that a user can do something about.
const (
	CodeMemory = budget.Code // network.memory does not suffice
	CodeRecord = "E129"      // a record is too large for the exchange
)

// ErrGone is returned (wrapped) by NetworkConfig.Dial when the process that was asked for has ended: there is no use
// in trying again.
var ErrGone = errors.New("process has ended")

// Reason says why a channel was lost.
type Reason = loss.Reason

// Why a channel was lost.
const (
	Broken   = loss.Broken
	Failed   = loss.Failed
	Corrupt  = loss.Corrupt
	Stale    = loss.Stale
	Gone     = loss.Gone
	Protocol = loss.Protocol
	Timeout  = loss.Timeout

	notYet = loss.NotYet
	none   = loss.None
)

// LossError says that the channel between two subtasks broke: the other end died, was cancelled, refused, or could
// not be understood. Whoever gets it has lost records and cannot go on. It is never the fault of user code.
type LossError struct {
	Edge, Producer, Consumer int32
	Reason                   Reason
	Cause                    error // may be nil
}

func (e *LossError) Error() string {
	s := fmt.Sprintf("channel of edge %d from producer %d to consumer %d: %s", e.Edge, e.Producer, e.Consumer, e.Reason)
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

func (e *LossError) Unwrap() error { return e.Cause }

// MemoryError says that the network memory of the process cannot hold the buffers that something needs.
type MemoryError = budget.Error

// RecordError says that a record is too large to travel between processes.
type RecordError struct {
	Edge, Producer int32
	Size, Limit    int64 // bytes, encoded
}

func (e *RecordError) Error() string {
	return fmt.Sprintf("%s: edge %d, producer %d: a record of %d bytes is larger than the exchange carries (%d); split it, or send a reference to it",
		CodeRecord, e.Edge, e.Producer, e.Size, e.Limit)
}
