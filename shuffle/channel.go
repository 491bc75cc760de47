package shuffle

import (
	"github.com/sluiceio/sluice/shuffle/budget"
	"github.com/sluiceio/sluice/shuffle/meet"
)

// Fence identifies the two attempts that a channel joins.
type Fence = meet.Fence

// channelID is a channel's place in the plan: the same for all attempts.
type channelID struct{ edge, producer, consumer int32 }

func (c channelID) lost(r Reason, cause error) *LossError {
	return &LossError{Edge: c.edge, Producer: c.producer, Consumer: c.consumer, Reason: r, Cause: cause}
}

// endpoint is an end of a channel, as the meeting of its two ends sees it.
type endpoint interface {
	// lose fails the attempt that the end belongs to. It may be called more than once and takes locks of its own.
	lose(r Reason, cause error)
}

const (
	minUnit = budget.MinUnit
	maxUnit = budget.MaxUnit

	// connectionBytes are charged for each stream to another process: read and write buffers of the transport.
	connectionBytes = 128 << 10
	// grpcPrefix is what gRPC puts before a message. Units include it, so that a full frame fills whole HTTP/2 frames,
	// and whole buffers of the receiver's pool.
	grpcPrefix = 5
)

// wakeup is a doorbell: rings while nobody waits are kept, but only one.
type wakeup chan struct{}

func newWakeup() wakeup { return make(wakeup, 1) }

func (w wakeup) ring() {
	select {
	case w <- struct{}{}:
	default:
	}
}
