package flow

import (
	"cmp"
	"reflect"

	"github.com/sluiceio/sluice/worker/operator/keyed"
)

// Number is what Sum can add.
type Number = keyed.Number

// Sum adds the values that f takes from the records of a key. Unbounded input: every update is emitted, with the time of its
// record. Bounded input: the final sum of each key, at the end of the input. The last digits of a sum of floats depend on
// the order of the records.
func Sum[K comparable, T any, N Number](k KeyedStream[K, T], f func(T) N) Stream[KV[K, N]] {
	s := aggregated(k, "sum", "acc", func() keyed.Aggregation[K, T, N, KV[K, N]] { return keyed.Sum(k.key, f, pair[K, N]) })
	switch reflect.TypeFor[N]().Kind() {
	case reflect.Float32, reflect.Float64:
		s.n.op.OrderDependent = true
	}
	return s
}

// Min keeps the least of the values that f takes from the records of a key; a NaN is the least of all. It emits like Sum.
func Min[K comparable, T any, V cmp.Ordered](k KeyedStream[K, T], f func(T) V) Stream[KV[K, V]] {
	return aggregated(k, "min", "acc", func() keyed.Aggregation[K, T, V, KV[K, V]] { return keyed.Min(k.key, f, pair[K, V]) })
}

// Max keeps the greatest of the values that f takes from the records of a key; a NaN is the greatest of all. It emits like
// Sum.
func Max[K comparable, T any, V cmp.Ordered](k KeyedStream[K, T], f func(T) V) Stream[KV[K, V]] {
	return aggregated(k, "max", "acc", func() keyed.Aggregation[K, T, V, KV[K, V]] { return keyed.Max(k.key, f, pair[K, V]) })
}
