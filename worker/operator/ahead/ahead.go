package ahead

import (
	"github.com/sluiceio/sluice/worker/state"
	"github.com/sluiceio/sluice/worker/task"
)

// Of are the keys of records that come in batches, taken ahead of them by the input whose stage is being built. prefetch is
// called whenever there are others.
func Of[K comparable, In any](rt *task.Runtime, key func(In) K, hash func(K) uint64, prefetch func(*state.Ahead[K])) *state.Ahead[K] {
	next := &state.Ahead[K]{}
	task.LookAhead(rt, state.AheadKeys, func(records []In) {
		next.Take(records, key, hash)
		prefetch(next)
	})
	return next
}

// Keys makes the function that says under which key, and with which routing hash, a record is handled. It is to be called once
// for every record of the input, in their order. key is called once per record, unless it panics.
func Keys[K comparable, In any](rt *task.Runtime, key func(In) K, hash func(K) uint64, prefetch func(*state.Ahead[K])) func(In) (K, uint64) {
	next := Of(rt, key, hash, prefetch)
	return func(v In) (K, uint64) {
		if k, h, ok := next.Next(); ok {
			return k, h
		}
		k := key(v)
		return k, hash(k)
	}
}
