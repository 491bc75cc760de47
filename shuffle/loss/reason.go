package loss

import (
	"fmt"

	"github.com/sluiceio/sluice/proto/exchangepb"
	"github.com/sluiceio/sluice/shuffle/meet"
)

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

	// NotYet is not a loss: ask again.
	NotYet Reason = 0xff
	// None is no reason.
	None Reason = 0
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
	case NotYet:
		return "not deployed yet"
	}
	return fmt.Sprintf("reason %d", uint8(r))
}

// Refusal is r as the peer reads it.
func (r Reason) Refusal() exchangepb.Refusal {
	switch r {
	case None:
		return exchangepb.Refusal_REFUSAL_NONE
	case NotYet:
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

// Of is what a peer's refusal means to this side; unknown ones are failures.
func Of(r exchangepb.Refusal) Reason {
	switch r {
	case exchangepb.Refusal_REFUSAL_NONE:
		return None
	case exchangepb.Refusal_REFUSAL_NOT_YET:
		return NotYet
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

// For is why an end that got this verdict is lost.
func For(v meet.Verdict) Reason {
	switch v {
	case meet.Accepted:
		return None
	case meet.NotYet:
		return NotYet
	case meet.Stale:
		return Stale
	case meet.Gone:
		return Gone
	}
	return Protocol
}
