package state

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/snapshot/chunk"
	"github.com/sluiceio/sluice/worker/state/budget"
	"github.com/sluiceio/sluice/worker/state/epoch"
)

// Spaces is keyed state in namespaces: a Directory for each window or pane, which comes and goes as a whole. H is what
// the operator declares in each, its handles.
//
// One table keyed by (namespace, key) would do the same; it is two times slower, because a record of the current window
// looks for its key among those of all windows, and dropping a window would name its keys one by one.
type Spaces[K comparable, H any] struct {
	opts    Options
	first   int // own key groups
	end     int
	declare func(*Directory[K]) (H, error)
	epochs  *epoch.Epochs
	share   *budget.Share
	own     *budget.Share // the part for what is not in a namespace
	floor   uint32        // the oldest undecided epoch
	header  chunk.Header

	open map[int64]*Space[K, H]
	ids  []int64 // of open, ascending
	// By segment: spaces that were dropped in it, and wait for what becomes of the epoch.
	dropped [][]*Space[K, H]
	over    []*Space[K, H] // to be closed
	turn    int            // which space is maintained next
	newest  *Space[K, H]   // that was looked up; nil: none
	bytes   int            // of all spaces, as they were when they were last looked after
	err     error
}

// Space is one namespace.
type Space[K comparable, H any] struct {
	ID int64
	// Dir finds the keys. Checkpoints belong to the Spaces, not to it.
	Dir     *Directory[K]
	Handles H
	born    uint32 // epoch
	bytes   int    // as it was counted
}

// NewSpaces makes state without namespaces, for the key groups in [first, end). declare declares the states of each; they
// are the same every time.
func NewSpaces[K comparable, H any](o Options, first, end int, declare func(*Directory[K]) (H, error)) (*Spaces[K, H], error) {
	o.Space, o.Small = "i64", true
	s := &Spaces[K, H]{opts: o, first: first, end: end, declare: declare, open: map[int64]*Space[K, H]{}, dropped: make([][]*Space[K, H], 1)}
	if o.Budget != nil && o.Overflow != nil {
		s.share = o.Budget.Open(budget.Yielding)
		s.opts.Share, s.own = s.share, s.share.Part()
	}
	s.epochs = epoch.New(epoch.Config{Tracking: o.Checkpoints, Header: func() chunk.Header { return s.header }, Store: o.Overflow})
	s.floor = s.epochs.Now()
	s.epochs.Join((*follower[K, H])(s))
	model, err := s.make(0)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.header = model.Dir.Header()
	return s, model.Dir.t.Close()
}

func (s *Spaces[K, H]) make(id int64) (*Space[K, H], error) {
	sp := &Space[K, H]{ID: id, Dir: &Directory[K]{}, born: s.epochs.Now()}
	if err := sp.Dir.init(s.opts, s.epochs); err != nil {
		return nil, err
	}
	sp.Dir.t.Space, sp.Dir.t.Above = binary.AppendVarint(nil, id), &s.err
	var err error
	sp.Handles, err = s.declare(sp.Dir)
	return sp, err
}

// Open is the namespace with this id, a new one if there is none. It fails only if declare does.
func (s *Spaces[K, H]) Open(id int64) (*Space[K, H], error) {
	if sp := s.open[id]; sp != nil {
		s.newest = sp
		return sp, nil
	}
	sp, err := s.make(id)
	if err != nil {
		return nil, fmt.Errorf("open namespace %d: %w", id, err)
	}
	s.insert(sp)
	s.newest = sp
	s.count(sp)
	return sp, nil
}

// count takes note of the size of a space. All of them together are never looked at: there may be a hundred thousand.
func (s *Spaces[K, H]) count(sp *Space[K, H]) {
	now := sp.Dir.Bytes()
	s.bytes += now - sp.bytes
	sp.bytes = now
}

func (s *Spaces[K, H]) insert(sp *Space[K, H]) {
	s.open[sp.ID] = sp
	i, _ := slices.BinarySearch(s.ids, sp.ID)
	s.ids = slices.Insert(s.ids, i, sp.ID)
}

