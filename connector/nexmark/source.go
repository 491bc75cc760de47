package nexmark

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/connector/internal/pace"
	"github.com/sluiceio/sluice/flow/element"
)

// Config describes a part of the workload: the events [0, Events) of every kind together.
type Config struct {
	Seed uint64
	// UsPerEvent is the event time between two events, in microseconds; 0: 100.
	UsPerEvent int64
	// Events is the number of events of all kinds; 0: without end.
	Events int64
	// Rate limits the source to so many event indices per second, shared by its splits; 0: full speed.
	Rate int
	// Started is called when a reader of a limited rate begins: event i of all is due at i / Rate seconds behind. Nil: nobody wants
	// to know.
	Started func(time.Time)
}

// Generator makes the events of c.
func (c Config) Generator() Generator {
	us := c.UsPerEvent
	if us == 0 {
		us = 100
	}
	return New(c.Seed, us)
}

// Persons are the persons among the events.
func (c Config) Persons() connector.Source[Person] { return Of(c, KindPerson, Generator.Person) }

// Auctions are the auctions among the events.
func (c Config) Auctions() connector.Source[Auction] { return Of(c, KindAuction, Generator.Auction) }

// Bids are the bids among the events.
func (c Config) Bids() connector.Source[Bid] { return Of(c, KindBid, Generator.Bid) }

// LeanBids are the bids without channel and URL.
func (c Config) LeanBids() connector.Source[Bid] {
	return InRuns(c, KindBid, KindBid, func(g Generator, i int64, bids []Bid) {
		for k := range bids {
			g.leanBid(i+int64(k), &bids[k])
		}
	})
}

// LeanAuctions are the auctions without their items' names.
func (c Config) LeanAuctions() connector.Source[Auction] {
	return Of(c, KindAuction, Generator.LeanAuction)
}

// LeanPersons are the persons without email and credit card.
func (c Config) LeanPersons() connector.Source[Person] {
	return Of(c, KindPerson, Generator.LeanPerson)
}

// Of is the source of what f makes of the events of one kind. f must be pure; fields that it does not ask for are not
// computed. The position of a split is one integer: the index of its next event.
func Of[T any](c Config, kind Kind, f func(g Generator, i int64) T) connector.Source[T] {
	return Mixed(c, kind, kind, f)
}

// Mixed is the source of what f makes of the events whose kind is between two, both included; f looks at KindOf(i).
func Mixed[T any](c Config, first, last Kind, f func(g Generator, i int64) T) connector.Source[T] {
	return InRuns(c, first, last, func(g Generator, i int64, vals []T) {
		for k := range vals {
			vals[k] = f(g, i+int64(k))
		}
	})
}

// InRuns is Mixed for sources that must be fast: fill sets vals to what it makes of the events from i on, a call for many events.
func InRuns[T any](c Config, first, last Kind, fill func(g Generator, i int64, vals []T)) connector.Source[T] {
	return &source[T]{cfg: c, from: places[first], to: places[last+1], fill: fill, g: c.Generator()}
}

// All is the source of what f makes of every event; f looks at KindOf(i).
func All[T any](c Config, f func(g Generator, i int64) T) connector.Source[T] {
	return Mixed(c, KindPerson, KindBid, f)
}

// places in a round at which each kind begins, and the end.
var places = [...]int64{KindPerson: 0, KindAuction: 1, KindBid: 1 + auctionsPerRound, 1 + KindBid: round}

type source[T any] struct {
	cfg      Config
	from, to int64 // places of a round that are served
	fill     func(g Generator, i int64, vals []T)
	g        Generator
}

// next is the first run of events that are served at or behind i.
func (s *source[T]) next(i int64) (from, to int64) {
	place := i % round
	begin := i - place
	if place >= s.to {
		begin, place = begin+round, 0
	}
	return begin + max(place, s.from), begin + s.to
}

// block is how many consecutive events go to one split before the next split's turn: so that the event times of splits
// stay close together, whoever reads them. A multiple of the round, so that every split has all kinds.
const block = 500

func (s *source[T]) Bounded() bool { return s.cfg.Events > 0 }

// String is the detail that a plan shows.
func (s *source[T]) String() string {
	if !s.Bounded() {
		return fmt.Sprintf("seed %d, endless", s.cfg.Seed)
	}
	return fmt.Sprintf("seed %d, %d events", s.cfg.Seed, s.cfg.Events)
}

func (s *source[T]) OpenEnumerator(_ context.Context, parallelism int, _ []byte) (connector.Enumerator, error) {
	return &enumerator{count: max(1, parallelism), bounded: s.Bounded()}, nil
}

func (s *source[T]) OpenReader(context.Context, *connector.Task) (connector.Reader[T], error) {
	return &reader[T]{src: s}, nil
}

type enumerator struct {
	count         int
	bounded, done bool
}

