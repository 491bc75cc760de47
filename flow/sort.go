package flow

import "cmp"

// SortOption sets the order of SortBy.
type SortOption func(*sortOptions)

type sortOptions struct{ descending bool }

// Descending sorts from the largest key to the smallest.
func Descending() SortOption { return func(o *sortOptions) { o.descending = true } }

// SortBy sorts a bounded stream by key: a total order. Subtask i of the operator emits the i-th range of keys, sorted, and
// no later subtask has a smaller key; so do the part files of a file sink behind it, in the order of their names. Records
// with equal keys come in the order in which they arrive.
func SortBy[T any, K cmp.Ordered](s Stream[T], key func(T) K, opts ...SortOption) Stream[T] {
	u, _ := unary[T, T](s, "sort", func(n *node) taskStage { return unlinked[T, T]("sort")() })
	return u
}
