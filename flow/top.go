package flow

// Ranked is a record with its place among those that TopN has chosen.
type Ranked[T any] struct {
	Rank  int64 // from 1
	Value T
}

// TopN chooses the first n records of a bounded stream in the order of cmp, as slices.SortFunc would order them, and emits
// them in that order at the end of the input.
func TopN[T any](s Stream[T], n int, cmp func(a, b T) int) Stream[Ranked[T]] {
	u, _ := unary[T, Ranked[T]](s, "topn", func(*node) taskStage { return unlinked[T, Ranked[T]]("topn")() })
	return u
}

// TopNByKey chooses the first n records of each key of a bounded stream in the order of cmp, as slices.SortFunc would order
// them, and emits them in that order at the end of the input. It is a function because a method of KeyedStream[K, T] cannot
// return a Stream[Ranked[T]].
func TopNByKey[K comparable, T any](k KeyedStream[K, T], n int, cmp func(a, b T) int) Stream[Ranked[T]] {
	out, _ := keyedUnary[K, T, Ranked[T]](k, "topn", func(*node) taskStage { return unlinked[T, Ranked[T]]("topn")() })
	return out
}
