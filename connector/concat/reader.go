package concat

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
)

// reader is the readers of both sources for one subtask. Splits of either have two numbers: that of this reader, and that of
// the reader of their source.
type reader[T any] struct {
	src  *source[T]
	ctx  context.Context // of the attempt: the second reader is opened later
	task *connector.Task
	of   [parts]connector.Reader[T]
	// places are the splits of this reader, numbers those of each source's: each other's inverse.
	places  []place
	numbers [parts][]connector.SplitIndex
	// open are the splits of each source that have not finished.
	open [parts]map[connector.SplitIndex]bool
}

type place struct {
	part  byte
	inner connector.SplitIndex
}

func (r *reader[T]) start(part byte) error {
	in, err := r.src.of[part].OpenReader(r.ctx, r.task)
	if err != nil {
		return err
	}
	r.of[part], r.open[part] = in, map[connector.SplitIndex]bool{}
	return nil
}

// Assign hands each split to its source, in order.
func (r *reader[T]) Assign(splits []connector.Split) error {
	for _, s := range splits {
		part, inner, err := unwrap(s)
		if err != nil {
			return connector.Fatal(err)
		}
		if r.of[part] == nil {
			if err := r.start(part); err != nil {
				return fmt.Errorf("open: %w", err)
			}
		}
		if err := r.of[part].Assign([]connector.Split{inner}); err != nil {
			return err
		}
		number := connector.SplitIndex(len(r.places))
		r.places = append(r.places, place{part, connector.SplitIndex(len(r.numbers[part]))})
		r.numbers[part] = append(r.numbers[part], number)
		r.open[part][number] = true
	}
	return nil
}

// Poll reads history as long as it has splits of it, and then live.
func (r *reader[T]) Poll(ctx context.Context, out *connector.Records[T]) error {
	for part := range r.of {
		if len(r.open[part]) == 0 {
			continue
		}
		err := r.poll(ctx, part, out)
		if !errors.Is(err, io.EOF) {
			return err
		}
		if out.Full() || len(r.open[second]) > 0 {
			return nil // what it has delivered comes first
		}
	}
	return io.EOF
}

func (r *reader[T]) poll(ctx context.Context, part int, out *connector.Records[T]) error {
	vals, errs, done, marks := len(out.Splits), len(out.Errors), len(out.Done), len(out.Marks)
	err := r.of[part].Poll(ctx, out)
	numbers := r.numbers[part]
	for i, s := range out.Splits[vals:] {
		out.Splits[vals+i] = numbers[s]
	}
	for i := range out.Errors[errs:] {
		out.Errors[errs+i].Split = numbers[out.Errors[errs+i].Split]
	}
	for i := range out.Marks[marks:] {
		out.Marks[marks+i].Split = numbers[out.Marks[marks+i].Split]
	}
	for i, s := range out.Done[done:] {
		out.Done[done+i] = numbers[s]
		delete(r.open[part], numbers[s])
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	for _, s := range numbers { // the reader need not name each of them
		if r.open[part][s] {
			out.Finish(s)
		}
	}
	clear(r.open[part])
	return err
}

// Pause implements connector.Pauser if the readers of both sources do.
func (r *reader[T]) Pause(splits []connector.SplitIndex) bool {
	var inner [parts][]connector.SplitIndex
	for _, s := range splits {
		if s >= 0 && int(s) < len(r.places) {
			inner[r.places[s].part] = append(inner[r.places[s].part], r.places[s].inner)
		}
	}
	can := true
	for part, in := range r.of {
		if in != nil {
			can = pause(in, inner[part]) && can
		}
	}
	if !can {
		for _, in := range r.of {
			if in != nil {
				pause(in, nil)
			}
		}
	}
	return can
}

func pause[T any](in connector.Reader[T], splits []connector.SplitIndex) bool {
	p, ok := in.(connector.Pauser)
	return ok && p.Pause(splits)
}

// Describe asks the source of the split.
func (r *reader[T]) Describe(s connector.SplitIndex, pos int64) string {
	if s < 0 || int(s) >= len(r.places) {
		return fmt.Sprintf("position %d of split %d", pos, s)
	}
	p := r.places[s]
	return r.of[p.part].Describe(p.inner, pos)
}

// Snapshot are the unfinished splits of both.
func (r *reader[T]) Snapshot(id element.CheckpointID) ([]connector.Split, error) {
	var all []connector.Split
	for part, in := range r.of {
		if in == nil {
			continue
		}
		splits, err := in.Snapshot(id)
		if err != nil {
			return nil, err
		}
		for _, s := range splits {
			all = append(all, wrap(byte(part), s))
		}
	}
	return all, nil
}

// Committed tells both.
func (r *reader[T]) Committed(ctx context.Context, id element.CheckpointID) error {
	return r.each(func(in connector.Reader[T]) error { return in.Committed(ctx, id) })
}

// Close closes both.
func (r *reader[T]) Close() error {
	return r.each(func(in connector.Reader[T]) error { return in.Close() })
}

func (r *reader[T]) each(f func(connector.Reader[T]) error) error {
	var errs []error
	for _, in := range r.of {
		if in != nil {
			errs = append(errs, f(in))
		}
	}
	return errors.Join(errs...)
}
