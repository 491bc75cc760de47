package stored

import (
	"context"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/shuffle"
)

// Producer is a partition that a reader reads.
type Producer struct {
	Name Name
	// Peer is the agent of the worker that holds it (its Process is 0); nil: the store of this process.
	Peer *shuffle.Peer
	// Stored: the facts say that it is finished, so if it is not there it is lost. Otherwise it is waited for.
	Stored bool
}

// Position says how far a reader has come. It holds for the producing attempt that it names.
type Position struct {
	Producer int    // position in ReaderConfig.Producers; their number: everything was read
	Attempt  uint32 // of that producer
	Block    int64  // of the consumer's subpartition
	Offset   int64  // records of that block that were handed out
}

// ReaderConfig describes the consuming end of a BLOCKING edge in one subtask.
type ReaderConfig[T any] struct {
	Ctx       context.Context // when it ends, the reader has failed
	Exchange  *Exchange
	Consumer  int32      // index of this subtask
	Producers []Producer // in the order in which they are read
	Codec     *codec.Codec[T]
	// Notify is called when Next may have something. It must not block and may come from any goroutine.
	Notify func()
	// From is where to begin. Producers before it count as read: only their End comes, with MaxTime. Events that stand
	// directly before the position come again.
	From Position
}

// Reader is the consuming end of one BLOCKING edge in one subtask: producers in order, blocks in order. It belongs to
// the subtask's loop.
type Reader[T any] struct{ cfg ReaderConfig[T] }

// NewReader reserves memory and begins to read ahead. A position of another attempt is an error that matches ErrVoid.
func NewReader[T any](cfg ReaderConfig[T]) (*Reader[T], error) { return nil, errUnbuilt }

// Next yields the next batch or event, if there is one. It never blocks. Input.Channel is the position in Producers;
// the last of each is its End. An error is the same from then on.
func (r *Reader[T]) Next() (in shuffle.Input[T], ok bool, err error) { return in, false, errUnbuilt }

// Release gives an input's batch back. Every input with a batch is released once.
func (r *Reader[T]) Release(in shuffle.Input[T]) {}

// Position is where a reader would begin that is to yield what this one has not yielded yet. Of a batch that is only
// partly processed, subtract the rest from Offset: a batch never crosses a block.
func (r *Reader[T]) Position() Position { return Position{} }

// Stats are the counters so far: Buffers counts blocks, Bytes what was read of data files.
func (r *Reader[T]) Stats() shuffle.GateStats { return shuffle.GateStats{} }

// Close ends the reader and waits until nothing reads ahead for it any more.
func (r *Reader[T]) Close(err error) {}
