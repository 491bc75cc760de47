package manual

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
)

// Departure is a moment of a Timetable: After it has been opened, the next Records are given.
type Departure struct {
	After   time.Duration
	Records int
}

// Timetable is a bounded source of one split that gives its records, in order, at the moments of a plan; what the plan leaves
// over comes with the last of them.
func Timetable[T any](records []T, plan []Departure) connector.Source[T] {
	return &timetable[T]{records: records, plan: plan}
}

type timetable[T any] struct {
	records []T
	plan    []Departure
}

func (s *timetable[T]) Bounded() bool { return true }

// String is the detail that a plan shows.
func (s *timetable[T]) String() string { return fmt.Sprintf("%d values by the clock", len(s.records)) }

func (s *timetable[T]) OpenEnumerator(context.Context, int, []byte) (connector.Enumerator, error) {
	return &oneSplit{splits: []connector.Split{splitAt(0)}}, nil
}

func (s *timetable[T]) OpenReader(context.Context, *connector.Task) (connector.Reader[T], error) {
	return &traveller[T]{timetable: s}, nil
}

type traveller[T any] struct {
	*timetable[T]
	open  bool // the split is assigned and not finished
	begun time.Time
	gone  int // departures
	ready int // records that may be given
	next  int
}

func (r *traveller[T]) Assign(splits []connector.Split) error {
	for _, s := range splits {
		next, err := decode(s, len(r.records))
		if err != nil {
			return err
		}
		r.next, r.open, r.begun = next, true, time.Now()
	}
	return nil
}

func (r *traveller[T]) Poll(ctx context.Context, out *connector.Records[T]) error {
	for r.open {
		for r.next < min(r.ready, len(r.records)) {
			if out.Full() {
				return nil
			}
			out.Add(0, r.records[r.next], 0, int64(r.next))
			r.next++
		}
		switch {
		case r.next == len(r.records):
			r.open = false
			out.Finish(0)
		case out.Len() > 0 || !r.wait(ctx):
			return nil
		}
	}
	return io.EOF
}

// wait returns when the next departure is due, or false when ctx is done.
func (r *traveller[T]) wait(ctx context.Context) bool {
	if r.gone == len(r.plan) {
		r.ready = len(r.records)
		return true
	}
	d := r.plan[r.gone]
	timer := time.NewTimer(time.Until(r.begun.Add(d.After)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return false
	}
	r.gone++
	r.ready += d.Records
	return true
}

func (r *traveller[T]) Describe(_ connector.SplitIndex, pos int64) string {
	return fmt.Sprintf("value %d", pos)
}

func (r *traveller[T]) Snapshot(element.CheckpointID) ([]connector.Split, error) {
	if !r.open {
		return nil, nil
	}
	return []connector.Split{splitAt(r.next)}, nil
}

func (r *traveller[T]) Committed(context.Context, element.CheckpointID) error { return nil }
func (r *traveller[T]) Close() error                                          { return nil }
