package main

import (
	"cmp"
	"strconv"
	"time"

	"github.com/sluiceio/sluice/connector/file"
	"github.com/sluiceio/sluice/flow"
)

// The queries of this file need the end of their input before they can say anything: ranks and joins of all records.

// micros is a duration in the unit of event time.
func micros(d time.Duration) flow.Time { return flow.Time(d.Microseconds()) }

// hop is a window of six hours at one origin.
type hop struct {
	Start  flow.Time
	Origin string
}

// flown is the number of flights in a hop.
type flown = flow.KV[hop, int64]

// busiest (f3) ranks the three origins with the most flights in every window of six hours; a window begins every hour, so
// that each flight is in six: windowStart|rank|origin|count.
func busiest(p *flow.Pipeline, cfg *Config) error {
	counts := flights(p, cfg, "flights").
		FlatMap(hops).ID("hops").
		KeyBy(flow.Self).
		Count().ID("per-hop")
	flow.TopNByKey(counts.KeyBy(func(c flown) flow.Time { return c.Key.Start }), 3, mostFlights).ID("busiest").
		To("out", file.Text(cfg.Out, func(row []byte, r flow.Ranked[flown]) []byte {
			row = strconv.AppendInt(row, int64(r.Value.Key.Start), 10)
			row = integer(row, r.Rank)
			row = text(row, r.Value.Key.Origin)
			return integer(row, r.Value.Value)
		}))
	return nil
}

func hops(f Flight, emit func(hop)) {
	slide := micros(time.Hour)
	last := f.Date - f.Date%slide
	for i := range flow.Time(6) {
		emit(hop{last - i*slide, f.Origin})
	}
}

// mostFlights orders the hops of one window; ties by the bytes of the origin.
func mostFlights(a, b flown) int {
	return cmp.Or(cmp.Compare(b.Value, a.Value), cmp.Compare(a.Key.Origin, b.Key.Origin))
}

// Airport is a line of airports.csv. Names hold commas and quotes; "NA" is a text like any other.
type Airport struct {
	Code  string `csv:"iata"`
	State string `csv:"state"`
}

// IATA is the key of the join with flights.
func (a Airport) IATA() string { return a.Code }

// arrivals are the flights that reach a state on a day.
type arrivals struct {
	State string
	Day   int64 // since the epoch
}

type arrival struct {
	arrivals
	Delay int64
}

// perState (f6) joins flights with the airports of their destinations: state|day|count|sum of delays. The join keeps the
// airports in memory, because they are on its right side.
func perState(p *flow.Pipeline, cfg *Config) error {
	airports := p.From("airports", file.CSV[Airport](cfg.Airports))
	flights(p, cfg, "flights").
		KeyBy(Flight.To).
		Join(airports.KeyBy(Airport.IATA), func(f Flight, a Airport, emit func(arrival)) {
			emit(arrival{arrivals{a.State, int64(f.Date / micros(24*time.Hour))}, f.Delay})
		}).ID("arrivals").
		KeyBy(func(a arrival) arrivals { return a.arrivals }).
		Fold(func() delayed { return delayed{} }, func(d delayed, a arrival) delayed {
			return delayed{Count: d.Count + 1, Sum: d.Sum + a.Delay}
		}).ID("per-state").
		To("out", file.Text(cfg.Out, func(row []byte, s flow.KV[arrivals, delayed]) []byte {
			row = append(row, s.Key.State...)
			row = time.Unix(s.Key.Day*24*60*60, 0).UTC().AppendFormat(append(row, '|'), time.DateOnly)
			row = integer(row, s.Value.Count)
			return integer(row, s.Value.Sum)
		}))
	return nil
}
