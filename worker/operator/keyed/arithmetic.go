package keyed

import "cmp"

// Number is what can be summed.
type Number interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64
}

// Sum adds up value of the records of each key, in the order of arrival. State and Registry are the caller's to set.
func Sum[K comparable, In any, N Number, Out any](key func(In) K, value func(In) N, result func(K, N) Out) Aggregation[K, In, N, Out] {
	return Aggregation[K, In, N, Out]{
		Key: key, First: value, Result: result,
		Add: func(acc N, v In) N { return acc + value(v) },
	}
}

// Min is the least value of each key; NaN if there is one. State and Registry are the caller's to set.
func Min[K comparable, In any, N cmp.Ordered, Out any](key func(In) K, value func(In) N, result func(K, N) Out) Aggregation[K, In, N, Out] {
	return Aggregation[K, In, N, Out]{
		Key: key, First: value, Result: result,
		Add: func(acc N, v In) N { return min(acc, value(v)) },
	}
}

// Max is the greatest value of each key; NaN if there is one. State and Registry are the caller's to set.
func Max[K comparable, In any, N cmp.Ordered, Out any](key func(In) K, value func(In) N, result func(K, N) Out) Aggregation[K, In, N, Out] {
	return Aggregation[K, In, N, Out]{
		Key: key, First: value, Result: result,
		Add: func(acc N, v In) N { return max(acc, value(v)) },
	}
}
