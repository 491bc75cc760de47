package main

import (
	"maps"
	"slices"

	"github.com/sluiceio/sluice/connector/file"
	"github.com/sluiceio/sluice/flow"
)

// Numbered is a record with its place in the file, counted from 0: it tells the halves of the data apart.
type Numbered struct {
	Date        flow.Time `csv:"date,time"`
	Delay       int64     `csv:"delay"`
	Origin      string    `csv:"origin"`
	Destination string    `csv:"destination"`
	Row         int64     `csv:"row"`
}

// leg is what the joins of the halves need of a flight.
type leg struct {
	Route
	Minute int64 // of the day
	Delay  int64
}

// slot is a departure of the timetable: the same route at the same minute of the day.
type slot struct {
	Route
	Minute int64
}

func (l leg) slot() slot   { return slot{l.Route, l.Minute} }
func (l leg) route() Route { return l.Route }

// twoHalves are the records before row half, and the others. Each is a source of its own, so that the join has two inputs
// that do not wait for each other, whatever the mode.
func twoHalves(p *flow.Pipeline, cfg *Config) (first, second flow.Stream[leg]) {
	read := func(id string, keep func(Numbered) bool) flow.Stream[leg] {
		src := file.CSV[Numbered](cfg.Input, file.NoQuotes(), file.Rate(cfg.Rate))
		return p.From(id, src).Filter(keep).ID(id + "-half").Map(func(n Numbered) leg {
			return leg{Route{n.Origin, n.Destination}, int64(n.Date) / 60e6 % 1440, n.Delay}
		}).ID(id + "-legs")
	}
	first = read("first", func(n Numbered) bool { return n.Row < cfg.Half })
	second = read("second", func(n Numbered) bool { return n.Row >= cfg.Half })
	return first, second
}

// pair is a flight of the first half with one of the second.
type pair struct {
	Origin       string
	First, Other int64 // delays
}

func paired(a, b leg, emit func(pair)) { emit(pair{a.Origin, a.Delay, b.Delay}) }

// compared sums up the pairs of an origin.
type compared struct{ Pairs, Sums, Products, Max int64 }

func (c compared) add(p pair) compared {
	return c.merge(compared{1, p.First + p.Other, p.First * p.Other, p.First - p.Other})
}

func (c compared) merge(o compared) compared {
	if c.Pairs == 0 {
		return o
	}
	return compared{c.Pairs + o.Pairs, c.Sums + o.Sums, c.Products + o.Products, max(c.Max, o.Max)}
}

// perOriginPairs is the result of f8 and f8x.
type perOriginPairs = flow.KV[string, compared]

func originOf(p perOriginPairs) string { return p.Key }

func pairRows(out string) flow.Sink[perOriginPairs] {
	return file.Text(out, func(row []byte, c perOriginPairs) []byte {
		row = append(row, c.Key...)
		row = integer(row, c.Value.Pairs)
		row = integer(row, c.Value.Sums)
		row = integer(row, c.Value.Products)
		return integer(row, c.Value.Max)
	})
}

// halves (f8) joins the first half of the records with the second on route and minute of the day. Per origin:
// origin|pairs|sum of both delays|sum of their product|largest difference.
func halves(p *flow.Pipeline, cfg *Config) error {
	first, second := twoHalves(p, cfg)
	first.KeyBy(leg.slot).
		Join(second.KeyBy(leg.slot), paired).ID("pairs").
		KeyBy(func(p pair) string { return p.Origin }).
		Fold(func() compared { return compared{} }, compared.add).ID("per-origin").
		To("out", pairRows(cfg.Out))
	return nil
}

// halvesOfRoutes (f8x) is f8 without the minute: 1,362,203,759 pairs of the full data. Every pair is formed. They are
// added up where they are formed, because no exchange should carry what shrinks to a few hundred rows.
func halvesOfRoutes(p *flow.Pipeline, cfg *Config) error {
	first, second := twoHalves(p, cfg)
	first.KeyBy(leg.route).
		Join(second.KeyBy(leg.route), paired).ID("pairs").
		Process(func() *adding { return &adding{} }).ID("added-up").
		KeyBy(originOf).
		Reduce(func(a, b perOriginPairs) perOriginPairs {
			return perOriginPairs{Key: a.Key, Value: a.Value.merge(b.Value)}
		}).ID("per-origin").
		To("out", pairRows(cfg.Out))
	return nil
}

// adding sums up the pairs that a subtask sees, and emits the sums at the end.
type adding struct {
	sums map[string]*compared
	last string // origin of the pair before, whose sums are at
	at   *compared
}

func (a *adding) Open(s *flow.OpSetup[perOriginPairs]) error {
	a.sums = map[string]*compared{}
	s.OnEnd(func(c *flow.OpCtx[perOriginPairs]) error {
		for _, origin := range slices.Sorted(maps.Keys(a.sums)) {
			c.Emit(perOriginPairs{Key: origin, Value: *a.sums[origin]})
		}
		return nil
	})
	return nil
}

func (a *adding) Process(_ *flow.OpCtx[perOriginPairs], p pair) error {
	if a.at == nil || p.Origin != a.last {
		a.last, a.at = p.Origin, a.sums[p.Origin]
		if a.at == nil {
			a.at = &compared{}
			a.sums[p.Origin] = a.at
		}
	}
	*a.at = a.at.add(p)
	return nil
}
