package main

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
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

// wholeHourly (f7both) is f7b and f7late in one job: the directories hours and late below OUT.
func wholeHourly(p *flow.Pipeline, cfg *Config) error {
	hours, err := seenHourly(p, cfg, hour)
	if err == nil {
		late := hours.SideOutput(missed)
		hours.To("out", file.Text(filepath.Join(cfg.Out, "hours"), hourRow))
		late.To("late", file.Text(filepath.Join(cfg.Out, "late"), lateRow))
	}
	return err
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
		hours.SideOutput(missed).To("out", file.Text(cfg.Out, lateRow))
	}
	return err
}

func lateRow(row []byte, f Flight) []byte {
	row = strconv.AppendInt(row, int64(f.Date), 10)
	row = text(row, f.Origin)
	row = text(row, f.Destination)
	row = integer(row, f.Delay)
	return integer(row, f.Distance)
}

// missed are the flights whose hour was over when they came.
var missed = flow.NewTag[Flight]("missed")

// seenHourly aggregates each origin and hour of the records in the order asked for.
func seenHourly(p *flow.Pipeline, cfg *Config, bound time.Duration) (flow.Stream[flow.Windowed[string, delayed]], error) {
	var none flow.Stream[flow.Windowed[string, delayed]]
	var src flow.Source[Flight] = file.CSV[Flight](cfg.Input, file.NoQuotes(), file.Rate(cfg.Rate))
	marks := []flow.WatermarkOption{flow.OutOfOrder(bound)}
	every := cfg.Watermarks == "record"
	switch {
	case cfg.Order != "observed" && cfg.Order != "file":
		return none, fmt.Errorf("order %q is neither file nor observed", cfg.Order)
	case !every && cfg.Watermarks != "batch":
		return none, fmt.Errorf("watermarks %q are neither one per record nor one per batch", cfg.Watermarks)
	case every:
		marks = append(marks, flow.EveryRecord())
	}
	if cfg.Order == "observed" {
		src = seen{Source: src, whole: every}
	}
	in := p.From("flights", src, flow.EventTime(Flight.Departure, marks...))
	if every {
		in = in.Parallelism(1) // one watermark for all: with several it is that of the slowest
	}
	return in.KeyBy(Flight.From).
		Window(flow.Tumbling(time.Hour)).LateTo(missed).
		Aggregate(delays{}).ID("hourly"), nil
}

// seen is a source in the order in which flights left, date plus delay, and of those that left together in the order of the
// file. Of n subtasks each has one record of n, in that order. It reads all records of the source below before it gives
// out the first one.
type seen struct {
	flow.Source[Flight]
	whole bool // one split, however many subtasks there are
}

// OpenEnumerator finds a split per subtask.
func (s seen) OpenEnumerator(_ context.Context, parallelism int, _ []byte) (flow.Enumerator, error) {
	if s.whole {
		parallelism = 1
	}
	return &parts{of: max(1, parallelism)}, nil
}

// OpenReader makes the reader, which opens the source below when it has a split.
func (s seen) OpenReader(_ context.Context, t *flow.Task) (flow.Reader[Flight], error) {
	return &seenReader{src: s.Source, task: t}, nil
}

// part is the share of one split: of the records of the file one of so many, and of these those from next on.
type part struct {
	index, of, next int
	all             []Flight
	read, ended     bool
}

func (p *part) split() flow.Split {
	var data []byte
	for _, v := range []int{p.index, p.of, p.next} {
		data = binary.AppendUvarint(data, uint64(v))
	}
	return flow.Split{ID: fmt.Sprintf("seen %d/%d", p.index, p.of), Version: 1, Data: data}
}

func partOf(s flow.Split) (*part, error) {
	p, rest := &part{}, s.Data
	for _, v := range []*int{&p.index, &p.of, &p.next} {
		u, n := binary.Uvarint(rest)
		if n <= 0 || u > math.MaxInt32 {
			return nil, flow.Fatal(fmt.Errorf("split %q: position %x", s.ID, s.Data))
		}
		*v, rest = int(u), rest[n:]
	}
	if s.Version != 1 || len(rest) > 0 || p.index >= p.of {
		return nil, flow.Fatal(fmt.Errorf("split %q: version %d, position %x", s.ID, s.Version, s.Data))
	}
	return p, nil
}

// parts discovers the splits, all at once.
type parts struct {
	of    int
	found bool
}

// Next returns the splits, once.
func (e *parts) Next(context.Context) (splits []flow.Split, err error) {
	if e.found {
		return nil, io.EOF
	}
	e.found = true
	for i := range e.of {
		splits = append(splits, (&part{index: i, of: e.of}).split())
	}
	return splits, io.EOF
}

// Snapshot has nothing to remember.
func (e *parts) Snapshot(flow.CheckpointID) ([]byte, error) { return nil, nil }

// Close does nothing.
func (e *parts) Close() error { return nil }

