package flow

import (
	"cmp"

	"github.com/sluiceio/sluice/worker/task"
)

type taskStage = task.Stage

// Number is what Sum can add.
type Number interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64
}

// Sum adds the values that f takes from the records of a key. It emits like Count. The sum of floats depends on the order of
// the records in its last digits.
func Sum[K comparable, T any, N Number](k KeyedStream[K, T], f func(T) N) Stream[KV[K, N]] {
	out, _ := keyedUnary[K, T, KV[K, N]](k, "sum", func(*node) taskStage { return unlinked[T, KV[K, N]]("sum")() })
	return out
}

// Min keeps the least of the values that f takes from the records of a key. It emits like Count.
func Min[K comparable, T any, V cmp.Ordered](k KeyedStream[K, T], f func(T) V) Stream[KV[K, V]] {
	out, _ := keyedUnary[K, T, KV[K, V]](k, "min", func(*node) taskStage { return unlinked[T, KV[K, V]]("min")() })
	return out
}

// Max keeps the greatest of the values that f takes from the records of a key. It emits like Count.
func Max[K comparable, T any, V cmp.Ordered](k KeyedStream[K, T], f func(T) V) Stream[KV[K, V]] {
	out, _ := keyedUnary[K, T, KV[K, V]](k, "max", func(*node) taskStage { return unlinked[T, KV[K, V]]("max")() })
	return out
}
