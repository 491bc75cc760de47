package state

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/snapshot/chunk"
	"github.com/sluiceio/sluice/worker/state/budget"
	"github.com/sluiceio/sluice/worker/state/column"
	"github.com/sluiceio/sluice/worker/state/epoch"
)

// spaces are the namespaces of a table, whatever their keys and handles are.
type spaces struct {
	opts   Options
	first  int // own key groups
	end    int
	build  func(id int64) (*space, error)
	epochs *epoch.Epochs
	share  *budget.Share
	own    *budget.Share // the part for what is not in a namespace
	floor  uint32        // the oldest undecided epoch
	header chunk.Header

	open map[int64]*space
	ids  []int64 // of open, ascending
	// By segment: spaces that were dropped in it, and wait for what becomes of the epoch.
	dropped [][]*space
	over    []*space // to be closed
	turn    int      // which space is maintained next
	newest  *space   // that was looked up; nil: none
	bytes   int      // of all spaces, as they were when they were last looked after
	err     error
}

// space is a namespace, whatever its keys and handles are.
type space struct {
	id    int64
	t     *column.Table
	self  any // the *Space that it is the core of
	dir   *directory
	born  uint32 // epoch
	bytes int    // as it was counted
}

func newSpaces(o Options, first, end int, build func(id int64) (*space, error)) *spaces {
	o.Space, o.Small = "i64", true
	s := &spaces{opts: o, first: first, end: end, build: build, open: map[int64]*space{}, dropped: make([][]*space, 1)}
	if o.Budget != nil && o.Overflow != nil {
		s.share = o.Budget.Open(budget.Yielding)
		s.opts.Share, s.own = s.share, s.share.Part()
	}
	s.epochs = epoch.New(epoch.Config{Tracking: o.Checkpoints, Header: func() chunk.Header { return s.header }, Store: o.Overflow})
	s.floor = s.epochs.Now()
	s.epochs.Join((*follower)(s))
	return s
}

// model finds out what the namespaces are like, by one that is never open.
func (s *spaces) model() error {
	model, err := s.build(0)
	if err != nil {
		return errors.Join(err, s.Close())
	}
	s.header = model.dir.Header()
	return model.t.Close()
}

// adopt makes a namespace with this id of sp, whose table is t.
func (s *spaces) adopt(sp *space, id int64, t *column.Table) {
	t.Space, t.Above = binary.AppendVarint(nil, id), &s.err
	sp.id, sp.t, sp.born = id, t, s.epochs.Now()
}

func (s *spaces) get(id int64) (*space, error) {
	if sp := s.find(id); sp != nil {
		return sp, nil
	}
	sp, err := s.build(id)
	if err != nil {
		return nil, fmt.Errorf("open namespace %d: %w", id, err)
	}
	s.insert(sp)
	s.newest = sp
	s.count(sp)
	return sp, nil
}

func (s *spaces) find(id int64) *space {
	sp := s.open[id]
	if sp != nil {
		s.newest = sp
	}
	return sp
}

func (s *spaces) each(yield func(*space) bool) {
	for _, id := range slices.Clone(s.ids) {
		if sp := s.open[id]; sp != nil && !yield(sp) {
			return
		}
	}
}

// count takes note of the size of a space. All of them together are never looked at: there may be a hundred thousand.
func (s *spaces) count(sp *space) {
	now := sp.t.Bytes()
	s.bytes += now - sp.bytes
	sp.bytes = now
}

func (s *spaces) insert(sp *space) {
	s.open[sp.id] = sp
	i, _ := slices.BinarySearch(s.ids, sp.id)
	s.ids = slices.Insert(s.ids, i, sp.id)
}

func (s *spaces) take(sp *space) {
	delete(s.open, sp.id)
	if i, ok := slices.BinarySearch(s.ids, sp.id); ok {
		s.ids = slices.Delete(s.ids, i, i+1)
	}
}

func (s *spaces) drop(sp *space) {
	if s.open[sp.id] != sp {
		return
	}
	s.take(sp)
	if !s.epochs.Tracking() || sp.born == s.epochs.Now() && !sp.t.Evicted() {
		s.over = append(s.over, sp) // no epoch but this one knows it
		s.bury()
		return
	}
	sp.t.Mute()
	i := s.epochs.Open()
	s.dropped[i] = append(s.dropped[i], sp)
	e := chunk.Entry{Op: chunk.Drop, Space: sp.t.Space}
	for e.Group = s.first; e.Group < s.end; e.Group++ {
		s.fail(s.epochs.Journal(i, &e))
	}
}

// bury closes what nothing can bring back.
func (s *spaces) bury() {
	for _, sp := range s.over {
		s.fail(sp.t.Close())
		s.bytes -= sp.bytes
		if s.newest == sp {
			s.newest = nil
		}
	}
	s.over = nil
}

func (s *spaces) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// Err is the first failure.
func (s *spaces) Err() error { return s.err }

