package segment

import (
	"errors"

	"github.com/sluiceio/sluice/proto/snapshotpb"
)

// Share is the part of one subtask in a checkpoint.
type Share struct {
	pack   *pack
	member Member
	wake   func()

	// Guarded by the lock of the pack.
	busy bool            // a part is under way
	ack  *snapshotpb.Ack // nil: not sealed

	segments []*segment // of the parts, in order; owned by the goroutine of the pack until it reports
}

// Busy reports whether a part is under way; only when it is not, another may be put.
func (s *Share) Busy() bool {
	s.pack.mu.Lock()
	defer s.pack.mu.Unlock()
	return s.busy
}

// Err is why the checkpoint is not written; nil: it is.
func (s *Share) Err() error {
	s.pack.mu.Lock()
	defer s.pack.mu.Unlock()
	return s.pack.mu.err
}

// GivenUp reports whether err says that nobody wants the checkpoint any more.
func GivenUp(err error) bool { return errors.Is(err, errGivenUp) }

// Put has a part written. meta says what it holds; where it is is added.
func (s *Share) Put(part Part, meta *snapshotpb.Part) {
	p := s.pack
	p.mu.Lock()
	if p.mu.err != nil || p.mu.given {
		p.mu.Unlock()
		_ = part.Release() // nothing of it counts any more
		return
	}
	s.busy = true
	p.mu.queue = append(p.mu.queue, job{s, part, meta})
	p.mu.Unlock()
	p.ring()
}

// Seal says that nothing more comes. a is acknowledged when everything is durable.
func (s *Share) Seal(a *snapshotpb.Ack) {
	s.pack.mu.Lock()
	s.ack = a
	s.pack.mu.Unlock()
	s.pack.ring()
}

// written notes that the part under way has its place, or never will have one.
func (s *Share) written() {
	s.pack.mu.Lock()
	s.busy = false
	s.pack.mu.Unlock()
	s.wake()
}
