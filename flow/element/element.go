package element

import (
	"math"
	"strconv"
	"time"
)

// Time is event time in microseconds since the Unix epoch, UTC. It is comparable and a good key.
type Time int64

const (
	// MinTime is the watermark before any promise was made.
	MinTime Time = math.MinInt64
	// MaxTime is the watermark at the end of a bounded input: no record follows at all.
	MaxTime Time = math.MaxInt64
)

// At is the event time of t, cut to microseconds. What lies beyond a limit of time, some 290,000 years from now, is that limit.
func At(t time.Time) Time {
	const most = int64(MaxTime) / 1_000_000 // seconds
	switch s := t.Unix(); {
	case s > most-1:
		return MaxTime
	case s < -most:
		return MinTime
	}
	return Time(t.UnixMicro())
}

// Std is t as a time.Time in UTC.
func (t Time) Std() time.Time { return time.UnixMicro(int64(t)).UTC() }

// Add moves t by d, which is cut to microseconds, at most to a limit of time: the end of time is reached, not passed.
func (t Time) Add(d time.Duration) Time {
	by := Time(d.Microseconds())
	sum := t + by
	switch {
	case by > 0 && sum < t:
		return MaxTime
	case by < 0 && sum > t:
		return MinTime
	}
	return sum
}

// Sub is the duration from o to t; the longest or the shortest one that there is if it does not fit, as of times some 290
// years apart.
func (t Time) Sub(o Time) time.Duration {
	const most = Time(math.MaxInt64 / time.Microsecond)
	d := t - o
	switch {
	case t > o && (d < 0 || d > most):
		return math.MaxInt64
	case t < o && (d > 0 || d < -most):
		return math.MinInt64
	}
	return time.Duration(d) * time.Microsecond
}

// String is the time in RFC 3339 with microseconds; the two limits have names.
func (t Time) String() string {
	switch t {
	case MinTime:
		return "-∞"
	case MaxTime:
		return "+∞"
	}
	if y := t.Std().Year(); y < 0 || y > 9999 {
		return strconv.FormatInt(int64(t), 10) + "µs"
	}
	return t.Std().Format("2006-01-02T15:04:05.999999Z07:00")
}

// CheckpointID grows by one per checkpoint or savepoint for the life of a job and is never reused.
type CheckpointID uint64

// Batch is a run of records with their event times, len(Vals) == len(Times). Exchanges hand batches over and recycle
// them: whoever receives one owns it until it gives it back, and keeps no reference to Vals afterwards.
type Batch[T any] struct {
	Vals  []T
	Times []Time
}

// Append adds one record.
func (b *Batch[T]) Append(v T, at Time) {
	b.Vals = append(b.Vals, v)
	b.Times = append(b.Times, at)
}

// Len is the number of records.
func (b *Batch[T]) Len() int { return len(b.Vals) }

// Reset empties the batch and drops the references that its records hold.
func (b *Batch[T]) Reset() {
	clear(b.Vals)
	b.Vals, b.Times = b.Vals[:0], b.Times[:0]
}

// Kind says what an Event announces.
type Kind uint8

const (
	// None is the zero Kind: no event.
	None Kind = iota
	// Watermark promises that no record with a time at or below Event.Time follows on this channel.
	Watermark
	// Idle says that the channel takes no part in the minimum until its next watermark. Records do not end it: those
	// of a source without event time never do.
	Idle
	// Barrier separates the records of checkpoint Event.Checkpoint from those after it.
	Barrier
	// End says that nothing follows. It carries the channel's last watermark in Event.Time: MaxTime if the input was
	// bounded and read to its end.
	End
)

// Event is an in-band control element. It follows all records that were sent before it and precedes all others.
type Event struct {
	Kind       Kind
	Time       Time
	Checkpoint CheckpointID
}
