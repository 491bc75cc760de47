package main

import (
	"math"
	"math/bits"

	"github.com/sluiceio/sluice/connector/discard"
	"github.com/sluiceio/sluice/connector/generate"
	"github.com/sluiceio/sluice/connector/nexmark"
	"github.com/sluiceio/sluice/flow"
)

// value is what is counted and added up: 100 bytes.
type value struct {
	Count, Sum int64
	Rest       [84]byte
}

type update struct {
	Key    int64
	Amount int64
}

// keyed counts and adds up values per key.
func (o *options) keyed(p *flow.Pipeline, total *discard.Total) error {
	pick := o.uniform
	if o.zipf {
		pick = o.skewed
	}
	p.From("updates", generate.Records(o.events, func(i int64) (update, flow.Time) {
		x := scramble(uint64(i) ^ o.seed)
		return update{pick(x), int64(x & 0xffff)}, flow.Time(i)
	})).KeyBy(func(u update) int64 { return u.Key }).
		Fold(func() value { return value{} }, func(v value, u update) value {
			v.Count++
			v.Sum += u.Amount
			return v
		}).ID("sums").
		To("out", discard.Sum(total, func() func(flow.KV[int64, value]) uint64 {
			return func(kv flow.KV[int64, value]) uint64 {
				return nexmark.Row().Num(kv.Key).Num(kv.Value.Count).Num(kv.Value.Sum).Hash()
			}
		}))
	return nil
}

func scramble(z uint64) uint64 {
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// uniform picks every key alike.
func (o *options) uniform(x uint64) int64 {
	hi, _ := bits.Mul64(x, uint64(o.keys))
	return int64(hi)
}

// skewed picks by Zipf's law with exponent 1, inverted: the rank of a key is n^u for u in [0, 1). Ranks are scattered over the
// keys.
func (o *options) skewed(x uint64) int64 {
	u := float64(x>>11) / (1 << 53)
	rank := int64(math.Pow(float64(o.keys), u))
	return int64(scramble(uint64(rank)) % uint64(o.keys))
}
