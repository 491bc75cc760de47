package epoch

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/internal/invariant"
	"github.com/sluiceio/sluice/snapshot/chunk"
	"github.com/sluiceio/sluice/worker/state/overflow"
)

// Member is a table whose changes belong to the epochs.
type Member interface {
	// Freeze closes the open segments and opens others.
	Freeze()
	// Drop forgets the n oldest segments: a completed checkpoint has them.
	Drop(n int)
	// Merge joins segment i to the one behind it: its checkpoint was aborted.
	Merge(i int)
	// Rewind undoes all segments, newest first, and leaves an empty open one.
	Rewind()
	// Sweepers appends what a snapshot has to write; nothing if the member takes no part.
	Sweepers(list []Sweeper) []Sweeper
}

// Config of epochs.
type Config struct {
	// Tracking: there are checkpoints. Without, there is one epoch for ever.
	Tracking bool
	// Header describes the chunks of the table.
	Header func() chunk.Header
	// Store is where journals go when they are long; nil: they stay in memory.
	Store *overflow.Store
}

// Epochs are those of one table that are undecided, and what became of the others. The directories of spaces share them.
type Epochs struct {
	cfg      Config
	epochs   []epoch              // undecided, oldest first; the last one is open
	dead     []span               // of epochs that a rewind has undone, ascending
	base     element.CheckpointID // the last one known to be completed
	last     element.CheckpointID // of the newest barrier
	now      uint32               // number of the open epoch
	departed bool                 // something left memory in an undecided epoch: its records name epochs
	snap     *Snapshot            // being written; nil if none
	members  []Member
	part     int // limits of parts, in bytes
	journal  int
}

// span is a range of epochs, both ends included.
type span struct{ lo, hi uint32 }

// epoch is the time between two barriers: what the segments with the same index in all columns belong to.
type epoch struct {
	id  element.CheckpointID // of the barrier at its end; 0 while open
	was span                 // the epochs that it consists of, those of aborted checkpoints included
	log *journal             // of dirty units that have left memory; nil: none has
}

// firstEpoch is 1: the word of a cell that was never written is 0.
const firstEpoch = 1

// New begins with an empty epoch.
func New(c Config) *Epochs {
	return &Epochs{cfg: c, now: firstEpoch, part: partBytes, journal: journalBytes, epochs: []epoch{{was: span{firstEpoch, firstEpoch}}}}
}

// Join makes a table a member; it begins with a segment for each undecided epoch.
func (l *Epochs) Join(m Member) { l.members = append(l.members, m) }

// Leave ends a membership.
func (l *Epochs) Leave(m Member) {
	l.members = slices.DeleteFunc(l.members, func(x Member) bool { return x == m })
}

// Tracking reports whether there are checkpoints.
func (l *Epochs) Tracking() bool { return l.cfg.Tracking }

// Len is the number of undecided epochs; the last one is open.
func (l *Epochs) Len() int { return len(l.epochs) }

// Open is the index of the open epoch.
func (l *Epochs) Open() int { return len(l.epochs) - 1 }

// Now is the number of the open epoch.
func (l *Epochs) Now() uint32 { return l.now }

// First is the number of the oldest undecided epoch.
func (l *Epochs) First() uint32 { return l.epochs[0].was.lo }

// Number is that of undecided epoch i.
func (l *Epochs) Number(i int) uint32 { return l.epochs[i].was.hi }

// Snapshot is the one that is being written; nil if there is none.
func (l *Epochs) Snapshot() *Snapshot { return l.snap }

// Whole reports that a full snapshot is being written: it knows units by their ids, which must stay.
func (l *Epochs) Whole() bool { return l.snap != nil && l.snap.extent == Full }

// Base is the last checkpoint that is known to be completed, or was restored; 0: none.
func (l *Epochs) Base() element.CheckpointID { return l.base }

// Last is the checkpoint of the newest barrier.
func (l *Epochs) Last() element.CheckpointID { return l.last }

// Restored says that what the members hold is the state of completed checkpoint id.
func (l *Epochs) Restored(id element.CheckpointID) { l.base, l.last = id, id }

// fate is what became of an epoch.
type fate uint8

const (
	completed fate = iota
	undone
	undecided
)

