package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/sluiceio/sluice/connector/file"
	"github.com/sluiceio/sluice/connector/generate"
	"github.com/sluiceio/sluice/flow"
)

// loaded sums up a bounded past by key before it numbers the live records of each key: id|key|sum of the past|number. The past
// goes round robin behind two sources, so that its results are in another order whenever they are made again.
func loaded(p *flow.Pipeline, cfg *Config) {
	keys := max(1, cfg.Keys)
	key := func(r record) int64 { return r.ID % keys }
	past := p.From("past", generate.Records(cfg.Rows, cfg.record, generate.Rate(5*cfg.Pace))).Parallelism(2).
		Rebalance().Map(func(r record) record { return r }).ID("past-told")
	p.From("live", generate.Records(cfg.Live, cfg.record, generate.Rate(cfg.Rate))).Parallelism(1).
		KeyBy(key).Exchange(flow.Pipelined).
		Bootstrap(past.KeyBy(key), func() *remembering { return &remembering{pace: pacer{rate: cfg.Pace, hold: cfg.Hold, open: cfg.Open}} }).ID("numbered").
		To("out", file.Text(cfg.Out, func(row []byte, m memory) []byte {
			for i, v := range []int64{m.ID, m.Key, m.Past, m.Number} {
				if i > 0 {
					row = append(row, '|')
				}
				row = strconv.AppendInt(row, v, 10)
			}
			return row
		}))
}

// memory is what is known of a live record.
type memory struct{ ID, Key, Past, Number int64 }

// remembering keeps the sum of the past and the number of live records, by key.
type remembering struct {
	pace   pacer
	past   flow.ValueState[int64]
	number flow.ValueState[int64]
}

func (r *remembering) Open(s *flow.Setup[int64, memory]) error {
	r.past, r.number = s.Value[int64]("past"), s.Value[int64]("number")
	return nil
}

func (r *remembering) Load(c *flow.LoadCtx[int64], in record) error {
	if err := r.pace.pass(c.Context()); err != nil {
		return err
	}
	*r.past.Ref() += in.ID
	return nil
}

func (r *remembering) Process(c *flow.Ctx[int64, memory], in record) error {
	n := r.number.Ref()
	*n++
	c.Emit(memory{in.ID, c.Key(), r.past.Get(), *n})
	return nil
}

// pacer lets so many pass a second, and hold of them before the file open exists.
type pacer struct {
	rate, hold, passed int
	open               string
	from               time.Time
}

// breath is what a pacer waits at once, at least.
const breath = time.Millisecond

func (p *pacer) pass(ctx context.Context) error {
	if p.passed == 0 {
		p.from = time.Now()
	}
	p.passed++
	if p.rate > 0 {
		if early := time.Until(p.from.Add(time.Second * time.Duration(p.passed) / time.Duration(p.rate))); early > breath {
			if err := wait(ctx, early); err != nil {
				return err
			}
		}
	}
	for p.passed == p.hold {
		switch _, err := os.Stat(p.open); {
		case err == nil:
			return nil
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
		if err := wait(ctx, breath); err != nil {
			return err
		}
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
