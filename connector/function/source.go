package function

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
)

// Next returns the records at offset off, and the offset behind them. It may block until there are some or ctx is done; if it
// returns none it is called again after a while, with the offset that it has returned. io.EOF, with or after the last records,
// ends the source. Any other error fails the attempt, unless ctx is done.
//
// After a failure it is called again with an offset of before, and what it returns then must begin with the records that it
// has returned before: more may follow, none may be missing.
type Next[T, Off any] func(ctx context.Context, off Off) (vs []T, next Off, err error)

// Poll is the unbounded source of what f returns, beginning at start. It may end nevertheless.
func Poll[T, Off any](start Off, f Next[T, Off]) connector.Source[T] {
	return &source[T, Off]{start: start, f: f}
}

// PollAll is Poll for an input that is known to end.
func PollAll[T, Off any](start Off, f Next[T, Off]) connector.Source[T] {
	return &source[T, Off]{start: start, f: f, ends: true}
}

type source[T, Off any] struct {
	start Off
	f     Next[T, Off]
	ends  bool
}

var _ connector.Checker = (*source[int, int])(nil)

// Check: there is a function, and its offsets can be stored.
func (s *source[T, Off]) Check() error {
	if s.f == nil {
		return errors.New("there is no function to poll")
	}
	_, err := codec.Of[Off](nil)
	if err != nil {
		return fmt.Errorf("the offset: %w", err)
	}
	return nil
}

func (s *source[T, Off]) Bounded() bool { return s.ends }

// String is the detail that a plan shows.
func (s *source[T, Off]) String() string { return "function" }

func (s *source[T, Off]) OpenEnumerator(context.Context, int, []byte) (connector.Enumerator, error) {
	c, err := codec.Of[Off](nil)
	if err != nil {
		return nil, connector.Fatal(fmt.Errorf("the offset: %w", err))
	}
	split, err := encode(c, position[Off]{offset: s.start})
	if err != nil {
		return nil, connector.Fatal(err)
	}
	return &enumerator{split: []connector.Split{split}}, nil
}

// enumerator has one split. That it has no more is known at once, also of an unbounded source.
type enumerator struct{ split []connector.Split }

func (e *enumerator) Next(context.Context) (splits []connector.Split, err error) {
	splits, e.split = e.split, nil
	return splits, io.EOF
}

func (e *enumerator) Snapshot(element.CheckpointID) ([]byte, error) { return nil, nil }
func (e *enumerator) Close() error                                  { return nil }

func (s *source[T, Off]) OpenReader(context.Context, *connector.Task) (connector.Reader[T], error) {
	c, err := codec.Of[Off](nil)
	if err != nil {
		return nil, connector.Fatal(fmt.Errorf("the offset: %w", err))
	}
	return &reader[T, Off]{f: s.f, codec: c, rest: firstRest}, nil
}

// reader reads the split of the function, of which there is one.
type reader[T, Off any] struct {
	f     Next[T, Off]
	codec *codec.Codec[Off]

	open  bool // the split is assigned and not finished
	at    position[Off]
	vs    []T // what f has returned at at.offset, the skipped ones included
	next  Off // behind vs
	ended bool
	rest  time.Duration // before f is called again
}

// How long f is left alone that has returned nothing: twice as long each time.
const (
	firstRest = time.Millisecond
	lastRest  = time.Second
)

func (r *reader[T, Off]) Assign(splits []connector.Split) error {
	for _, s := range splits {
		at, err := decode(r.codec, s)
		if err != nil {
			return connector.Fatal(err)
		}
		if r.open {
			return connector.Fatal(fmt.Errorf("a second split %q", s.ID))
		}
		r.at, r.open = at, true
		r.vs, r.ended = nil, false
	}
	return nil
}

func (r *reader[T, Off]) Poll(ctx context.Context, out *connector.Records[T]) error {
	for r.open {
		if uint64(len(r.vs)) <= r.at.skip && !r.ended {
			if out.Len() > 0 || ctx.Err() != nil {
				return nil
			}
			if err := r.call(ctx); err != nil {
				return err
			}
			continue
		}
		for r.at.skip < uint64(len(r.vs)) {
			if out.Full() {
				return nil
			}
			out.Add(0, r.vs[r.at.skip], 0, int64(r.at.number))
			r.at.skip++
			r.at.number++
		}
		if r.ended {
			r.open = false
			r.vs = nil
			out.Finish(0)
			break
		}
		r.at.offset, r.at.skip, r.vs = r.next, 0, nil
	}
	return io.EOF
}

// call asks f for more. Without an error there may be nothing new.
func (r *reader[T, Off]) call(ctx context.Context) error {
	vs, next, err := r.f(ctx, r.at.offset)
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		r.ended = true
	case ctx.Err() != nil:
		return nil // it gave way to something more urgent
	default:
		return fmt.Errorf("poll after %d records: %w", r.at.number, err)
	}
	if r.at.skip > 0 && uint64(len(vs)) <= r.at.skip {
		return fmt.Errorf("poll: %d records where there were more than %d before: the same offset must give the same records", len(vs), r.at.skip)
	}
	r.vs, r.next = vs, next
	if len(vs) > 0 || r.ended {
		r.rest = firstRest
		return nil
	}
	r.at.offset = next
	r.wait(ctx)
	return nil
}

func (r *reader[T, Off]) wait(ctx context.Context) {
	timer := time.NewTimer(r.rest)
	defer timer.Stop()
	select {
	case <-timer.C:
		r.rest = min(2*r.rest, lastRest)
	case <-ctx.Done():
	}
}

// Describe counts the records of the source.
func (r *reader[T, Off]) Describe(_ connector.SplitIndex, pos int64) string {
	return fmt.Sprintf("record %d", pos)
}

func (r *reader[T, Off]) Snapshot(element.CheckpointID) ([]connector.Split, error) {
	if !r.open {
		return nil, nil
	}
	s, err := encode(r.codec, r.at)
	if err != nil {
		return nil, err
	}
	return []connector.Split{s}, nil
}

func (r *reader[T, Off]) Committed(context.Context, element.CheckpointID) error { return nil }
func (r *reader[T, Off]) Close() error                                          { return nil }
