package main

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/sluiceio/sluice/connector/file"
	"github.com/sluiceio/sluice/flow"
)

// Flights were seen when they left, not when they should have: the queries of this file take them in that order, while their
// event time stays what the timetable says.

// bounds of the disorder. most covers all of it: the worst flight is 1,663 minutes behind one that was seen earlier.
const (
	most = 1663 * time.Minute
	hour = 60 * time.Minute
)

// routeSessions (f4) counts the flights of each session of a route, which a pause of more than three hours ends:
// origin|destination|start|end|count.
func routeSessions(p *flow.Pipeline, cfg *Config) error {
	flights(p, cfg, "flights").
		KeyBy(Flight.Route).
		Window(flow.Session(3*time.Hour)).
		Count().ID("sessions").
		To("out", file.Text(cfg.Out, func(row []byte, w flow.Windowed[Route, int64]) []byte {
			row = append(row, w.Key.Origin...)
			row = text(row, w.Key.Destination)
			row = integer(row, int64(w.Window.Start))
			row = integer(row, int64(w.Window.End))
			return integer(row, w.Value)
		}))
	return nil
}

// observedHourly (f7) is f2 over the records as they were seen, with a watermark that waits for the last of them.
func observedHourly(p *flow.Pipeline, cfg *Config) error {
	hours, err := seenHourly(p, cfg, most)
	if err == nil {
		hours.To("out", file.Text(cfg.Out, hourRow))
	}
	return err
}

// boundedHourly (f7b) is f7 with a watermark that waits for an hour: what comes later is dropped.
func boundedHourly(p *flow.Pipeline, cfg *Config) error {
	hours, err := seenHourly(p, cfg, hour)
	if err == nil {
		hours.To("out", file.Text(cfg.Out, hourRow))
	}
	return err
}

// lateFlights (f7late) is what f7b drops: t|origin|destination|delay|distance.
func lateFlights(p *flow.Pipeline, cfg *Config) error {
	hours, err := seenHourly(p, cfg, hour)
	if err == nil {
		hours.SideOutput(missed).To("out", file.Text(cfg.Out, func(row []byte, f Flight) []byte {
			row = strconv.AppendInt(row, int64(f.Date), 10)
			row = text(row, f.Origin)
			row = text(row, f.Destination)
			row = integer(row, f.Delay)
			return integer(row, f.Distance)
		}))
	}
	return err
}

// missed are the flights whose hour was over when they came.
var missed = flow.NewTag[Flight]("missed")

// seenHourly aggregates each origin and hour of the records in the order asked for.
func seenHourly(p *flow.Pipeline, cfg *Config, bound time.Duration) (flow.Stream[flow.Windowed[string, delayed]], error) {
	var src flow.Source[Flight] = file.CSV[Flight](cfg.Input, file.NoQuotes(), file.Rate(cfg.Rate))
	switch cfg.Order {
	case "observed":
		src = seen{src}
	case "file":
	default:
		return flow.Stream[flow.Windowed[string, delayed]]{}, fmt.Errorf("order %q is neither file nor observed", cfg.Order)
	}
	return p.From("flights", src, flow.EventTime(Flight.Departure, flow.OutOfOrder(bound), flow.EveryRecord())).
		Parallelism(1). // one watermark for all: with several it is that of the slowest
		KeyBy(Flight.From).
		Window(flow.Tumbling(time.Hour)).LateTo(missed).
		Aggregate(delays{}).ID("hourly"), nil
}

// seen is a source in the order in which flights left, date plus delay, and of those that left together in the order of the
// file. It reads all records of the source below before it gives out the first one, as one split.
type seen struct{ flow.Source[Flight] }

// OpenEnumerator finds the one split.
func (s seen) OpenEnumerator(context.Context, int, []byte) (flow.Enumerator, error) {
	return &whole{}, nil
}

