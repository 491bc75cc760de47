package stored

import (
	"context"
	"fmt"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/shuffle"
)

// Compression of the blocks of a result.
type Compression uint8

const (
	// Uncompressed blocks cost the least CPU.
	Uncompressed Compression = iota
	// S2 halves typical records for about 60 ns each.
	S2
	// Zstd makes them a third for about 250 ns each.
	Zstd
)

func (c Compression) String() string {
	switch c {
	case Uncompressed:
		return "none"
	case S2:
		return "s2"
	case Zstd:
		return "zstd"
	}
	return fmt.Sprintf("compression %d", uint8(c))
}

// ParseCompression reads a value of the setting batch.compression: none, s2 or zstd.
func ParseCompression(text string) (Compression, error) {
	for c := Uncompressed; c <= Zstd; c++ {
		if c.String() == text {
			return c, nil
		}
	}
	return 0, fmt.Errorf("compression %q is none of none, s2, zstd", text)
}

// WriterConfig describes the producing end of a BLOCKING edge in one subtask.
type WriterConfig[T any] struct {
	Ctx      context.Context
	Exchange *Exchange
	Name     Name // of the partition
	// First and Consumers say which consumers the partition is for: subtasks First to First+Consumers-1.
	First       int32
	Consumers   int32
	Codec       *codec.Codec[T]
	Compression Compression
}

// Writer is the producing end of one BLOCKING edge in one subtask. It belongs to the subtask's loop.
type Writer[T any] struct{ cfg WriterConfig[T] }

// NewWriter reserves memory and makes the files of the partition, under temporary names.
func NewWriter[T any](cfg WriterConfig[T]) (*Writer[T], error) { return nil, errUnbuilt }

// Add takes one record for consumer First+to. It blocks while the disk does.
func (w *Writer[T]) Add(to int, v T, at element.Time) error { return errUnbuilt }

// Broadcast puts ev behind everything that was added, for every consumer: a watermark, idleness or the end. Barriers do
// not cross a stored result and are an error.
func (w *Writer[T]) Broadcast(ev element.Event) error { return errUnbuilt }

// Flush does nothing: a stored result is read when it is finished.
func (w *Writer[T]) Flush() error { return nil }

// Pending is false: there is nothing that Flush could hand over.
func (w *Writer[T]) Pending() bool { return false }

// Close ends the writer. With a nil err, after End was broadcast, the partition is durable and published when it
// returns nil; else its files are removed.
func (w *Writer[T]) Close(err error) error { return errUnbuilt }

// Result describes the partition after Close(nil); nil before.
func (w *Writer[T]) Result() *jobpb.Partition { return nil }

// Stats are the counters so far: Buffers counts blocks, Bytes what was written to the data file, Blocked the time that
// the disk took.
func (w *Writer[T]) Stats() shuffle.WriterStats { return shuffle.WriterStats{} }
