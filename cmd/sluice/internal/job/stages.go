package job

import (
	"errors"
	"strconv"
	"time"

	"github.com/sluiceio/sluice/connector/discard"
	"github.com/sluiceio/sluice/connector/file"
	"github.com/sluiceio/sluice/connector/generate"
	"github.com/sluiceio/sluice/flow"
)

// splitsOf each input of stages: many, so that they are handed out while it runs.
const splitsOf = 16

// tally is what stages computes of records: any that is lost or doubled shows.
type tally struct{ Keys, Count, Sum, Xor int64 }

func (t tally) plus(r record) tally { return tally{t.Keys, t.Count + 1, t.Sum + r.N, t.Xor ^ r.N} }

func (t tally) and(o tally) tally {
	return tally{t.Keys + o.Keys, t.Count + o.Count, t.Sum + o.Sum, t.Xor ^ o.Xor}
}

// stages is a job of four stages, for what may go wrong between them: two inputs with splits that are handed out as they are
// read meet in one stage, whose records are rebalanced in the order of their arrival.
func stages(p *flow.Pipeline, cfg *Config) error {
	if cfg.Keys < 1 || cfg.Records < 0 || cfg.Pause < 0 {
		return errors.New("keys must be at least 1, records and pause not negative")
	}
	keys, half := cfg.Keys, cfg.Records/2
	input := func(id string, first, n int64) flow.Stream[record] {
		return p.From(id, generate.Records(n, func(i int64) (record, flow.Time) {
			return record{N: first + i, Key: (first + i) % keys}, flow.Time(i)
		}, generate.Splits(splitsOf)))
	}
	merged := resting(input("left", 0, half).Union(input("right", half, cfg.Records-half)).ID("merged"), cfg).ID("taken")
	spread := resting(merged.Rebalance(), cfg).ID("spread")
	perKey := resting(spread.KeyBy(func(r record) int64 { return r.Key }).
		Fold(func() tally { return tally{Keys: 1} }, tally.plus).ID("per-key"), cfg).ID("counted")
	perDigit := perKey.KeyBy(func(k flow.KV[int64, tally]) int64 { return k.Key % 10 }).
		Fold(func() tally { return tally{} }, func(t tally, k flow.KV[int64, tally]) tally { return t.and(k.Value) }).ID("per-digit")
	if cfg.Out == "" {
		perDigit.To("out", discard.Sink[flow.KV[int64, tally]](nil))
		return nil
	}
	perDigit.To("out", file.Text(cfg.Out, func(dst []byte, d flow.KV[int64, tally]) []byte {
		dst = strconv.AppendInt(dst, d.Key, 10)
		for _, v := range []int64{d.Value.Keys, d.Value.Count, d.Value.Sum, d.Value.Xor} {
			dst = strconv.AppendInt(append(dst, '|'), v, 10)
		}
		return dst
	}))
	return nil
}

// resting slows a stage down, so that there is a middle in which something can go wrong.
func resting[T any](s flow.Stream[T], cfg *Config) flow.Stream[T] {
	const every = 1000
	pause := time.Duration(cfg.Pause) * time.Microsecond
	return s.MapWith(func(*flow.Task) (func(T) (T, error), error) {
		n := 0
		return func(v T) (T, error) {
			if n++; n%every == 0 && pause > 0 {
				<-time.After(pause)
			}
			return v, nil
		}, nil
	})
}
