package main

import (
	"context"
	"time"

	"github.com/sluiceio/sluice/connector/generate"
	"github.com/sluiceio/sluice/flow"
)

func (r record) time() flow.Time { return flow.Time(r.ID) }

// quietAfter is how many records a source has that falls silent.
const quietAfter = 3

// stuck unites a stream that goes on with one that falls silent and never ends: without IdleAfter, the second one holds time for
// ever.
func stuck(p *flow.Pipeline, cfg *Config) {
	idle := flow.IdleAfter(time.Duration(cfg.Idle) * time.Second)
	busy := p.From("busy", generate.Endless(cfg.record, generate.Rate(cfg.Rate)), flow.EventTime(record.time, idle))
	quiet := p.From("quiet", flow.PollFunc(int64(0), func(ctx context.Context, next int64) ([]record, int64, error) {
		if next < quietAfter {
			return []record{{ID: next}}, next + 1, nil
		}
		<-ctx.Done()
		return nil, next, nil
	}), flow.EventTime(record.time, idle))
	counted(busy.Union(quiet).Map(numbered).ID("numbered"), cfg.Out)
}

// drift is how far the faster of two aligned sources may be ahead: 20,000 records.
const drift = 20 * time.Millisecond

// aligned reads a source as fast as it can be read beside one of so many records per second, and lets the fast one wait.
func aligned(p *flow.Pipeline, cfg *Config) {
	together := flow.EventTime(record.time, flow.Align("both", drift))
	fast := p.From("fast", generate.Endless(cfg.record), together)
	slow := p.From("slow", generate.Endless(cfg.record, generate.Rate(cfg.Rate)), together)
	counted(fast.Union(slow).Map(numbered).ID("numbered"), cfg.Out)
}
