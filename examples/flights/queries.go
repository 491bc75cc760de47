package main

import (
	"strconv"
	"time"

	"github.com/sluiceio/sluice/connector/file"
	"github.com/sluiceio/sluice/flow"
)

// perOrigin (f1) counts the flights of each origin: origin|count.
func perOrigin(p *flow.Pipeline, cfg *Config) error {
	flights(p, cfg, "flights").
		KeyBy(Flight.From).
		Count().ID("per-origin").
		To("out", file.Text(cfg.Out, func(row []byte, c flow.KV[string, int64]) []byte {
			row = append(row, c.Key...)
			return integer(row, c.Value)
		}))
	return nil
}

// hourly (f2) aggregates each origin and hour: windowStart|origin|count|sum of delays|largest delay.
func hourly(p *flow.Pipeline, cfg *Config) error {
	flights(p, cfg, "flights").
		KeyBy(Flight.From).
		Window(flow.Tumbling(time.Hour)).
		Aggregate(delays{}).ID("hourly").
		To("out", file.Text(cfg.Out, hourRow))
	return nil
}

func hourRow(row []byte, w flow.Windowed[string, delayed]) []byte {
	row = strconv.AppendInt(row, int64(w.Window.Start), 10)
	row = text(row, w.Key)
	row = integer(row, w.Value.Count)
	row = integer(row, w.Value.Sum)
	return integer(row, w.Value.Max)
}

// delayed sums up the delays of some flights, in minutes.
type delayed struct{ Count, Sum, Max int64 }

// delays aggregates flights into delayed.
type delays struct{}

func (delays) New() delayed { return delayed{} }

func (delays) Add(d delayed, f Flight) delayed {
	if d.Count == 0 || f.Delay > d.Max {
		d.Max = f.Delay
	}
	d.Count++
	d.Sum += f.Delay
	return d
}

func (delays) Merge(a, b delayed) delayed {
	switch {
	case a.Count == 0:
		return b
	case b.Count == 0:
		return a
	}
	return delayed{a.Count + b.Count, a.Sum + b.Sum, max(a.Max, b.Max)}
}

func (delays) Result(d delayed) delayed { return d }

// integer appends a separator and v.
func integer(row []byte, v int64) []byte { return strconv.AppendInt(append(row, '|'), v, 10) }

// text appends a separator and s.
func text(row []byte, s string) []byte { return append(append(row, '|'), s...) }
