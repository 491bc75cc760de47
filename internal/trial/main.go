package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sluiceio/sluice/connector/file"
	"github.com/sluiceio/sluice/connector/generate"
	"github.com/sluiceio/sluice/flow"
)

// Config holds the parameters of the jobs.
type Config struct {
	Job  string `flag:"job" default:"diamond" help:"which job"`
	Rows int64  `flag:"rows" default:"100000" help:"records of every source"`
	Keys int64  `flag:"keys" default:"100000" help:"different keys (wide)"`
	Size int    `flag:"size" default:"8" help:"bytes of the payload of a record"`
	Rate int    `flag:"rate" default:"0" help:"records per second of every source; 0: full speed"`
	Idle int    `flag:"idle" default:"0" help:"seconds after which a source without records is idle; 0: never (stuck)"`
	Live int64  `flag:"live" default:"1000" help:"live records (loaded)"`
	Pace int    `flag:"pace" default:"0" help:"records per second that a subtask loads (loaded); 0: full speed"`
	Hold int    `flag:"hold" default:"0" help:"records after which a subtask stops loading until the file of open is there (loaded); 0: never"`
	Open string `flag:"open" default:"" help:"that file"`
	Out  string `flag:"out" default:"trial-out" help:"directory of the part files"`
}

// jobs by name.
var jobs = map[string]func(p *flow.Pipeline, cfg *Config){
	"diamond":  diamond,
	"selfjoin": selfJoin,
	"hotkey":   hotKey,
	"large":    large,
	"sort":     sorted,
	"misroute": misroute,
	"endless":  endless,
	"dammed":   dammed,
	"wide":     wide,
	"stuck":    stuck,
	"aligned":  aligned,
	"tally":    tally,
	"quiet":    quiet,
	"loaded":   loaded,
}

// record number ID.
type record struct {
	ID      int64
	Payload string
}

func (r record) id() int64 { return r.ID }

func (cfg *Config) record(i int64) (record, flow.Time) {
	return record{ID: i, Payload: payload(i, cfg.Size)}, flow.Time(i)
}

func (cfg *Config) records() flow.Source[record] {
	return generate.Records(cfg.Rows, cfg.record, generate.Rate(cfg.Rate))
}

// buckets is the number of rows of an answer.
const buckets = 8

// summed is what a bucket holds.
type summed struct{ Count, Sum int64 }

func (a summed) add(v int64) summed { return summed{a.Count + 1, a.Sum + v} }

// bucket is a row of an answer: bucket|count|sum.
type bucket = flow.KV[int64, summed]

func bucketRow(row []byte, b bucket) []byte {
	row = append(strconv.AppendInt(row, b.Key, 10), '|')
	row = append(strconv.AppendInt(row, b.Value.Count, 10), '|')
	return strconv.AppendInt(row, b.Value.Sum, 10)
}

// number is a value with what decides about its bucket.
type number = flow.KV[int64, int64]

func bucketOf(v number) int64 { return v.Key % buckets }

// counted adds up values by bucket.
func counted(s flow.Stream[number], out string) {
	s.KeyBy(bucketOf).
		Fold(func() summed { return summed{} }, func(a summed, v number) summed { return a.add(v.Value) }).ID("counted").
		To("out", file.Text(out, bucketRow))
}

// pairUp keys the sum of two ids by the first of them.
func pairUp(a, b record, emit func(number)) {
	emit(number{Key: a.ID, Value: a.ID + b.ID})
}

// diamond splits a stream into two branches that a join brings together again: with pipelined edges only, the join would
// wait for one branch while the other waits for the join.
func diamond(p *flow.Pipeline, cfg *Config) {
	in := p.From("in", cfg.records())
	left := in.Map(func(r record) record { return r }).ID("left")
	right := in.Map(func(r record) record { return record{r.ID, ""} }).ID("right")
	counted(left.KeyBy(record.id).Join(right.KeyBy(record.id), pairUp).ID("joined"), cfg.Out)
}

// group is how many records of a self-join share a key.
const group = 4

// selfJoin joins a stream with itself: each record meets the records of its group.
func selfJoin(p *flow.Pipeline, cfg *Config) {
	in := p.From("in", cfg.records())
	grouped := in.KeyBy(func(r record) int64 { return r.ID / group })
	counted(grouped.Join(grouped, pairUp).ID("joined"), cfg.Out)
}

