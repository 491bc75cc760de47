package flow

// BootstrapProcessor is a KeyedProcessor whose state is loaded from a bounded input before the first record of the other
// one is processed.
type BootstrapProcessor[K comparable, Init, In, Out any] interface {
	Open(*Setup[K, Out]) error
	// Load takes a record of the bounded input into the state of its key.
	Load(*LoadCtx[K], Init) error
	Process(*Ctx[K, Out], In) error
}

// LoadCtx is the context of one call of Load: it has a key and its state, and nothing to emit to, because what is loaded may
// be loaded again.
type LoadCtx[K comparable] struct{ key K }

// Key is the key of the record in flight; state handles address its state.
func (c *LoadCtx[K]) Key() K { return c.key }

// Bootstrap runs one P per subtask, with state by key: first P.Load for all records of init, then P.Process for those of k.
// init must be bounded (E016), and its exchange is always BLOCKING; k may be unbounded, and nothing of it is read before
// every subtask has loaded.
func (k KeyedStream[K, T]) Bootstrap[B, Out any, P BootstrapProcessor[K, B, T, Out]](init KeyedStream[K, B], factory func() P) Stream[Out] {
	p := k.s.p
	n := p.add("bootstrap", k.s.edge(), init.s.edge())
	n.inputs = []input{k.input(unlinked[T, Out]("bootstrap")), init.input(unlinked[B, Out]("bootstrap"))}
	return derive[Out](p, n)
}
