package flow

// KeyedStream is a stream partitioned by key.
type KeyedStream[K comparable, T any] struct {
	s   Stream[T]
	key func(T) K
}

// Exchange overrides how the keyed edge is exchanged.
func (k KeyedStream[K, T]) Exchange(e Exchange) KeyedStream[K, T] {
	k.s.exch = e
	return k
}

// Reduce combines the records of a key pairwise. Unbounded input: every update is emitted. Bounded input: the final value of
// each key, at the end of the input.
func (k KeyedStream[K, T]) Reduce(f func(acc, v T) T) Stream[T] {
	return derive[T](k.s.p, k.s.p.add("reduce", k.s.edge()))
}

// Count counts the records of a key. Unbounded input: every update is emitted. Bounded input: the final count of each key.
func (k KeyedStream[K, T]) Count() Stream[KV[K, int64]] {
	return derive[KV[K, int64]](k.s.p, k.s.p.add("count", k.s.edge()))
}

// Fold folds the records of a key into an accumulator. f may change acc in place and return it. Unbounded input: every
// update is emitted. Bounded input: the final value of each key, at the end of the input.
func (k KeyedStream[K, T]) Fold[A any](zero func() A, f func(acc A, v T) A) Stream[KV[K, A]] {
	return derive[KV[K, A]](k.s.p, k.s.p.add("fold", k.s.edge()))
}

// Process runs one P per subtask, with keyed state.
func (k KeyedStream[K, T]) Process[Out any, P KeyedProcessor[K, T, Out]](factory func() P) Stream[Out] {
	return derive[Out](k.s.p, k.s.p.add("process", k.s.edge()))
}

// Window groups the records of a key by event time.
func (k KeyedStream[K, T]) Window(spec WindowSpec) WindowedStream[K, T] {
	return WindowedStream[K, T]{k: k, spec: spec}
}
