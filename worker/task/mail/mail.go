package mail

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/sluiceio/sluice/proto/taskpb"
)

// MaxLetters bounds a mailbox. Senders repeat what matters, so a letter too many may be dropped.
const MaxLetters = 256

// Letter is a control message for the loop of a subtask.
type Letter struct {
	Assign  *taskpb.AssignSplits     // splits for the source; nil: none
	Trigger *taskpb.Trigger          // a checkpoint has begun
	Notice  *taskpb.CheckpointNotice // what became of one
	Again   bool                     // the host wants to hear once more that the attempt runs
}

// Box is the mailbox of a subtask. Letters are read between batches; one that arrives while the loop sleeps wakes it,
// and one that arrives while a source is being polled ends the poll.
type Box struct {
	notify chan struct{} // room for one: a token says that there may be something to do
	// waiting mirrors whether letters or due are set, so that the loop looks without the lock.
	waiting atomic.Bool

	mu struct {
		sync.Mutex
		letters   []Letter
		due       bool               // a deadline of the loop has passed
		interrupt context.CancelFunc // ends the running poll; nil: the loop never polls
	}
}

// New is an empty mailbox.
func New() *Box { return &Box{notify: make(chan struct{}, 1)} }

// Notify yields a token when there may be something to do: here, or in an input whose producer has called Wake.
func (b *Box) Notify() <-chan struct{} { return b.notify }

// Wake makes the loop look at its inputs.
func (b *Box) Wake() {
	select {
	case b.notify <- struct{}{}:
	default:
	}
}

// Post delivers a letter; false: the mailbox is full.
func (b *Box) Post(l Letter) bool {
	b.mu.Lock()
	full := len(b.mu.letters) >= MaxLetters
	if !full {
		b.mu.letters = append(b.mu.letters, l)
		b.waiting.Store(true)
	}
	interrupt := b.mu.interrupt
	b.mu.Unlock()
	b.rouse(interrupt)
	return !full
}

// Tick says that a deadline of the loop has passed.
func (b *Box) Tick() {
	b.mu.Lock()
	b.mu.due = true
	b.waiting.Store(true)
	interrupt := b.mu.interrupt
	b.mu.Unlock()
	b.rouse(interrupt)
}

// rouse makes the loop see what has arrived. A poll that began after that was entered sees it before it begins.
func (b *Box) rouse(interrupt context.CancelFunc) {
	b.Wake()
	if interrupt != nil {
		interrupt()
	}
}

// Pending reports whether Take would return something. It costs no lock.
func (b *Box) Pending() bool { return b.waiting.Load() }

// Take empties the mailbox.
func (b *Box) Take() (letters []Letter, due bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	letters, due = b.mu.letters, b.mu.due
	b.mu.letters, b.mu.due = nil, false
	b.waiting.Store(false)
	return letters, due
}

// OnLetter sets what ends a running poll. The caller looks at Pending between this and the poll.
func (b *Box) OnLetter(interrupt context.CancelFunc) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.interrupt = interrupt
}
