package flow

// Processor is an operator of your own. A factory makes one per subtask, so its fields need no locks. Open also runs when
// the plan is made, to learn what the operator declares: it must open nothing; that belongs into OnStart.
type Processor[In, Out any] interface {
	Open(*OpSetup[Out]) error
	Process(*OpCtx[Out], In) error
}

// KeyedProcessor is an operator of your own with keyed state. A factory makes one per subtask, so its fields need no locks.
// Open also runs when the plan is made, to learn which state the operator declares: it must open nothing; that
// belongs into OnStart.
type KeyedProcessor[K comparable, In, Out any] interface {
	Open(*Setup[K, Out]) error
	Process(*Ctx[K, Out], In) error
}

// OpSetup is where a Processor declares what it needs.
type OpSetup[Out any] struct{}

// OpCtx is valid during one call.
type OpCtx[Out any] struct{}

// Setup is where a KeyedProcessor declares its state.
type Setup[K comparable, Out any] struct{}

// Ctx is valid during one call.
type Ctx[K comparable, Out any] struct{}