// hotKey joins two inputs whose records all have the same key.
func hotKey(p *flow.Pipeline, cfg *Config) {
	one := func(record) int64 { return 1 }
	left, right := p.From("left", cfg.records()), p.From("right", cfg.records())
	left.KeyBy(one).Join(right.KeyBy(one), pairUp).ID("joined").
		Process(func() *adding { return &adding{} }).ID("added-up"). // where they are formed: the pairs are many
		KeyBy(func(b bucket) int64 { return b.Key }).
		Reduce(func(a, b bucket) bucket {
			return bucket{Key: a.Key, Value: summed{a.Value.Count + b.Value.Count, a.Value.Sum + b.Value.Sum}}
		}).ID("counted").
		To("out", file.Text(cfg.Out, bucketRow))
}

// adding sums up the pairs that a subtask sees, and emits the sums at the end.
type adding struct{ sums [buckets]summed }

func (a *adding) Open(s *flow.OpSetup[bucket]) error {
	s.OnEnd(func(c *flow.OpCtx[bucket]) error {
		for i, sum := range a.sums {
			if sum.Count > 0 {
				c.Emit(bucket{Key: int64(i), Value: sum})
			}
		}
		return nil
	})
	return nil
}

func (a *adding) Process(_ *flow.OpCtx[bucket], v number) error {
	b := &a.sums[bucketOf(v)]
	*b = b.add(v.Value)
	return nil
}

// large moves records of any size through an exchange, to every consumer: id|bytes, once per consumer.
func large(p *flow.Pipeline, cfg *Config) {
	p.From("in", cfg.records()).Broadcast().
		Map(func(r record) number { return number{Key: r.ID, Value: int64(len(r.Payload))} }).ID("measured").
		To("out", file.Text(cfg.Out, func(row []byte, n number) []byte {
			row = append(strconv.AppendInt(row, n.Key, 10), '|')
			return strconv.AppendInt(row, n.Value, 10)
		}))
}

// sorted orders records by the hash of their id: the rows of all part files together, in the order of their names, are in
// order.
func sorted(p *flow.Pipeline, cfg *Config) {
	flow.SortBy(p.From("in", cfg.records()), func(r record) uint64 { return scatter(r.ID) }).ID("sorted").
		To("out", file.Text(cfg.Out, func(row []byte, r record) []byte {
			return fmt.Appendf(row, "%016x|%d", scatter(r.ID), r.ID)
		}))
}

// misroute hands a record to a consumer that does not exist.
func misroute(p *flow.Pipeline, cfg *Config) {
	out := p.From("in", cfg.records()).
		PartitionBy(func(r record, consumers int) int {
			if r.ID == cfg.Rows/2 {
				return consumers
			}
			return int(r.ID) % consumers
		}).
		Map(func(r record) number { return number{Key: r.ID, Value: 1} }).ID("routed")
	counted(out, cfg.Out)
}

// endless has a source without end, which a batch cannot have.
func endless(p *flow.Pipeline, cfg *Config) {
	counted(p.From("in", generate.Endless(cfg.record, generate.Rate(cfg.Rate))).Map(numbered).ID("numbered"), cfg.Out)
}

// dammed asks for the end of a source that has none.
func dammed(p *flow.Pipeline, cfg *Config) {
	counted(p.From("in", generate.Endless(cfg.record, generate.Rate(cfg.Rate))).Map(numbered).ID("numbered").Exchange(flow.Blocking), cfg.Out)
}

// stride leads from the key of a record to that of the next one: a prime, so that all keys have their turn before one comes
// again, and far from 1, so that neighbours in time are none in memory.
const stride = 2654435761

// wide keeps a count for each of many keys: per bucket the keys, and the sum of (key + 1) × count.
func wide(p *flow.Pipeline, cfg *Config) {
	keys := max(1, cfg.Keys)
	counts := p.From("in", cfg.records()).
		KeyBy(func(r record) int64 { return r.ID % keys * (stride % keys) % keys }).
		Process(func() *counting { return &counting{} }).ID("counts")
	counted(counts, cfg.Out)
}

// counting keeps the number of records of each key, and emits (key + 1) × count at the end.
type counting struct{ n flow.ValueState[int64] }

func (c *counting) Open(s *flow.Setup[int64, number]) error {
	c.n = s.Value[int64]("n")
	s.OnEnd(func(ctx *flow.Ctx[int64, number]) error {
		ctx.Emit(number{Key: ctx.Key(), Value: (ctx.Key() + 1) * c.n.Get()})
		return nil
	})
	return nil
}

func (c *counting) Process(*flow.Ctx[int64, number], record) error {
	*c.n.Ref()++
	return nil
}

func numbered(r record) number { return number{Key: r.ID, Value: r.ID} }

func build(p *flow.Pipeline, cfg *Config) error {
	job, ok := jobs[cfg.Job]
	if !ok {
		return fmt.Errorf("unknown job %q; known are %s", cfg.Job, strings.Join(slices.Sorted(maps.Keys(jobs)), ", "))
	}
	job(p, cfg)
	return nil
}

func main() { flow.Main("trial", build) }
