package flow

// Distinct emits each value once. T must be a type that can be a key.
func Distinct[T comparable](s Stream[T]) Stream[T] {
	out, _ := keyedUnary[T, T, T](s.KeyBy(Self), "distinct", func(*node) taskStage { return unlinked[T, T]("distinct")() })
	return out
}