// OpenReader makes the reader, which opens the source below when it has the split.
func (s seen) OpenReader(_ context.Context, t *flow.Task) (flow.Reader[Flight], error) {
	return &seenReader{src: s.Source, task: t}, nil
}

func wholeSplit(next int) flow.Split {
	return flow.Split{ID: "seen", Version: 1, Data: binary.AppendUvarint(nil, uint64(next))}
}

// whole discovers a single split.
type whole struct{ found bool }

// Next returns the split, once.
func (w *whole) Next(context.Context) ([]flow.Split, error) {
	if w.found {
		return nil, io.EOF
	}
	w.found = true
	return []flow.Split{wholeSplit(0)}, io.EOF
}

// Snapshot has nothing to remember.
func (w *whole) Snapshot(flow.CheckpointID) ([]byte, error) { return nil, nil }

// Close does nothing.
func (w *whole) Close() error { return nil }

type seenReader struct {
	src  flow.Source[Flight]
	task *flow.Task
	open bool
	read bool
	all  []Flight
	next int
}

// Assign opens the split where its data says.
func (r *seenReader) Assign(splits []flow.Split) error {
	for _, s := range splits {
		next, n := binary.Uvarint(s.Data)
		if s.Version != 1 || n <= 0 || n != len(s.Data) {
			return flow.Fatal(fmt.Errorf("split %q: version %d, position %x", s.ID, s.Version, s.Data))
		}
		r.open, r.next = true, int(next)
	}
	return nil
}

// Poll gives out the next records.
func (r *seenReader) Poll(ctx context.Context, out *flow.Records[Flight]) error {
	if !r.open {
		return io.EOF
	}
	if !r.read {
		if err := r.load(ctx); err != nil {
			return err
		}
		r.read = true
	}
	for r.next < len(r.all) {
		if out.Full() {
			return nil
		}
		out.Add(0, r.all[r.next], r.all[r.next].Date, int64(r.next))
		r.next++
	}
	r.open = false
	out.Finish(0)
	return io.EOF
}

// load reads everything and sorts it.
func (r *seenReader) load(ctx context.Context) error {
	found, err := r.src.OpenEnumerator(ctx, 1, nil)
	if err != nil {
		return err
	}
	defer found.Close()
	below, err := r.src.OpenReader(ctx, r.task)
	if err != nil {
		return err
	}
	defer below.Close()
	r.all = nil
	buf := flow.Records[Flight]{Max: 4096}
	for end := false; !end; {
		splits, err := found.Next(ctx)
		if end = errors.Is(err, io.EOF); err != nil && !end {
			return err
		}
		for _, s := range splits { // one by one: in the order of the file
			if err := below.Assign([]flow.Split{s}); err != nil {
				return err
			}
			for err = nil; err == nil; {
				err = below.Poll(ctx, &buf)
				if len(buf.Errors) > 0 {
					return buf.Errors[0].Err
				}
				r.all = append(r.all, buf.Vals...)
				buf.Reset()
			}
			if !errors.Is(err, io.EOF) {
				return err
			}
		}
	}
	left := func(f Flight) flow.Time { return f.Date.Add(time.Duration(f.Delay) * time.Minute) }
	slices.SortStableFunc(r.all, func(a, b Flight) int { return cmp.Compare(left(a), left(b)) })
	return nil
}

// Describe names a record by its place in the order.
func (r *seenReader) Describe(_ flow.SplitIndex, pos int64) string {
	return fmt.Sprintf("flight %d in the order in which they left", pos)
}

// Snapshot is where the split stands.
func (r *seenReader) Snapshot(flow.CheckpointID) ([]flow.Split, error) {
	if !r.open {
		return nil, nil
	}
	return []flow.Split{wholeSplit(r.next)}, nil
}

// Committed has nobody to tell.
func (r *seenReader) Committed(context.Context, flow.CheckpointID) error { return nil }

// Close does nothing.
func (r *seenReader) Close() error { return nil }
