package task

import "github.com/sluiceio/sluice/flow/codec"

// Exchange is both ends of one logical edge: typed where the record type is known, erased here.
type Exchange interface {
	// sealed: exchanges are made by NewExchange and NewKeyedExchange.
	sealed()
}

// NewExchange serves edges that route without looking at the record: forward, rebalance, rescale, broadcast, global.
// The partitioner of the plan's edge chooses.
func NewExchange[T any](c *codec.Codec[T]) Exchange { return &exchange[T]{codec: c} }

// NewKeyedExchange routes by key group: codec.KeyGroup of hash(key(v)), then codec.Subtask.
func NewKeyedExchange[K comparable, T any](c *codec.Codec[T], key func(T) K, hash func(K) uint64) Exchange {
	return &exchange[T]{codec: c, hash: func(v T) uint64 { return hash(key(v)) }}
}

type exchange[T any] struct {
	codec *codec.Codec[T]
	hash  func(T) uint64
}

func (x *exchange[T]) sealed() {}
