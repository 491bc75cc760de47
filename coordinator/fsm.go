package coordinator

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/sluiceio/sluice/coordinator/state"
)

// errHalted is the answer to every entry after one that this binary does not understand.
var errHalted = errors.New("this coordinator has halted")

// fsm puts the replicated facts under Raft. Raft calls Apply, Snapshot and Restore from one goroutine; everyone else
// reads through changed, without waiting for it.
type fsm struct {
	// halt is called once, from Raft's goroutine, when going on would make this node differ from the others.
	halt func(reason error)
	// observe is told how long each entry took.
	observe func(time.Duration)

	facts atomic.Pointer[state.State] // replaced as a whole by Restore

	mu struct {
		sync.Mutex
		changed chan struct{} // closed and replaced after every entry
	}
	halted   bool // touched by Raft's goroutine alone
	restores atomic.Uint64
	problem  atomic.Pointer[error] // why the last Restore failed
}

func newFSM(halt func(error), observe func(time.Duration)) *fsm {
	f := &fsm{halt: halt, observe: observe}
	f.facts.Store(state.New())
	f.mu.changed = make(chan struct{})
	return f
}

// view returns the facts as of the last entry, and a channel that is closed after a later one.
func (f *fsm) view() (*state.View, <-chan struct{}) {
	f.mu.Lock()
	changed := f.mu.changed
	f.mu.Unlock()
	// The channel comes first: an entry in between closes it, and the caller looks again for nothing, never too late.
	return f.facts.Load().View(), changed
}

func (f *fsm) publish() {
	f.mu.Lock()
	close(f.mu.changed)
	f.mu.changed = make(chan struct{})
	f.mu.Unlock()
}

// Apply applies one entry. Its answer is a state.Result, or errHalted.
func (f *fsm) Apply(entry *raft.Log) any {
	if f.halted {
		return errHalted
	}
	start := time.Now()
	result := f.facts.Load().ApplyBytes(entry.Index, entry.Term, entry.Data)
	if result.Status == state.Halt {
		f.halted = true
		f.halt(fmt.Errorf("entry %d of the log is newer than this binary: %s; upgrade it", entry.Index, result.Message))
		return errHalted
	}
	f.observe(time.Since(start))
	f.publish()
	return result
}

// StoreConfiguration is told of committed changes of membership. The facts know nothing of Raft's configuration; the
// method is here because Raft counts such an entry as applied only if someone asks for it, and then takes no snapshot
// until the next command.
func (f *fsm) StoreConfiguration(uint64, raft.Configuration) {}

// Snapshot returns at once: a view never changes.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	if f.halted {
		return nil, errHalted
	}
	return fsmSnapshot{f.facts.Load().View()}, nil
}

// Restore replaces the facts, or leaves them as they are. It has no other effect: it runs at every start and whenever
// a follower is far behind, so whatever it did would be done again and again.
func (f *fsm) Restore(r io.ReadCloser) error {
	facts, err := state.Load(r)
	if err = errors.Join(err, r.Close()); err != nil {
		err = fmt.Errorf("decode snapshot: %w", err)
		f.problem.Store(&err)
		return err
	}
	f.problem.Store(nil)
	f.facts.Store(facts)
	f.restores.Add(1)
	f.publish()
	return nil
}

// restoreProblem is why the last Restore failed; Raft only says that it did.
func (f *fsm) restoreProblem() error {
	if p := f.problem.Load(); p != nil {
		return *p
	}
	return nil
}

type fsmSnapshot struct{ view *state.View }

// Persist streams the view; concurrent entries do not touch it.
func (s fsmSnapshot) Persist(sink raft.SnapshotSink) error {
	if err := s.view.Save(sink); err != nil {
		return errors.Join(fmt.Errorf("write snapshot: %w", err), sink.Cancel())
	}
	return sink.Close()
}

// Release has nothing to release.
func (fsmSnapshot) Release() {}