func (s *Spaces[K, H]) take(sp *Space[K, H]) {
	delete(s.open, sp.ID)
	if i, ok := slices.BinarySearch(s.ids, sp.ID); ok {
		s.ids = slices.Delete(s.ids, i, i+1)
	}
}

// Find is the namespace with this id; nil if it is not open.
func (s *Spaces[K, H]) Find(id int64) *Space[K, H] {
	sp := s.open[id]
	if sp != nil {
		s.newest = sp
	}
	return sp
}

// Len is the number of namespaces.
func (s *Spaces[K, H]) Len() int { return len(s.ids) }

// All yields the namespaces in ascending order of their ids. The loop may drop them.
func (s *Spaces[K, H]) All() iter.Seq[*Space[K, H]] {
	return func(yield func(*Space[K, H]) bool) {
		for _, id := range slices.Clone(s.ids) {
			if sp := s.open[id]; sp != nil && !yield(sp) {
				return
			}
		}
	}
}

// Drop ends a namespace with all that is in it. It costs the same whatever that is.
func (s *Spaces[K, H]) Drop(sp *Space[K, H]) {
	if s.open[sp.ID] != sp {
		return
	}
	s.take(sp)
	if !s.epochs.Tracking() || sp.born == s.epochs.Now() && !sp.Dir.t.Evicted() {
		s.over = append(s.over, sp) // no epoch but this one knows it
		s.bury()
		return
	}
	sp.Dir.t.Mute()
	i := s.epochs.Open()
	s.dropped[i] = append(s.dropped[i], sp)
	e := chunk.Entry{Op: chunk.Drop, Space: sp.Dir.t.Space}
	for e.Group = s.first; e.Group < s.end; e.Group++ {
		s.fail(s.epochs.Journal(i, &e))
	}
}

// bury closes what nothing can bring back.
func (s *Spaces[K, H]) bury() {
	for _, sp := range s.over {
		s.fail(sp.Dir.t.Close())
		s.bytes -= sp.bytes
		if s.newest == sp {
			s.newest = nil
		}
	}
	s.over = nil
}

func (s *Spaces[K, H]) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// Err is the first failure.
func (s *Spaces[K, H]) Err() error { return s.err }

// Freeze is that of Directory, for all namespaces.
func (s *Spaces[K, H]) Freeze(id element.CheckpointID, extent Extent) (*Snapshot, error) {
	if extent == Full && slices.ContainsFunc(s.ids, func(id int64) bool { return s.open[id].Dir.t.Evicted() }) {
		extent = Delta
	}
	return s.epochs.Freeze(id, extent)
}

// Completed is that of Directory.
func (s *Spaces[K, H]) Completed(id element.CheckpointID) {
	s.fail(s.epochs.Completed(id))
	s.floor = s.epochs.First()
	s.bury()
}

// Aborted is that of Directory.
func (s *Spaces[K, H]) Aborted(id element.CheckpointID) { s.fail(s.epochs.Aborted(id)) }

// Base is that of Directory.
func (s *Spaces[K, H]) Base() element.CheckpointID { return s.epochs.Base() }

// Rewind is that of Directory: namespaces that were dropped since are open again, those that came since are gone.
func (s *Spaces[K, H]) Rewind(id element.CheckpointID) error {
	if err := s.epochs.Rewind(id); err != nil {
		return err
	}
	s.floor = s.epochs.First()
	s.bury()
	return s.Err()
}

