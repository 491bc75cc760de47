package main

import (
	"context"
	"errors"
	"time"

	"github.com/sluiceio/sluice/connector/file"
	"github.com/sluiceio/sluice/connector/generate"
	"github.com/sluiceio/sluice/flow"
)

var errTenth = errors.New("a tenth record")

// tallying counts its records by key, all of them by a counter, and takes no tenth one.
type tallying struct {
	seen  flow.ValueState[int64]
	late  flow.EventTimer
	count *flow.Counter
}

func (k *tallying) Open(set *flow.Setup[int64, number]) error {
	k.seen = set.Value[int64]("seen")
	k.late = set.EventTimer("late", func(*flow.Ctx[int64, number], flow.Time) error { return nil })
	k.count = set.Counter("records seen")
	return nil
}

func (k *tallying) Process(c *flow.Ctx[int64, number], r record) error {
	k.count.Inc(1)
	k.late.Set(c.Timestamp().Add(time.Hour))
	if r.ID%10 == 3 {
		return errTenth
	}
	*k.seen.Ref()++
	c.Emit(number{Key: c.Key(), Value: k.seen.Get()})
	return nil
}

func numberRow(row []byte, n number) []byte {
	return bucketRow(row, bucket{Key: n.Key, Value: summed{n.Value, 0}})
}

func letterRow(row []byte, l flow.DeadLetter) []byte {
	row = append(append(row, l.Operator...), '|')
	return append(append(append(row, l.Position...), '|'), l.Error...)
}

// tally counts what an endless source gives, and rejects some of it.
func tally(p *flow.Pipeline, cfg *Config) {
	p.DeadLetters("letters", file.Text(cfg.Out+"-letters", letterRow))
	p.From("in", generate.Records(cfg.Rows, cfg.record, generate.Rate(cfg.Rate)), flow.EventTime(func(r record) flow.Time { return flow.Time(r.ID) })).
		KeyBy(record.id).Process(func() *tallying { return &tallying{} }).ID("tallied").OnError(flow.DeadLetters).
		To("out", file.Text(cfg.Out, numberRow))
}

// quiet is a job with state whose source has given a few records and has no more, and no end.
func quiet(p *flow.Pipeline, cfg *Config) {
	few := flow.PollFunc(int64(0), func(_ context.Context, off int64) (vs []record, next int64, err error) {
		if off < 100 {
			v, _ := cfg.record(off)
			return []record{v}, off + 1, nil
		}
		return nil, off, nil
	})
	p.From("in", few, flow.EventTime(func(r record) flow.Time { return flow.Time(r.ID) })).
		KeyBy(record.id).Process(func() *tallying { return &tallying{} }).ID("tallied").OnError(flow.Skip).
		To("out", file.Text(cfg.Out, numberRow))
}