// Freeze is that of Directory, for all namespaces.
func (s *spaces) Freeze(id element.CheckpointID, extent Extent) (*Snapshot, error) {
	if extent == Full && slices.ContainsFunc(s.ids, func(id int64) bool { return s.open[id].t.Evicted() }) {
		extent = Delta
	}
	return s.epochs.Freeze(id, extent)
}

// Completed is that of Directory.
func (s *spaces) Completed(id element.CheckpointID) {
	s.fail(s.epochs.Completed(id))
	s.floor = s.epochs.First()
	s.bury()
}

// Aborted is that of Directory.
func (s *spaces) Aborted(id element.CheckpointID) { s.fail(s.epochs.Aborted(id)) }

// Base is that of Directory.
func (s *spaces) Base() element.CheckpointID { return s.epochs.Base() }

// Rewind is that of Directory: namespaces that were dropped since are open again, those that came since are gone.
func (s *spaces) Rewind(id element.CheckpointID) error {
	if err := s.epochs.Rewind(id); err != nil {
		return err
	}
	s.floor = s.epochs.First()
	s.bury()
	return s.Err()
}

// Import is that of Directory.
func (s *spaces) Import(ctx context.Context, chain []*chunk.Reader, first, end int) error {
	if s.epochs.Last() != 0 {
		return fmt.Errorf("import into namespaces that stand at checkpoint %d", s.epochs.Last())
	}
	chain = slices.DeleteFunc(slices.Clone(chain), func(r *chunk.Reader) bool { return r.Header().Table != s.opts.Table })
	type source struct {
		space int64
		chunk int
	}
	takers := map[source]taker{}
	return chunk.ReadAhead(ctx, chain, first, end, func(i int, e *chunk.Entry) error {
		id, n := binary.Varint(e.Space)
		if n <= 0 || n != len(e.Space) {
			return fmt.Errorf("%w: namespace %x", chunk.ErrCorrupt, e.Space)
		}
		take := takers[source{id, i}]
		if take == nil {
			sp, err := s.get(id)
			if err != nil {
				return err
			}
			if !sp.t.Sealed() {
				sp.t.Seal()
			}
			if take, err = sp.dir.importer(chain[i].Header()); err != nil {
				return sp.t.Fault(CodeFit, "", err)
			}
			takers[source{id, i}] = take
		}
		return take(e)
	})
}

// Restored is that of Directory.
func (s *spaces) Restored(id element.CheckpointID) {
	s.epochs.Restored(id)
	for _, sp := range s.open {
		sp.born = 0
		sp.t.Settle()
	}
}

// maintainAtOnce is how many namespaces are looked after at a time.
const maintainAtOnce = 8

// Maintain is that of Directory, for some of the namespaces at a time.
func (s *spaces) Maintain(work int) error {
	for range min(maintainAtOnce, len(s.ids)) {
		s.turn = (s.turn + 1) % len(s.ids)
		sp := s.open[s.ids[s.turn]]
		sp.t.Maintain(work)
		s.count(sp)
	}
	s.own.Set(int64(s.epochs.Bytes((*follower)(s))))
	return s.Err()
}

// Bytes is that of Directory. Each namespace counts with what it had when it was last looked after, dropped ones until the
// epoch is decided.
func (s *spaces) Bytes() int {
	if s.newest != nil {
		s.count(s.newest)
	}
	return s.bytes + s.epochs.Bytes((*follower)(s))
}

// Header describes the chunks.
func (s *spaces) Header() chunk.Header { return s.header }

// Close is that of Directory.
func (s *spaces) Close() error {
	errs := []error{s.epochs.Close()}
	for _, sp := range s.open {
		errs = append(errs, sp.t.Close())
	}
	for _, list := range s.dropped {
		for _, sp := range list {
			errs = append(errs, sp.t.Close())
		}
	}
	s.open, s.ids, s.dropped = nil, nil, nil
	s.own.Close()
	s.share.Close()
	return errors.Join(errs...)
}

// follower is spaces in their role as epoch.Member. Members must not leave while they are being told of something: what goes
// is closed afterwards.
type follower spaces

func (f *follower) Freeze() { f.dropped = append(f.dropped, nil) }

func (f *follower) Drop(n int) {
	for _, list := range f.dropped[:n] {
		f.over = append(f.over, list...)
	}
	f.dropped = slices.Delete(f.dropped, 0, n)
}

func (f *follower) Merge(i int) {
	f.dropped[i] = append(f.dropped[i], f.dropped[i+1]...)
	f.dropped = slices.Delete(f.dropped, i+1, i+2)
}

func (f *follower) Rewind() {
	s := (*spaces)(f)
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
			sp.t.Unmute()
			s.insert(sp)
		}
	}
	s.dropped = make([][]*space, 1)
}

func (f *follower) Sweepers(list []epoch.Sweeper) []epoch.Sweeper { return list }