// fateOf is what became of epoch e, and for an undecided one the index of its segment.
func (l *Epochs) fateOf(e uint32) (fate, int) {
	if e >= l.epochs[0].was.lo {
		i, _ := slices.BinarySearchFunc(l.epochs, e, func(p epoch, e uint32) int { return int(p.was.hi) - int(e) })
		return undecided, i
	}
	_, found := slices.BinarySearchFunc(l.dead, e, func(s span, e uint32) int {
		switch {
		case s.hi < e:
			return -1
		case s.lo > e:
			return 1
		}
		return 0
	})
	if found {
		return undone, 0
	}
	return completed, 0
}

// advance begins the next epoch.
func (l *Epochs) advance() {
	l.now++
	l.epochs = append(l.epochs, epoch{was: span{l.now, l.now}})
	for _, m := range l.members {
		m.Freeze()
	}
}

// Completed says that checkpoint id is completed: what it holds never has to be written or undone again.
func (l *Epochs) Completed(id element.CheckpointID) error {
	n := 0
	for n < len(l.epochs)-1 && l.epochs[n].id <= id {
		n++
	}
	if err := l.forget(n); err != nil {
		return err
	}
	for _, m := range l.members {
		m.Drop(n)
	}
	l.base = max(l.base, id)
	return nil
}

// forget removes the n oldest epochs.
func (l *Epochs) forget(n int) error {
	for i := range n {
		if err := l.epochs[i].log.release(); err != nil {
			return err
		}
	}
	l.epochs = slices.Delete(l.epochs, 0, n)
	return nil
}

// Aborted says that checkpoint id will never complete: the next one takes over what it would have written.
func (l *Epochs) Aborted(id element.CheckpointID) error {
	if l.snap != nil && l.snap.id == id {
		l.cancel(ErrAborted)
	}
	for i := range len(l.epochs) - 1 {
		if l.epochs[i].id != id {
			continue
		}
		if i == 0 && invariant.Without("aborted-changes") {
			for _, m := range l.members {
				m.Drop(1)
			}
			return l.forget(1)
		}
		next, err := &l.epochs[i+1], error(nil)
		next.was.lo = l.epochs[i].was.lo
		if next.log, err = l.epochs[i].log.join(next.log); err != nil {
			return err
		}
		l.epochs = slices.Delete(l.epochs, i, i+1)
		for _, m := range l.members {
			m.Merge(i)
		}
		return nil
	}
	return nil
}

// Rewind puts everything back to checkpoint id, which must be the base.
func (l *Epochs) Rewind(id element.CheckpointID) error {
	if !l.cfg.Tracking {
		return errors.New("state without checkpoints cannot be rewound")
	}
	if id != l.base {
		return fmt.Errorf("cannot rewind to checkpoint %d: the last one known to be completed is %d", id, l.base)
	}
	l.cancel(ErrAborted)
	if l.departed {
		l.dead = append(l.dead, span{l.epochs[0].was.lo, l.now})
		l.departed = false
	}
	if err := l.forget(len(l.epochs)); err != nil {
		return err
	}
	l.now++
	l.epochs = []epoch{{was: span{l.now, l.now}}}
	for _, m := range l.members {
		m.Rewind()
	}
	return nil
}

func (l *Epochs) cancel(why error) {
	if s := l.snap; s != nil {
		s.fail(why)
		l.snap = nil
	}
}

// checkBarrier refuses what would mix up the order of checkpoints.
func (l *Epochs) checkBarrier(id element.CheckpointID) error {
	if !l.cfg.Tracking {
		return errors.New("state without checkpoints cannot be frozen")
	}
	if id <= l.last {
		return fmt.Errorf("barrier %d after %d", id, l.last)
	}
	return nil
}

// Close gives back what journals hold, and gives up the snapshot that is being written.
func (l *Epochs) Close() error {
	l.cancel(ErrAborted)
	return l.forget(len(l.epochs))
}

// Bytes is the memory of what is written or waits, for the first member, which answers for it.
func (l *Epochs) Bytes(m Member) int {
	if len(l.members) == 0 || l.members[0] != m {
		return 0
	}
	n := l.snap.bytes()
	for _, e := range l.epochs {
		n += e.log.bytes()
	}
	return n
}
