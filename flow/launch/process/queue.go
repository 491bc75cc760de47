package process

import (
	"context"
	"sync"

	"github.com/sluiceio/sluice/proto/taskpb"
)

// Bounds of what waits for the agent. An agent that is paused for long makes the queue grow: what is asked again or
// measured again stops first; facts are kept up to a number that no healthy process comes near.
const (
	queueFacts     = 1 << 16
	queueRepeating = 1 << 10
)

// queue holds messages to the agent. The task runtime must not block when it reports, so the queue is here.
type queue struct {
	sent chan struct{} // closed when the sender has ended

	mu struct {
		sync.Mutex
		messages []*taskpb.TaskMessage
		closed   bool
		news     chan struct{} // holds a token when there is something new
	}
}

func newQueue() *queue {
	q := &queue{sent: make(chan struct{})}
	q.mu.news = make(chan struct{}, 1)
	return q
}

// put appends m unless the queue holds limit messages, and reports whether it did.
func (q *queue) put(m *taskpb.TaskMessage, limit int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.closed || len(q.mu.messages) >= limit {
		return q.mu.closed // after the end nobody listens, and nothing is wrong
	}
	q.mu.messages = append(q.mu.messages, m)
	q.wake()
	return true
}

// wake leaves a token. The lock is held.
func (q *queue) wake() {
	select {
	case q.mu.news <- struct{}{}:
	default:
	}
}

// next waits for the oldest message; false when the queue is closed and empty, or ctx is done.
func (q *queue) next(ctx context.Context) (*taskpb.TaskMessage, bool) {
	for {
		m, closed := q.take()
		if m != nil || closed {
			return m, m != nil
		}
		select {
		case <-q.mu.news:
		case <-ctx.Done():
			return nil, false
		}
	}
}

func (q *queue) take() (m *taskpb.TaskMessage, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.mu.messages) == 0 {
		return nil, q.mu.closed
	}
	m = q.mu.messages[0]
	q.mu.messages[0] = nil
	q.mu.messages = q.mu.messages[1:]
	return m, false
}

// close lets the sender end once everything is sent.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.closed = true
	q.wake()
}
