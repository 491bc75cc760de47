package query

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluiceio/sluice/connector/discard"
	"github.com/sluiceio/sluice/connector/file"
	"github.com/sluiceio/sluice/connector/nexmark"
	"github.com/sluiceio/sluice/flow"
)

// Config holds the parameters of the job.
type Config struct {
	Query      string `flag:"query" default:"q1" help:"q0 to q9, q11, q11b, q12 to q22"`
	Events     int64  `flag:"events" default:"100000" help:"events of all kinds; 0: without end"`
	Seed       uint64 `flag:"seed" default:"42" help:"of the generator"`
	UsPerEvent int64  `flag:"usPerEvent" default:"100" help:"event time between two events, in microseconds"`
	Rate       int    `flag:"rate" default:"0" help:"events per second; 0: full speed"`
	Out        string `flag:"out" default:"nexmark-out" help:"directory of the part files, one canonical row per line"`
}

// Lean is a run for measuring: bids and auctions have no strings, rows are not written but added up, by their fields
// (nexmark.Fields) where there is a plain loop that does the same, else by their text.
type Lean struct {
	Total *discard.Total
	// Full keeps the strings.
	Full bool
	// Seen is told of the event time of each row, from all subtasks; nil: nobody wants to know. Started is of nexmark.Config.
	Seen    func(flow.Time)
	Started func(time.Time)
}

// sum is the sink that adds rows up.
func sum[T any](l *Lean, hash func() func(T) uint64) flow.Sink[T] {
	if l.Seen != nil {
		return discard.SumSeen(l.Total, hash, l.Seen)
	}
	return discard.Sum(l.Total, hash)
}

// streams are the inputs of a query. Each call of a method adds a source.
type streams struct {
	p    *flow.Pipeline
	cfg  nexmark.Config
	out  string
	lean *Lean // nil: write rows
}

func (s *streams) auctions() flow.Stream[nexmark.Auction] {
	if s.lean != nil && !s.lean.Full {
		return s.leanAuctions()
	}
	return s.p.From("auctions", s.cfg.Auctions(), flow.SourceTime[nexmark.Auction]())
}

func (s *streams) bids() flow.Stream[nexmark.Bid] {
	if s.lean != nil && !s.lean.Full {
		return s.leanBids()
	}
	return s.p.From("bids", s.cfg.Bids(), flow.SourceTime[nexmark.Bid]())
}

// leanBids lack channel and URL, for the queries that do not look at them.
func (s *streams) leanBids() flow.Stream[nexmark.Bid] {
	return s.p.From("bids", s.cfg.LeanBids(), flow.SourceTime[nexmark.Bid]())
}

func (s *streams) leanAuctions() flow.Stream[nexmark.Auction] {
	return s.p.From("auctions", s.cfg.LeanAuctions(), flow.SourceTime[nexmark.Auction]())
}

func (s *streams) leanPersons() flow.Stream[nexmark.Person] {
	return s.p.From("persons", s.cfg.LeanPersons(), flow.SourceTime[nexmark.Person]())
}

// write ends a query: f appends the fields of a row. fields, where there is one, is the field digest of a row.
func write[T any](s *streams, rows flow.Stream[T], f func(r row, v T) row, fields ...func(v T) uint64) {
	switch {
	case s.lean == nil:
		rows.To("out", file.Text(s.out, func(dst []byte, v T) []byte { return f(row{dst, len(dst)}, v).bytes }))
	case len(fields) > 0:
		rows.To("out", sum(s.lean, func() func(T) uint64 { return fields[0] }))
	default:
		rows.To("out", sum(s.lean, func() func(T) uint64 {
			var buf []byte
			return func(v T) uint64 {
				buf = f(row{buf[:0], 0}, v).bytes
				return nexmark.Row().Bytes(buf).Hash()
			}
		}))
	}
}

// queries by name.
var queries = map[string]func(*streams){
	"q0": passThrough, "q1": currency, "q2": selection, "q3": localItems, "q4": categoryPrices, "q5": hotItems, "q6": sellerPrices,
	"q7": highestPrice, "q8": newSellers, "q9": winningBids, "q11": bidderSessions(10 * time.Second), "q11b": bidderSessions(time.Second), "q12": bidderMinutes, "q13": sideInput, "q14": calculation, "q15": dailyReport, "q16": channelReport, "q17": auctionReport,
	"q18": lastBids, "q19": topBids, "q20": expandedBids, "q21": channelIDs, "q22": urlWords,
}

// Names are the names of the queries.
func Names() []string { return slices.Sorted(maps.Keys(queries)) }

// Build builds the query of cfg, which writes its rows into files.
func Build(p *flow.Pipeline, cfg *Config) error { return build(p, cfg, nil) }

// BuildLean builds the query of cfg for measuring.
func BuildLean(p *flow.Pipeline, cfg *Config, lean *Lean) error { return build(p, cfg, lean) }

func build(p *flow.Pipeline, cfg *Config, lean *Lean) error {
	query, ok := queries[cfg.Query]
	if !ok {
		return fmt.Errorf("unknown query %q; known are %s", cfg.Query, strings.Join(Names(), ", "))
	}
	if cfg.UsPerEvent < 1 || cfg.Events < 0 {
		return fmt.Errorf("%d events, %d µs apart: the first must not be negative, the second not below 1", cfg.Events, cfg.UsPerEvent)
	}
	s := &streams{p: p, out: cfg.Out, lean: lean, cfg: nexmark.Config{Seed: cfg.Seed, UsPerEvent: cfg.UsPerEvent, Events: cfg.Events, Rate: cfg.Rate}}
	if lean != nil {
		s.cfg.Started = lean.Started
	}
	query(s)
	return nil
}
