package shuffle

import (
	"errors"
	"fmt"

	"github.com/sluiceio/sluice/proto/exchangepb"
	"github.com/sluiceio/sluice/shuffle/budget"
	"github.com/sluiceio/sluice/shuffle/meet"
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
type Reason uint8

const (
	// Broken: the connection ended.
	Broken Reason = iota + 1
	// Failed: the other end closed with an error.
	Failed
	// Corrupt: a frame had a wrong checksum or could not be decoded.
	Corrupt
	// Stale: this end belongs to an older attempt or epoch than the other.
	Stale
	// Gone: the attempt at the other end has ended.
	Gone
	// Protocol: the other end did what the protocol forbids.
	Protocol
	// Timeout: the other end was not there within the connect timeout.
	Timeout

	notYet Reason = 0xff // not a loss: ask again
	none   Reason = 0
)

func (r Reason) String() string {
	switch r {
	case Broken:
		return "connection lost"
	case Failed:
		return "other end failed"
	case Corrupt:
		return "corrupt data"
	case Stale:
		return "refused as stale"
	case Gone:
		return "other end has ended"
	case Protocol:
		return "protocol violated"
	case Timeout:
		return "not connected in time"
	case notYet:
		return "not deployed yet"
	}
	return fmt.Sprintf("reason %d", uint8(r))
}

// refusal is r as the peer reads it.
func (r Reason) refusal() exchangepb.Refusal {
	switch r {
	case none:
		return exchangepb.Refusal_REFUSAL_NONE
	case notYet:
		return exchangepb.Refusal_REFUSAL_NOT_YET
	case Stale:
		return exchangepb.Refusal_REFUSAL_STALE
	case Gone:
		return exchangepb.Refusal_REFUSAL_GONE
	case Protocol:
		return exchangepb.Refusal_REFUSAL_PROTOCOL
	case Corrupt:
		return exchangepb.Refusal_REFUSAL_CORRUPT
	}
	return exchangepb.Refusal_REFUSAL_FAILED
}

// reasonOf is what a peer's refusal means to this side; unknown ones are failures.
func reasonOf(r exchangepb.Refusal) Reason {
	switch r {
	case exchangepb.Refusal_REFUSAL_NONE:
		return none
	case exchangepb.Refusal_REFUSAL_NOT_YET:
		return notYet
	case exchangepb.Refusal_REFUSAL_STALE:
		return Stale
	case exchangepb.Refusal_REFUSAL_GONE:
		return Gone
	case exchangepb.Refusal_REFUSAL_PROTOCOL:
		return Protocol
	case exchangepb.Refusal_REFUSAL_CORRUPT:
		return Corrupt
	}
	return Failed
}

// reasonFor is why an end that got this verdict is lost.
func reasonFor(v meet.Verdict) Reason {
	switch v {
	case meet.Accepted:
		return none
	case meet.NotYet:
		return notYet
	case meet.Stale:
		return Stale
	case meet.Gone:
		return Gone
	}
	return Protocol
}

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