func (e *enumerator) Next(ctx context.Context) ([]connector.Split, error) {
	if e.done {
		if e.bounded {
			return nil, io.EOF
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	e.done = true
	splits := make([]connector.Split, e.count)
	for i := range splits {
		splits[i] = lane{index: int64(i), of: int64(e.count), next: int64(i) * block}.split()
	}
	if e.bounded {
		return splits, io.EOF
	}
	return splits, nil
}

func (e *enumerator) Snapshot(element.CheckpointID) ([]byte, error) { return nil, nil }
func (e *enumerator) Close() error                                  { return nil }

// lane is the share of one split: the blocks index, index+of, index+2·of, …; next is the index of its next event.
type lane struct {
	index, of, next int64
	done            bool
	paused          bool
}

const splitVersion = 1

func (l lane) split() connector.Split {
	var data []byte
	for _, v := range []int64{l.index, l.of, l.next} {
		data = binary.BigEndian.AppendUint64(data, uint64(v))
	}
	return connector.Split{ID: strconv.FormatInt(l.index, 10) + "/" + strconv.FormatInt(l.of, 10), Version: splitVersion, Data: data}
}

func decode(s connector.Split) (l lane, err error) {
	if s.Version != splitVersion || len(s.Data) != 24 {
		return l, connector.Fatal(fmt.Errorf("nexmark split %q: version %d, %d bytes", s.ID, s.Version, len(s.Data)))
	}
	for i, v := range []*int64{&l.index, &l.of, &l.next} {
		*v = int64(binary.BigEndian.Uint64(s.Data[8*i:]))
	}
	if l.of < 1 || l.index < 0 || l.index >= l.of || l.next < 0 || l.next/block%l.of != l.index {
		return l, connector.Fatal(fmt.Errorf("nexmark split %q: impossible lane %+v", s.ID, l))
	}
	return l, nil
}

type reader[T any] struct {
	src   *source[T]
	lanes []lane
	turn  int // the lane that is served next
	pace  pace.Pace
	// started: a reader of a limited rate has begun.
	started bool
}

func (r *reader[T]) Assign(splits []connector.Split) error {
	for _, s := range splits {
		l, err := decode(s)
		if err != nil {
			return err
		}
		r.lanes = append(r.lanes, l)
	}
	return nil
}

// Poll serves the lanes block by block in turn, until the batch is full.
func (r *reader[T]) Poll(ctx context.Context, out *connector.Records[T]) error {
	for {
		live, held := 0, 0
		for range r.lanes {
			l := &r.lanes[r.turn]
			if l.paused && !l.done {
				held++
			}
			if l.done || l.paused {
				r.turn = (r.turn + 1) % len(r.lanes)
				continue
			}
			live++
			rate := r.rate()
			if rate > 0 && !r.started {
				if r.started = true; r.src.cfg.Started != nil {
					r.src.cfg.Started(time.Now())
				}
			}
			room, ok := r.pace.Take(ctx, rate, out.Max-out.Len())
			if !ok {
				return nil
			}
			r.pace.GiveBack(rate, room-r.serve(room, out))
			if out.Full() || r.src.cfg.Rate > 0 {
				return nil
			}
		}
		switch {
		case live > 0:
		case held == 0:
			return io.EOF
		case out.Len() > 0:
			return nil
		default:
			<-ctx.Done()
			return nil
		}
	}
}

// Pause implements connector.Pauser.
func (r *reader[T]) Pause(splits []connector.SplitIndex) bool {
	for i := range r.lanes {
		r.lanes[i].paused = slices.Contains(splits, connector.SplitIndex(i))
	}
	return true
}

// serve serves the lane whose turn it is, up to the end of its block, and returns how much of the room it took: events
// of every kind where their rate is limited, else records.
func (r *reader[T]) serve(room int, out *connector.Records[T]) (n int) {
	s, l := r.src, &r.lanes[r.turn]
	split := connector.SplitIndex(r.turn)
	end := l.next - l.next%block + block
	if s.cfg.Events > 0 {
		end = min(end, max(l.next, s.cfg.Events))
	}
	for n < room && l.next < end {
		from, to := s.next(l.next)
		if s.cfg.Rate > 0 { // what is skipped takes its time, too
			limit := l.next + int64(room-n)
			from, to = min(from, limit), min(to, limit)
			n += int(min(from, end) - l.next)
		}
		from = min(from, end)
		to = max(from, min(to, end, from+int64(room-n)))
		r.fill(split, from, to, out)
		n += int(to - from)
		l.next = to
	}
	switch {
	case s.cfg.Events > 0 && l.next >= s.cfg.Events:
		l.done = true
		out.Finish(split)
	case l.next == end: // of a block
		l.next += (l.of - 1) * block
	default:
		return n
	}
	r.turn = (r.turn + 1) % len(r.lanes)
	return n
}

// fill serves the events from from up to, without, to.
func (r *reader[T]) fill(split connector.SplitIndex, from, to int64, out *connector.Records[T]) {
	vals, times, pos := out.Extend(split, int(to-from))
	r.src.fill(r.src.g, from, vals)
	pos = pos[:len(times)]
	at, step := r.src.g.Time(from), element.Time(r.src.g.usPerEvent)
	for k := range times {
		times[k], pos[k] = at, from+int64(k)
		at += step
	}
}

// rate is the share of this reader, its lanes of all lanes, in events per second; 0: full speed.
func (r *reader[T]) rate() float64 {
	return float64(r.src.cfg.Rate) * float64(len(r.lanes)) / float64(r.lanes[0].of)
}

// Describe names the index of the event.
func (r *reader[T]) Describe(_ connector.SplitIndex, pos int64) string {
	return "event " + strconv.FormatInt(pos, 10)
}

func (r *reader[T]) Snapshot(element.CheckpointID) ([]connector.Split, error) {
	var splits []connector.Split
	for _, l := range r.lanes {
		if !l.done {
			splits = append(splits, l.split())
		}
	}
	return splits, nil
}

func (r *reader[T]) Committed(context.Context, element.CheckpointID) error { return nil }
func (r *reader[T]) Close() error                                          { return nil }
