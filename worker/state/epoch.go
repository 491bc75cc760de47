package state

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/snapshot/chunk"
)

// Extent is what a snapshot holds.
type Extent uint8

const (
	// Delta: what has changed since the newest checkpoint that is known to be completed, with tombstones.
	Delta Extent = iota + 1
	// Full: everything.
	Full
)

// Snapshot writes the state as of a barrier into a chunk, step by step, while the operator goes on.
type Snapshot struct {
	id     element.CheckpointID
	base   element.CheckpointID
	extent Extent
	epoch  uint32 // the one that the barrier ended
	w      *chunk.Writer
	number map[string]int // of a state in the chunk
	todo   []column
	done   func()
	err    error

	key, value []byte // scratch
}

// Freeze fixes the state for checkpoint id, at its barrier. It takes the same time whatever the size of the state. A
// snapshot that is not finished yet is given up: its checkpoint can no longer complete.
func (d *Directory[K]) Freeze(id element.CheckpointID, extent Extent) (*Snapshot, error) {
	if !d.cur.tracking {
		return nil, errors.New("state without checkpoints cannot be frozen")
	}
	if id <= d.last {
		return nil, fmt.Errorf("barrier %d after %d", id, d.last)
	}
	d.cancel(ErrAborted)
	h := d.Header()
	w, err := chunk.NewWriter(h)
	if err != nil {
		return nil, err
	}
	s := &Snapshot{id: id, base: d.base, extent: extent, epoch: d.cur.live >> 1, w: w, number: map[string]int{}, todo: d.cols}
	for i, st := range h.States {
		s.number[st.Name] = i
	}
	s.done = func() { d.cur.snap = nil }
	d.last = id
	d.segs[len(d.segs)-1].id = id
	d.segs = append(d.segs, epoch{})
	for _, c := range d.cols {
		c.freeze()
		c.begin(s)
	}
	d.cur.live += 1 << 1
	d.cur.snap = s
	return s, nil
}

// ErrAborted is the error of a snapshot whose checkpoint was given up.
var ErrAborted = errors.New("checkpoint was aborted")

func (d *Directory[K]) cancel(why error) {
	if s := d.cur.snap; s != nil {
		s.err = why
		d.cur.snap = nil
	}
}

// Checkpoint is the id of the barrier.
func (s *Snapshot) Checkpoint() element.CheckpointID { return s.id }

// Base is the checkpoint that a Delta starts from; 0: from nothing.
func (s *Snapshot) Base() element.CheckpointID { return s.base }

// Step writes about limit cells. The owner of the directory calls it between records until it is done.
func (s *Snapshot) Step(limit int) (done bool, err error) {
	for s.err == nil && len(s.todo) > 0 && limit > 0 {
		n, end, err := s.todo[0].sweep(s, limit)
		if err != nil {
			s.err = err
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
	s.done()
	s.done = func() {}
	return true, nil
}

// Chunk is the result when Step is done. It may be written out by another goroutine.
func (s *Snapshot) Chunk() *chunk.Writer { return s.w }

func (s *Snapshot) put(state string, group int, exists bool, value []byte) error {
	switch {
	case exists:
		return s.w.Put(group, s.number[state], s.key, value)
	case s.extent == Delta:
		return s.w.Delete(group, s.number[state], s.key)
	}
	return nil
}

// Completed says that checkpoint id is completed: what it holds never has to be written or undone again. Ids that are
// older than the last completed one change nothing.
func (d *Directory[K]) Completed(id element.CheckpointID) {
	n := 0
	for n < len(d.segs)-1 && d.segs[n].id <= id {
		d.pending.push(d.segs[n].emptied)
		n++
	}
	d.segs = slices.Delete(d.segs, 0, n)
	for _, c := range d.cols {
		c.drop(n)
	}
	d.base = max(d.base, id)
}

// Aborted says that checkpoint id will never complete: the next one takes over what it would have written.
func (d *Directory[K]) Aborted(id element.CheckpointID) {
	if s := d.cur.snap; s != nil && s.id == id {
		d.cancel(ErrAborted)
	}
	for i := range len(d.segs) - 1 {
		if d.segs[i].id != id {
			continue
		}
		d.segs[i].emptied.merge(&d.segs[i+1].emptied)
		d.segs[i+1].emptied = d.segs[i].emptied
		d.segs = slices.Delete(d.segs, i, i+1)
		for _, c := range d.cols {
			c.merge(i)
		}
		return
	}
}

// settle gives up the rows that undoing or loading has emptied.
func (d *Directory[K]) settle() {
	d.pending.push(d.segs[0].emptied)
	d.segs[0].emptied = bitmap{}
}

// Base is the last checkpoint that is known to be completed, or was restored; 0: none.
func (d *Directory[K]) Base() element.CheckpointID { return d.base }

// Rewind puts the state back to checkpoint id, which must be the last completed one, or 0 for the empty beginning.
func (d *Directory[K]) Rewind(id element.CheckpointID) error {
	if id != d.base {
		return fmt.Errorf("cannot rewind to checkpoint %d: the last one known to be completed is %d", id, d.base)
	}
	if !d.cur.tracking {
		return errors.New("state without checkpoints cannot be rewound")
	}
	d.cancel(ErrAborted)
	for _, e := range d.segs {
		d.pending.push(e.emptied)
	}
	d.segs = make([]epoch, 1)
	for _, c := range d.cols {
		c.rewind()
	}
	d.settle()
	d.cur.entry = nil
	d.cur.live += 1 << 1
	return d.cur.err
}