// Import is that of Directory.
func (s *Spaces[K, H]) Import(ctx context.Context, chain []*chunk.Reader, first, end int) error {
	if s.epochs.Last() != 0 {
		return fmt.Errorf("import into namespaces that stand at checkpoint %d", s.epochs.Last())
	}
	chain = slices.DeleteFunc(slices.Clone(chain), func(r *chunk.Reader) bool { return r.Header().Table != s.opts.Table })
	type source struct {
		space int64
		chunk int
	}
	importers := map[source]*importer[K]{}
	return chunk.ReadAhead(ctx, chain, first, end, func(i int, e *chunk.Entry) error {
		id, n := binary.Varint(e.Space)
		if n <= 0 || n != len(e.Space) {
			return fmt.Errorf("%w: namespace %x", chunk.ErrCorrupt, e.Space)
		}
		im := importers[source{id, i}]
		if im == nil {
			sp, err := s.Open(id)
			if err != nil {
				return err
			}
			if !sp.Dir.t.Sealed() {
				sp.Dir.t.Seal()
			}
			if im, err = newImporter(sp.Dir, chain[i].Header()); err != nil {
				return sp.Dir.t.Fault(CodeFit, "", err)
			}
			importers[source{id, i}] = im
		}
		return im.take(e)
	})
}

// Restored is that of Directory.
func (s *Spaces[K, H]) Restored(id element.CheckpointID) {
	s.epochs.Restored(id)
	for _, sp := range s.open {
		sp.born = 0
		sp.Dir.t.Settle()
	}
}

// maintainAtOnce is how many namespaces are looked after at a time.
const maintainAtOnce = 8

// Maintain is that of Directory, for some of the namespaces at a time.
func (s *Spaces[K, H]) Maintain(work int) error {
	for range min(maintainAtOnce, len(s.ids)) {
		s.turn = (s.turn + 1) % len(s.ids)
		sp := s.open[s.ids[s.turn]]
		sp.Dir.t.Maintain(work)
		s.count(sp)
	}
	s.own.Set(int64(s.epochs.Bytes((*follower[K, H])(s))))
	return s.Err()
}

// Bytes is that of Directory. Each namespace counts with what it had when it was last looked after, dropped ones until the
// epoch is decided.
func (s *Spaces[K, H]) Bytes() int {
	if s.newest != nil {
		s.count(s.newest)
	}
	return s.bytes + s.epochs.Bytes((*follower[K, H])(s))
}

// Header describes the chunks.
func (s *Spaces[K, H]) Header() chunk.Header { return s.header }

// Close is that of Directory.
func (s *Spaces[K, H]) Close() error {
	errs := []error{s.epochs.Close()}
	for _, sp := range s.open {
		errs = append(errs, sp.Dir.t.Close())
	}
	for _, list := range s.dropped {
		for _, sp := range list {
			errs = append(errs, sp.Dir.t.Close())
		}
	}
	s.open, s.ids, s.dropped = nil, nil, nil
	s.own.Close()
	s.share.Close()
	return errors.Join(errs...)
}

// follower is Spaces in its role as epoch.Member. Members must not leave while they are being told of something: what goes
// is closed afterwards.
type follower[K comparable, H any] Spaces[K, H]

func (f *follower[K, H]) Freeze() { f.dropped = append(f.dropped, nil) }

func (f *follower[K, H]) Drop(n int) {
	for _, list := range f.dropped[:n] {
		f.over = append(f.over, list...)
	}
	f.dropped = slices.Delete(f.dropped, 0, n)
}

func (f *follower[K, H]) Merge(i int) {
	f.dropped[i] = append(f.dropped[i], f.dropped[i+1]...)
	f.dropped = slices.Delete(f.dropped, i+1, i+2)
}

func (f *follower[K, H]) Rewind() {
	s := (*Spaces[K, H])(f)
	for _, sp := range s.open {
		if sp.born >= s.floor {
			s.over = append(s.over, sp)
		}
	}
	for _, sp := range s.over {
		s.take(sp)
	}
	for _, list := range s.dropped {
		for _, sp := range list {
			if sp.born >= s.floor {
				s.over = append(s.over, sp)
				continue
			}
			sp.Dir.t.Unmute()
			s.insert(sp)
		}
	}
	s.dropped = make([][]*Space[K, H], 1)
}

func (f *follower[K, H]) Sweepers(list []epoch.Sweeper) []epoch.Sweeper { return list }