type seenReader struct {
	src   flow.Source[Flight]
	task  *flow.Task
	parts []*part
	turn  int // the part that is served next
	pile  *pile
}

// Assign opens splits where their data says.
func (r *seenReader) Assign(splits []flow.Split) error {
	for _, s := range splits {
		p, err := partOf(s)
		if err != nil {
			return err
		}
		r.parts = append(r.parts, p)
	}
	return nil
}

// Poll gives out the next records of the part whose turn it is.
func (r *seenReader) Poll(ctx context.Context, out *flow.Records[Flight]) error {
	for range r.parts {
		i := r.turn
		r.turn = (i + 1) % len(r.parts)
		if p := r.parts[i]; !p.ended {
			return r.serve(ctx, flow.SplitIndex(i), p, out)
		}
	}
	return io.EOF
}

func (r *seenReader) serve(ctx context.Context, split flow.SplitIndex, p *part, out *flow.Records[Flight]) error {
	if !p.read {
		whole, err := r.load(ctx, p)
		if !whole || err != nil {
			r.turn = int(split) // no other part before it is there
			return err
		}
		p.read = true
	}
	for ; p.next < len(p.all); p.next++ {
		if out.Full() {
			return nil
		}
		out.Add(split, p.all[p.next], p.all[p.next].Date, int64(p.next))
	}
	p.ended, p.all = true, nil
	out.Finish(split)
	return nil
}

// load reads everything, and sorts what belongs to the part. Not whole: the engine has something to say before that.
func (r *seenReader) load(ctx context.Context, p *part) (whole bool, err error) {
	if r.pile == nil {
		if r.pile, err = r.begin(ctx); err != nil {
			return false, err
		}
	}
	for {
		switch f, err := r.pile.next(ctx); {
		case errors.Is(err, io.EOF):
			err = r.pile.close()
			r.pile = nil
			left := func(f Flight) flow.Time { return f.Date.Add(time.Duration(f.Delay) * time.Minute) }
			slices.SortStableFunc(p.all, func(a, b Flight) int { return cmp.Compare(left(a), left(b)) })
			return true, err
		case err != nil || f == nil:
			return false, err
		default:
			for _, f := range f {
				if r.pile.row%p.of == p.index {
					p.all = append(p.all, f)
				}
				r.pile.row++
			}
		}
	}
}

// pile is a source that is read from its first record to its last, in the order of its splits.
type pile struct {
	found flow.Enumerator
	below flow.Reader[Flight]
	buf   flow.Records[Flight]
	left  []flow.Split // not begun
	known bool         // there are no others
	open  bool         // one is being read
	row   int          // the next one
}

func (r *seenReader) begin(ctx context.Context) (*pile, error) {
	found, err := r.src.OpenEnumerator(ctx, 1, nil)
	if err != nil {
		return nil, err
	}
	below, err := r.src.OpenReader(ctx, r.task)
	if err != nil {
		return nil, errors.Join(err, found.Close())
	}
	return &pile{found: found, below: below, buf: flow.Records[Flight]{Max: 4096}}, nil
}

// next returns the next records, none if the engine has something to say, and io.EOF behind the last ones.
func (p *pile) next(ctx context.Context) ([]Flight, error) {
	for ctx.Err() == nil {
		switch {
		case p.open:
			p.buf.Reset()
			err := p.below.Poll(ctx, &p.buf)
			if p.open = !errors.Is(err, io.EOF); p.open && err != nil {
				return nil, err
			}
			if len(p.buf.Errors) > 0 {
				return nil, p.buf.Errors[0].Err
			}
			if len(p.buf.Vals) > 0 {
				return p.buf.Vals, nil
			}
		case len(p.left) > 0: // one by one: in the order of the file
			if err := p.below.Assign(p.left[:1]); err != nil {
				return nil, err
			}
			p.left, p.open = p.left[1:], true
		case p.known:
			return nil, io.EOF
		default:
			splits, err := p.found.Next(ctx)
			if p.known = errors.Is(err, io.EOF); err != nil && !p.known {
				return nil, err
			}
			p.left = splits
		}
	}
	return nil, nil
}

func (p *pile) close() error { return errors.Join(p.below.Close(), p.found.Close()) }

// Describe names a record by its place in the order.
func (r *seenReader) Describe(split flow.SplitIndex, pos int64) string {
	p := r.parts[split]
	return fmt.Sprintf("flight %d of part %d of %d, in the order in which they left", pos, p.index, p.of)
}

// Snapshot is where the splits stand.
func (r *seenReader) Snapshot(flow.CheckpointID) (splits []flow.Split, err error) {
	for _, p := range r.parts {
		if !p.ended {
			splits = append(splits, p.split())
		}
	}
	return splits, nil
}

// Committed has nobody to tell.
func (r *seenReader) Committed(context.Context, flow.CheckpointID) error { return nil }

// Close lets go of what was being read.
func (r *seenReader) Close() error {
	if r.pile == nil {
		return nil
	}
	return r.pile.close()
}
