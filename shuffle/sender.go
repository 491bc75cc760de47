package shuffle

import (
	"sync"
	"sync/atomic"
)

// sender is what the channels of one writer share with its loop.
type sender struct {
	wake   wakeup
	failed atomic.Pointer[LossError] // the first loss of any channel
	pool   *framePool                // nil: no remote consumers
}

func (s *sender) fail(e *LossError) {
	s.failed.CompareAndSwap(nil, e)
	s.wake.ring()
}

// err is the failure of the writer as an error.
func (s *sender) err() error {
	if e := s.failed.Load(); e != nil {
		return e
	}
	return nil
}

// framePool lends a writer its frame buffers. It is the mem.BufferPool to which the transport returns them. There are
// enough for every channel to fill one and hold one back, and some more that only channels with credit can have, so
// those always come back.
type framePool struct {
	size int // bytes of a buffer
	wake wakeup
	mu   struct {
		sync.Mutex
		free     []*[]byte
		unmade   int  // buffers that were never allocated
		starving bool // the writer waits for a buffer
	}
}

func newFramePool(buffers, size int, wake wakeup) *framePool {
	p := &framePool{size: size, wake: wake}
	p.mu.unmade = buffers
	return p
}

// take is a buffer of length 0, or nil when all are in use: then Put will ring.
func (p *framePool) take() *[]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.mu.free); n > 0 {
		b := p.mu.free[n-1]
		p.mu.free = p.mu.free[:n-1]
		*b = (*b)[:0]
		return b
	}
	if p.mu.unmade == 0 {
		p.mu.starving = true
		return nil
	}
	p.mu.unmade--
	b := make([]byte, 0, p.size)
	return &b
}

// Get completes mem.BufferPool. The transport does not allocate from this pool.
func (p *framePool) Get(length int) *[]byte {
	b := make([]byte, length)
	return &b
}

// Put takes a buffer back, from any goroutine.
func (p *framePool) Put(b *[]byte) {
	p.mu.Lock()
	p.mu.free = append(p.mu.free, b)
	ring := p.mu.starving
	p.mu.starving = false
	p.mu.Unlock()
	if ring {
		p.wake.ring()
	}
}
