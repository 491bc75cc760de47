package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluiceio/sluice/connector/file"
	"github.com/sluiceio/sluice/flow"
)

// Config holds the parameters of the job.
type Config struct {
	Query string `flag:"query" default:"f2" help:"f1: flights per origin; f2: hourly flights and delays per origin"`
	Input string `flag:"input" default:"examples/flights/data/flights-200k.csv.gz" help:"CSV file, directory or glob"`
	Out   string `flag:"out" default:"flights-out" help:"directory of the part files, one row per line"`
	Rate  int    `flag:"rate" default:"0" help:"records per second of every reading subtask; 0: full speed"`
}

// Flight is one record of the input.
type Flight struct {
	Date        flow.Time `csv:"date,time"` // local time of departure without a zone, read as UTC
	Delay       int64     `csv:"delay"`     // minutes
	Distance    int64     `csv:"distance"`  // miles
	Origin      string    `csv:"origin"`
	Destination string    `csv:"destination"`
}

// From is the key of the queries per origin.
func (f Flight) From() string { return f.Origin }

// Departure is the event time.
func (f Flight) Departure() flow.Time { return f.Date }

// queries by name: each ends in rows of its own kind.
var queries = map[string]func(flights flow.Stream[Flight], out string){
	"f1": perOrigin,
	"f2": hourly,
}

func build(p *flow.Pipeline, cfg *Config) error {
	query, ok := queries[cfg.Query]
	if !ok {
		var known []string
		for name := range queries {
			known = append(known, name)
		}
		slices.Sort(known)
		return fmt.Errorf("unknown query %q; known are %s", cfg.Query, strings.Join(known, ", "))
	}
	// The records quote nothing, so that large files can be read in parallel ranges. They are sorted by departure.
	src := file.CSV[Flight](cfg.Input, file.NoQuotes(), file.Rate(cfg.Rate))
	query(p.From("flights", src, flow.EventTime(Flight.Departure)), cfg.Out)
	return nil
}

func main() { flow.Main("flights", build) }
