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
func Sum[K comparable, T any, N Number, R interface{ KV[K, N] }](k KeyedStream[K, T], f func(T) N) Stream[R] {
	s := aggregated(k, "sum", "acc", func() keyed.Aggregation[K, T, N, R] { return keyed.Sum(k.key, f, pair[K, N, R]) })
	switch reflect.TypeFor[N]().Kind() {
	case reflect.Float32, reflect.Float64:
		s.end.n.op.OrderDependent = true
	}
	return s
}

// Min keeps the least of the values that f takes from the records of a key; a NaN is the least of all. It emits like Sum.
func Min[K comparable, T any, V cmp.Ordered, R interface{ KV[K, V] }](k KeyedStream[K, T], f func(T) V) Stream[R] {
	return aggregated(k, "min", "acc", func() keyed.Aggregation[K, T, V, R] { return keyed.Min(k.key, f, pair[K, V, R]) })
}

// Max keeps the greatest of the values that f takes from the records of a key; a NaN is the greatest of all. It emits like
// Sum.
func Max[K comparable, T any, V cmp.Ordered, R interface{ KV[K, V] }](k KeyedStream[K, T], f func(T) V) Stream[R] {
	return aggregated(k, "max", "acc", func() keyed.Aggregation[K, T, V, R] { return keyed.Max(k.key, f, pair[K, V, R]) })
}
