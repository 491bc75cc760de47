package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/sluiceio/sluice/connector/file"
	"github.com/sluiceio/sluice/flow"
)

// past is what a route's history says of its delays, in minutes.
type past struct{ Sum, Count int64 }

// unusual (f5) is one job of two worlds: the records before the cut are a bounded input whose delays are summed up per
// route; those from the cut on play a live stream, of which it emits what is unusually late for its route:
// t|origin|destination|delay|sum|count of the history.
//
// The stream is read from a file here and could end any time, so its exchange is set: what it carries is wanted as it comes.
func unusual(p *flow.Pipeline, cfg *Config) error {
	day, err := time.Parse(time.DateOnly, cfg.Cut)
	if err != nil {
		return fmt.Errorf("cut: %w", err)
	}
	cut := flow.At(day)
	history := flights(p, cfg, "history").
		Filter(func(f Flight) bool { return f.Date < cut }).ID("before").
		KeyBy(Flight.Route).
		Fold(func() past { return past{} }, func(h past, f Flight) past { return past{h.Sum + f.Delay, h.Count + 1} }).ID("per-route")

	flights(p, cfg, "live").
		Filter(func(f Flight) bool { return f.Date >= cut }).ID("after").
		KeyBy(Flight.Route).Exchange(flow.Pipelined).
		Bootstrap(history.KeyBy(func(h flow.KV[Route, past]) Route { return h.Key }), func() *judge { return &judge{} }).ID("unusual").
		To("out", file.Text(cfg.Out, func(row []byte, l late) []byte {
			row = strconv.AppendInt(row, int64(l.Date), 10)
			row = text(row, l.Origin)
			row = text(row, l.Destination)
			row = integer(row, l.Delay)
			row = integer(row, l.past.Sum)
			return integer(row, l.past.Count)
		}))
	return nil
}

// late is a flight with the history that it was compared with.
type late struct {
	Date flow.Time
	Route
	Delay int64
	past
}

// judge knows the history of each route before it sees the first flight of the stream.
type judge struct{ history flow.ValueState[past] }

func (j *judge) Open(s *flow.Setup[Route, late]) error {
	j.history = s.Value[past]("history")
	return nil
}

// Load takes the history of a route.
func (j *judge) Load(_ *flow.LoadCtx[Route], h flow.KV[Route, past]) error {
	j.history.Set(h.Value)
	return nil
}

// Process emits a flight whose delay is more than an hour, and more than four times the mean of its route, which counts
// as a minute at least. A route without history has no usual delay.
func (j *judge) Process(c *flow.Ctx[Route, late], f Flight) error {
	h, known := j.history.Load()
	if known && f.Delay > 60 && f.Delay*h.Count > 4*max(h.Sum, h.Count) {
		c.Emit(late{f.Date, f.Route(), f.Delay, h})
	}
	return nil
}
