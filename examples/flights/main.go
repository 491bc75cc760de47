package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluiceio/sluice/connector/file"
	"github.com/sluiceio/sluice/flow"
)

// Config holds the parameters of the job. The defaults fit the sample of 200,000 records.
type Config struct {
	Query      string `flag:"query" default:"f2" help:"f1 … f8x; README.md defines them"`
	Input      string `flag:"input" default:"examples/flights/data/flights-200k.csv.gz" help:"CSV file, directory or glob"`
	Airports   string `flag:"airports" default:"examples/flights/data/airports.csv.gz" help:"CSV file of airports (f6)"`
	Out        string `flag:"out" default:"flights-out" help:"directory of the part files, one row per line"`
	Rate       int    `flag:"rate" default:"0" help:"records per second of every reading subtask; 0: full speed"`
	Order      string `flag:"order" default:"file" help:"observed: the records of f7, f7b, f7late come in the order of time + delay"`
	Watermarks string `flag:"watermarks" default:"record" help:"of f7, f7b, f7late, f7both: one per record, from one subtask; or one per batch"`
	Cut        string `flag:"cut" default:"2001-01-08" help:"day that divides history and stream (f5); 2001-04-01 for the full data"`
	Half       int64  `flag:"half" default:"100000" help:"row that begins the second half (f8, f8x); 1500000 for the full data"`
}

// Flight is one record of the input.
type Flight struct {
	Date        flow.Time `csv:"date,time"` // local time of departure without a zone, read as UTC
	Delay       int64     `csv:"delay"`     // minutes
	Distance    int64     `csv:"distance"`  // miles
	Origin      string    `csv:"origin"`
	Destination string    `csv:"destination"`
}

// Departure is the event time.
func (f Flight) Departure() flow.Time { return f.Date }

// From is the key of the queries per origin.
func (f Flight) From() string { return f.Origin }

// To is the key of the join with airports.
func (f Flight) To() string { return f.Destination }

// Route is the key of the queries per route.
func (f Flight) Route() Route { return Route{f.Origin, f.Destination} }

// Route is flown from an airport to another.
type Route struct{ Origin, Destination string }

// queries by name.
var queries = map[string]func(p *flow.Pipeline, cfg *Config) error{
	"f1":  perOrigin,
	"f2":  hourly,
	"f3":  busiest,
	"f4":  routeSessions,
	"f5":  unusual,
	"f6":  perState,
	"f7":  observedHourly,
	"f7b": boundedHourly,
	"f8":  halves,
	"f8x": halvesOfRoutes,

	"f7late": lateFlights,
	"f7both": wholeHourly,
}

func build(p *flow.Pipeline, cfg *Config) error {
	query, ok := queries[cfg.Query]
	if !ok {
		known := slices.Sorted(maps.Keys(queries))
		return fmt.Errorf("unknown query %q; known are %s", cfg.Query, strings.Join(known, ", "))
	}
	return query(p, cfg)
}

// flights reads the records with their event time. They are sorted by departure and quote nothing, so that large files can
// be read in parallel ranges.
func flights(p *flow.Pipeline, cfg *Config, id string) flow.Stream[Flight] {
	src := file.CSV[Flight](cfg.Input, file.NoQuotes(), file.Rate(cfg.Rate))
	return p.From(id, src, flow.EventTime(Flight.Departure))
}

func main() { flow.Main("flights", build) }
