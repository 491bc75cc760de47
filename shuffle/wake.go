package shuffle

// wakeup is a doorbell: rings while nobody waits are kept, but only one.
type wakeup chan struct{}

func newWakeup() wakeup { return make(wakeup, 1) }

func (w wakeup) ring() {
	select {
	case w <- struct{}{}:
	default:
	}
}
