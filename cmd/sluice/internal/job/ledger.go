package job

import (
	"errors"
	"path/filepath"
	"strconv"
	"time"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/connector/discard"
	"github.com/sluiceio/sluice/connector/file"
	"github.com/sluiceio/sluice/connector/generate"
	"github.com/sluiceio/sluice/flow"
)

// turn is how many records in a row belong to one partition of ledger, before it is the next one's turn: what the generator
// deals to one split.
const turn = 256

// entry is record Seq of a partition.
type entry struct{ Partition, Seq, Key int64 }

// line is what ledger writes for each record: what its key had seen by then, this record included.
type line struct {
	entry
	Count, Xor int64
	Attempt    uint32
}

// blend is a fixed hash (the finaliser of splitmix64) of a partition and a number.
func blend(seed, partition, seq int64) uint64 {
	z := uint64(seed) + uint64(partition)*0x9e3779b97f4a7c15 + uint64(seq)*0xd1342543de82ef95
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// clerk keeps the count and the exclusive-or of what each key has seen.
type clerk struct {
	count, xor flow.ValueState[int64]
	attempt    uint32
}

func (c *clerk) Open(s *flow.Setup[int64, line]) error {
	c.count, c.xor = s.Value[int64]("count"), s.Value[int64]("xor")
	s.OnStart(func(t *flow.Task) error {
		c.attempt = t.Attempt
		return nil
	})
	return nil
}

func (c *clerk) Process(ctx *flow.Ctx[int64, line], e entry) error {
	count, xor := c.count.Ref(), c.xor.Ref()
	*count++
	*xor ^= int64(blend(0, e.Partition, e.Seq) >> 1)
	ctx.Emit(line{entry: e, Count: *count, Xor: *xor, Attempt: c.attempt})
	return nil
}

// ledger is the workload of fault injection: whoever reads its rows can tell what was lost, doubled, invented or reordered.
// Event time is one millisecond per record of a partition.
func ledger(p *flow.Pipeline, cfg *Config) error {
	if cfg.Keys < 1 || cfg.Partitions < 1 || cfg.Window < 1 {
		return errors.New("keys, partitions and window must be at least 1")
	}
	seed, keys, partitions, pause := cfg.Seed, cfg.Keys, cfg.Partitions, cfg.Pause
	at := func(i int64) (entry, flow.Time) {
		block := i / turn
		e := entry{Partition: block % partitions, Seq: block/partitions*turn + i%turn}
		e.Key = int64(blend(seed, e.Partition, e.Seq) % uint64(keys))
		return e, flow.Time(e.Seq * 1000)
	}
	opts := []generate.Option{generate.Rate(cfg.Rate), generate.Splits(int(partitions))}
	src := generate.Endless(at, opts...)
	if cfg.Records >= 0 {
		src = generate.Records(cfg.Records, at, opts...)
	}
	in := resting(p.From("entries", src, flow.EventTime(func(e entry) flow.Time { return flow.Time(e.Seq * 1000) })), &Config{Pause: pause}).ID("taken")
	byKey := in.KeyBy(func(e entry) int64 { return e.Key })
	byKey.Process(func() *clerk { return &clerk{} }).ID("clerk").To("rows", ledgerSink(cfg, "rows", func(dst []byte, l line) []byte {
		return numbers(dst, l.Partition, l.Seq, l.Key, l.Count, l.Xor, int64(l.Attempt))
	}))
	byKey.Window(flow.Tumbling(time.Duration(cfg.Window)*time.Millisecond)).Count().ID("spans").
		To("windows", ledgerSink(cfg, "windows", func(dst []byte, w flow.Windowed[int64, int64]) []byte {
			return numbers(dst, w.Key, int64(w.Window.Start)/1000, w.Value)
		}))
	return nil
}

func ledgerSink[T any](cfg *Config, below string, row func(dst []byte, v T) []byte) connector.Sink[T] {
	if cfg.Out == "" {
		return discard.Sink[T](nil)
	}
	return file.Text(filepath.Join(cfg.Out, below), row)
}

// numbers separated by bars.
func numbers(dst []byte, vs ...int64) []byte {
	for i, v := range vs {
		if i > 0 {
			dst = append(dst, '|')
		}
		dst = strconv.AppendInt(dst, v, 10)
	}
	return dst
}
