package epoch

import (
	"errors"
	"fmt"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/snapshot/chunk"
)

// Extent is what a snapshot holds.
type Extent uint8

const (
	// Delta: what has changed since the newest checkpoint that is known to be completed, with tombstones.
	Delta Extent = iota + 1
	// Full: everything. A directory that has moved something out of memory answers with a Delta.
	Full
)

// Snapshot writes the state as of a barrier into chunks, step by step, while the operator goes on.
type Snapshot struct {
	id      element.CheckpointID
	base    element.CheckpointID
	extent  Extent
	epoch   uint32 // the one that the barrier ended
	header  chunk.Header
	w       *chunk.Writer // nil: empty
	ready   []*Part
	waiting int // parts of ready that hold memory
	todo    []Sweeper
	part    int // limit of a part, in bytes
	done    func()
	err     error

	// Key and Value are scratch for those who write.
	Key, Value []byte
}

// Sweeper is a column that a snapshot has to write.
type Sweeper interface {
	// Begin fixes what the snapshot will write.
	Begin(s *Snapshot)
	// Sweep writes up to limit units and reports how many, and whether it has reached the end.
	Sweep(s *Snapshot, limit int) (n int, done bool, err error)
}

// ErrAborted is the error of a snapshot whose checkpoint was given up.
var ErrAborted = errors.New("checkpoint was aborted")

// Freeze fixes the state of all members for checkpoint id. It takes the same time whatever the size of the state. A
// snapshot that is not finished yet is given up: its checkpoint can no longer complete.
func (l *Epochs) Freeze(id element.CheckpointID, extent Extent) (*Snapshot, error) {
	if err := l.checkBarrier(id); err != nil {
		return nil, err
	}
	l.cancel(ErrAborted)
	s := &Snapshot{id: id, base: l.base, extent: extent, epoch: l.now, header: l.cfg.Header(), part: l.part}
	s.done = func() { l.snap = nil }
	l.last = id
	l.epochs[len(l.epochs)-1].id = id
	l.advance()
	for _, e := range l.epochs[:len(l.epochs)-1] {
		s.ready = append(s.ready, e.log.seal()...)
	}
	l.snap = s
	for _, m := range l.members {
		s.todo = m.Sweepers(s.todo)
	}
	for _, w := range s.todo {
		w.Begin(s)
	}
	return s, nil
}

// Checkpoint is the id of the barrier.
func (s *Snapshot) Checkpoint() element.CheckpointID { return s.id }

// Base is the checkpoint that a Delta starts from; 0: from nothing.
func (s *Snapshot) Base() element.CheckpointID { return s.base }

// Epoch is the number of the epoch that the barrier has ended.
func (s *Snapshot) Epoch() uint32 { return s.epoch }

// Waits reports that a part must be taken before the snapshot goes on.
func (s *Snapshot) Waits() bool { return s.waiting > 0 }

// Header describes the chunks.
func (s *Snapshot) Header() chunk.Header { return s.header }

// Extent is what the snapshot holds.
func (s *Snapshot) Extent() Extent { return s.extent }

// Step writes about limit units. The owner of the directory calls it between records until it is done, and takes the
// parts: while one waits that holds memory, Step does nothing.
func (s *Snapshot) Step(limit int) (done bool, err error) {
	for s.err == nil && len(s.todo) > 0 && limit > 0 && s.waiting == 0 {
		at := s.todo[0]
		n, end, err := at.Sweep(s, limit)
		if err != nil {
			s.fail(err)
			s.done()
			break
		}
		limit -= n
		if end {
			s.todo = s.todo[1:]
		}
	}
	if s.err != nil {
		return false, fmt.Errorf("snapshot %d: %w", s.id, s.err)
	}
	if len(s.todo) > 0 {
		return false, nil
	}
	if s.w != nil {
		s.finish()
	}
	s.done()
	s.done = func() {}
	return true, nil
}

// Take is the next finished part, oldest first; of what parts say about a unit the last one counts. It may be called at
// any time, and after Step is done until there is no part left.
func (s *Snapshot) Take() (*Part, bool) {
	if len(s.ready) == 0 {
		return nil, false
	}
	p := s.ready[0]
	s.ready = s.ready[1:]
	if p.file == nil {
		s.waiting = max(0, s.waiting-1)
	}
	return p, true
}

// Close releases the parts that nobody has taken. The snapshot is given up if it is not done.
func (s *Snapshot) Close() error {
	var errs []error
	for _, p := range s.ready {
		errs = append(errs, p.Release())
	}
	s.ready = nil
	if len(s.todo) > 0 {
		s.fail(ErrAborted)
		s.done()
	}
	return errors.Join(errs...)
}

func (s *Snapshot) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// Put adds an entry.
func (s *Snapshot) Put(e *chunk.Entry) error {
	if e.Op == chunk.Delete && s.extent == Full {
		return nil
	}
	if s.w == nil {
		w, err := chunk.NewWriter(s.header)
		if err != nil {
			return err
		}
		s.w = w
	}
	if err := s.w.Add(e); err != nil {
		return err
	}
	if s.w.Bytes() >= s.part {
		s.finish()
	}
	return nil
}

// finish makes a part of what is written.
func (s *Snapshot) finish() {
	s.ready = append(s.ready, &Part{w: s.w, entries: s.w.Len()})
	s.w = nil
	s.waiting++
}

// bytes is the memory of what waits.
func (s *Snapshot) bytes() (n int) {
	if s == nil {
		return 0
	}
	if s.w != nil {
		n += s.w.Bytes()
	}
	for _, p := range s.ready {
		if p.w != nil {
			n += p.w.Bytes()
		}
	}
	return n
}
