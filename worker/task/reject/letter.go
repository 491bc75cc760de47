package reject

import (
	"fmt"
	"time"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/task/chain"
)

// Port is where an operator emits its letters.
const Port = "dead-letters"

// DeadLetter is a record that an operator could not process, with what is needed to find the cause and to process it later.
type DeadLetter struct {
	Job      string
	Operator string // its id
	Subtask  int32
	Attempt  uint32 // of the subtask
	Error    string
	// At is when it failed, EventTime the record's own time: the lowest one, if the record was not decoded.
	At        time.Time
	EventTime element.Time
	// Position is where the record came from: file and line, number of the value, …
	Position string
	// Codec is the schema of Value; empty: it is what the source has read.
	Codec string
	// Key is the encoded key, nil if the operator has none.
	Key   []byte
	Value []byte
}

// Failed decides about a record that has failed for good: position is where it came from. Cursor.At is its event time.
type Failed[T any] func(v T, err error, position string)

// New makes the decision of an operator without keys.
func New[T any](rt *chain.Runtime, p Policy) (Failed[T], error) { return made[T](rt, p, nil) }

// Keyed makes the decision of an operator with keys.
func Keyed[K comparable, T any](rt *chain.Runtime, p Policy, key func(T) K) (Failed[T], error) {
	if p.Action != Letter {
		return made[T](rt, p, nil)
	}
	c, err := codec.Of[K](p.Registry)
	if err != nil {
		return nil, fmt.Errorf("key of dead letters: %w", err)
	}
	return made(rt, p, func(v T) ([]byte, error) {
		k := key(v)
		return c.Append(nil, &k)
	})
}

func made[T any](rt *chain.Runtime, p Policy, key func(T) ([]byte, error)) (Failed[T], error) {
	decide := rt.SkipAt
	var write func(v T, err error, position string)
	switch p.Action {
	case Fail:
		decide = rt.FailAt
	case Letter:
		w, err := newWriter(rt, p, key)
		if err != nil {
			return nil, err
		}
		write = w.write
	}
	return func(v T, err error, position string) {
		switch {
		case rt.Ctx.Err() != nil: // the attempt has to stop, which is no fault of the record
			rt.FailAt(rt.Ctx.Err(), position)
		case Final(err):
			rt.FailAt(err, position)
		case write != nil:
			write(v, err, position)
		default:
			decide(err, position)
		}
	}, nil
}

// writer makes letters.
type writer[T any] struct {
	rt    *chain.Runtime
	out   chain.Push[DeadLetter]
	codec *codec.Codec[T]
	key   func(T) ([]byte, error) // nil: none
}

func newWriter[T any](rt *chain.Runtime, p Policy, key func(T) ([]byte, error)) (*writer[T], error) {
	out, err := chain.SideOutput[DeadLetter](rt, Port)
	if err != nil {
		return nil, err
	}
	c, err := codec.Of[T](p.Registry)
	if err != nil {
		return nil, fmt.Errorf("dead letters: %w", err)
	}
	return &writer[T]{rt: rt, out: out, codec: c, key: key}, nil
}

func (w *writer[T]) write(v T, err error, position string) {
	l := letter(w.rt, err, position)
	l.EventTime, l.Codec = w.rt.At, w.codec.Schema()
	var broken error
	if l.Value, broken = w.codec.Append(nil, &v); broken != nil {
		l.Value, l.Error = nil, fmt.Sprintf("%s; the record cannot be kept: %v", l.Error, broken)
	}
	if w.key != nil {
		if l.Key, broken = w.key(v); broken != nil {
			l.Key, l.Error = nil, fmt.Sprintf("%s; its key cannot be kept: %v", l.Error, broken)
		}
	}
	w.rt.Letter(err, position)
	w.out(l)
}

func letter(rt *chain.Runtime, err error, position string) DeadLetter {
	t := rt.Task
	return DeadLetter{
		Job: t.Job, Operator: t.Operator, Subtask: int32(t.Subtask), Attempt: t.Attempt, Error: err.Error(), At: rt.Now().UTC(), Position: position,
	}
}

// Raw makes the decision about records that were never decoded.
func Raw(rt *chain.Runtime, p Policy) (Failed[[]byte], error) {
	if p.Action != Letter {
		return made[[]byte](rt, p, nil)
	}
	out, err := chain.SideOutput[DeadLetter](rt, Port)
	if err != nil {
		return nil, err
	}
	return func(raw []byte, err error, position string) {
		if Final(err) {
			rt.FailAt(err, position)
			return
		}
		l := letter(rt, err, position)
		l.EventTime, l.Value = element.MinTime, append([]byte(nil), raw...)
		rt.Letter(err, position)
		out(l)
	}, nil
}
