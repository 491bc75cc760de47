package task

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/sluiceio/sluice/proto/taskpb"
)

// maxLetters bounds a mailbox. Senders repeat what matters, so a letter too many may be dropped.
const maxLetters = 256

// letter is a control message for the loop of a subtask.
type letter struct {
	assign *taskpb.AssignSplits // splits for the source; nil: none
	again  bool                 // the host wants to hear once more that the attempt runs
}

// mailbox is how everything but records reaches the loop. Letters are read between batches; one that arrives while
// the loop sleeps wakes it, and one that arrives while a source is being polled ends the poll.
type mailbox struct {
	// notify has room for one: a token says that there may be something to do.
	notify chan struct{}
	// waiting mirrors whether letters or due are set, so that the loop looks without the lock.
	waiting atomic.Bool

	mu struct {
		sync.Mutex
		letters   []letter
		due       bool               // a deadline of the loop has passed
		interrupt context.CancelFunc // ends the running poll; nil: the loop never polls
	}
}

func newMailbox() *mailbox { return &mailbox{notify: make(chan struct{}, 1)} }

// wake makes the loop look at its inputs.
func (m *mailbox) wake() {
	select {
	case m.notify <- struct{}{}:
	default:
	}
}

// post delivers a letter; false: the mailbox is full.
func (m *mailbox) post(l letter) bool {
	m.mu.Lock()
	if len(m.mu.letters) >= maxLetters {
		m.mu.Unlock()
		return false
	}
	m.mu.letters = append(m.mu.letters, l)
	m.deliver()
	return true
}

// tick says that a deadline of the loop has passed.
func (m *mailbox) tick() {
	m.mu.Lock()
	m.mu.due = true
	m.deliver()
}

// deliver unlocks mu and makes the loop see that something has arrived.
func (m *mailbox) deliver() {
	interrupt := m.mu.interrupt
	m.waiting.Store(true)
	m.mu.Unlock()
	m.wake()
	if interrupt != nil {
		interrupt()
	}
}

// pending reports whether take would return something. It costs no lock.
func (m *mailbox) pending() bool { return m.waiting.Load() }

// take empties the mailbox.
func (m *mailbox) take() (letters []letter, due bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	letters, due = m.mu.letters, m.mu.due
	m.mu.letters, m.mu.due = nil, false
	m.waiting.Store(false)
	return letters, due
}

// onLetter sets what ends a running poll. The loop looks for letters again afterwards.
func (m *mailbox) onLetter(interrupt context.CancelFunc) {
	m.mu.Lock()
	m.mu.interrupt = interrupt
	m.mu.Unlock()
}
