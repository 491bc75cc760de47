package shuffle

import "sync"

// localOut is the producing end of a channel whose consumer is in this process: batches themselves change hands.
type localOut struct {
	id     channelID
	fence  Fence
	sender *sender

	mu struct {
		sync.Mutex
		in      *inbox // nil: the consumer is not there yet
		ch      int
		waiting bool   // the writer is to be woken when the consumer comes
		over    bool   // the consumer needs nothing more
		failed  Reason // the producer has closed for this reason; none: it has not, or everything is handed over
		cause   error
	}
}

// offer hands an item over; see inbox.offer. unit is the size of the consumer's buffers in bytes, 0 if it is not there
// yet.
func (l *localOut) offer(it item) (recycled any, unit int, ok bool) {
	l.mu.Lock()
	in, ch, over := l.mu.in, l.mu.ch, l.mu.over
	if in == nil && !over {
		l.mu.waiting = true
	}
	l.mu.Unlock()
	switch {
	case over:
		return it.batch, 0, true
	case in == nil:
		return nil, 0, false
	}
	recycled, ok = in.offer(ch, it)
	return recycled, in.unit, ok
}

// pair joins the two ends; the consumer's comes first, so that it is ready before anything is offered.
func (l *localOut) pair(in *inbox, ch int) {
	if !in.pair(ch, l) {
		l.lose(Gone, nil)
		return
	}
	l.mu.Lock()
	l.mu.in, l.mu.ch = in, ch
	ring := l.mu.waiting
	l.mu.waiting = false
	failed, cause := l.mu.failed, l.mu.cause
	l.mu.Unlock()
	if ring {
		l.sender.wake.ring()
	}
	if failed != none { // it closed between the meeting and here, and knew of nobody to tell
		in.lose(ch, failed, cause)
	}
}

// consumerClosed: with none, the consumer has all that it wants.
func (l *localOut) consumerClosed(r Reason, cause error) {
	if r != none {
		l.lose(r, cause)
		return
	}
	l.mu.Lock()
	l.mu.over, l.mu.in = true, nil
	l.mu.Unlock()
	l.sender.wake.ring()
}

func (l *localOut) lose(r Reason, cause error) { l.sender.fail(l.id.lost(r, cause)) }

// close ends the channel from the producer's side. With none everything was handed over.
func (l *localOut) close(r Reason, cause error) {
	l.mu.Lock()
	in, ch := l.mu.in, l.mu.ch
	l.mu.failed, l.mu.cause = r, cause
	l.mu.Unlock()
	if r != none && in != nil {
		in.lose(ch, r, cause)
	}
}
