package stored

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/shuffle/stored/partition"
)

// Name is the full name of a partition.
type Name = partition.Name

// Found is a finished partition in a store.
type Found struct {
	Name  Name
	Bytes int64 // on disk, index included
}

// Store is a directory of partitions. It may be used from any goroutine, and several stores, in several processes, may
// share a directory as long as one of them alone was opened by Open: that one owns it.
type Store struct {
	fs  vfs.FS
	dir string
	bad []*LostError // what Open could not take over

	mu struct {
		sync.Mutex
		known   map[Name]int64 // bytes
		bytes   int64          // of all known
		watches map[Name]*watch
	}
}

// watch is a partition that somebody waits for.
type watch struct {
	done    chan struct{} // closed when it is there, or dropped
	dropped bool          // written before done is closed
	waiting int
}

func newStore(fsys vfs.FS, dir string) (*Store, error) {
	if err := vfs.MakeDir(fsys, dir); err != nil {
		return nil, &WriteError{Path: dir, Cause: err}
	}
	s := &Store{fs: fsys, dir: dir}
	s.mu.known, s.mu.watches = map[Name]int64{}, map[Name]*watch{}
	return s, nil
}

// Open takes over a directory, which is made if it is missing: what unfinished attempts have left is removed, and
// finished partitions are found. No process may write in it at that time.
func Open(fsys vfs.FS, dir string) (*Store, error) {
	s, err := newStore(fsys, dir)
	if err != nil {
		return nil, err
	}
	if err := s.discover(); err != nil {
		return nil, fmt.Errorf("stored results in %s: %w", dir, err)
	}
	return s, nil
}

// Join uses a directory that another process owns: nothing is removed or looked for.
func Join(fsys vfs.FS, dir string) (*Store, error) { return newStore(fsys, dir) }

// Damaged lists what Open has found and could not take over: files that were finished and cannot be read.
func (s *Store) Damaged() []*LostError { return s.bad }

// Inventory lists the finished partitions that this store knows of, in the order of their names: those that Open has
// found, those that were published through this store, and those of Learn.
func (s *Store) Inventory() []Found {
	s.mu.Lock()
	all := make([]Found, 0, len(s.mu.known))
	for n, bytes := range s.mu.known {
		all = append(all, Found{n, bytes})
	}
	s.mu.Unlock()
	slices.SortFunc(all, func(a, b Found) int { return a.Name.Compare(b.Name) })
	return all
}

// Usage is the number of partitions that Inventory would list, and their size together.
func (s *Store) Usage() (partitions int, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.known), s.mu.bytes
}

// Learn notes partitions that another process has published, and wakes whoever waits for them.
func (s *Store) Learn(found ...Found) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range found {
		s.mu.bytes += f.Bytes - s.mu.known[f.Name]
		s.mu.known[f.Name] = f.Bytes
		s.wake(f.Name, false)
	}
}

// forget takes partitions off the books. Whoever waits for one of them waits in vain.
func (s *Store) forget(is func(Name) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, bytes := range s.mu.known {
		if is(n) {
			delete(s.mu.known, n)
			s.mu.bytes -= bytes
		}
	}
	for n := range s.mu.watches {
		if is(n) {
			s.wake(n, true)
		}
	}
}

// wake ends the wait for a partition. The lock is held.
func (s *Store) wake(n Name, dropped bool) {
	if w := s.mu.watches[n]; w != nil {
		w.dropped = dropped
		close(w.done)
		delete(s.mu.watches, n)
	}
}

// Pauses between two looks for a partition that another process may have published.
const (
	firstLook = 5 * time.Millisecond
	lastLook  = 200 * time.Millisecond
)

var errDropped = errors.New("it was dropped, because nobody needs it")

// Wait blocks until the partition is finished. It fails when ctx ends or when the partition is dropped meanwhile.
//
// The directory is looked at now and then besides: the producer may be another process of this machine, of which this
// store hears late or never.
func (s *Store) Wait(ctx context.Context, n Name) error {
	w, known := s.watch(n)
	if known {
		return nil
	}
	defer s.unwatch(n, w)
	for look := firstLook; ; look = min(2*look, lastLook) {
		_, err := s.fs.Stat(s.path(n, partition.IndexSuffix))
		if err == nil {
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return lossOf(n, err)
		}
		timer := time.NewTimer(look)
		select {
		case <-timer.C:
			continue
		case <-w.done:
			timer.Stop()
			if w.dropped {
				return &LostError{Name: n, Cause: errDropped}
			}
			return nil
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

func (s *Store) watch(n Name) (w *watch, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.mu.known[n]; known {
		return nil, true
	}
	w = s.mu.watches[n]
	if w == nil {
		w = &watch{done: make(chan struct{})}
		s.mu.watches[n] = w
	}
	w.waiting++
	return w, false
}

func (s *Store) unwatch(n Name, w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.waiting--; w.waiting == 0 && s.mu.watches[n] == w {
		delete(s.mu.watches, n)
	}
}

func (s *Store) path(n Name, suffix string) string { return path.Join(s.dir, n.Path()) + suffix }

// opened is a finished partition that is being read.
type opened struct {
	*partition.Summary
	index, data vfs.File
}

// open opens a partition. Whoever has it open reads on, even if it is dropped meanwhile.
func (s *Store) open(n Name) (_ *opened, err error) {
	o := &opened{}
	defer func() {
		if err != nil {
			err = lossOf(n, errors.Join(err, o.close()))
		}
	}()
	if o.index, err = vfs.Open(s.fs, s.path(n, partition.IndexSuffix)); err != nil {
		return nil, err
	}
	info, err := o.index.Stat()
	if err != nil {
		return nil, err
	}
	if o.Summary, err = partition.ReadSummary(o.index, info.Size()); err != nil {
		return nil, err
	}
	if o.Name != n {
		return nil, fmt.Errorf("%w: the index is that of the %s", partition.ErrCorrupt, o.Name)
	}
	if o.data, err = vfs.Open(s.fs, s.path(n, partition.DataSuffix)); err != nil {
		return nil, err
	}
	if info, err = o.data.Stat(); err != nil {
		return nil, err
	}
	return o, o.CheckData(o.data, info.Size())
}

func (o *opened) close() error {
	var err error
	for _, f := range []vfs.File{o.index, o.data} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}

// scarce are failures that say something about this process or machine, not about the file.
var scarce = []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EINTR, syscall.EAGAIN}

// lossOf makes a failure to read a partition its loss, unless it may well be read a moment later.
func lossOf(n Name, err error) error {
	for _, s := range scarce {
		if errors.Is(err, s) {
			return fmt.Errorf("read %s: %w", n, err)
		}
	}
	return &LostError{Name: n, Cause: err}
}

// ---------------------------------------------------------------- finding

// discover goes through the directory.
func (s *Store) discover() error {
	jobs, err := s.fs.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, job := range jobs {
		dir := path.Join(s.dir, job.Name())
		switch {
		case strings.HasSuffix(job.Name(), vfs.TempSuffix): // a drop that was cut short
			err = s.fs.RemoveAll(dir)
		case job.IsDir() && partition.ValidateJob(job.Name()) == nil:
			err = s.discoverJob(job.Name(), dir)
		default:
			err = nil // not ours
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) discoverJob(job, dir string) error {
	regions, err := s.fs.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, region := range regions {
		if region.IsDir() {
			if err := s.discoverRegion(job, region.Name()); err != nil {
				return err
			}
		}
	}
	_ = s.fs.Remove(dir) // if it is empty
	return nil
}

func (s *Store) discoverRegion(job, region string) error {
	dir := path.Join(s.dir, job, region)
	files, err := s.fs.ReadDir(dir)
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, f := range files {
		there[f.Name()] = true
	}
	for _, f := range files {
		base, isData := strings.CutSuffix(f.Name(), partition.DataSuffix)
		_, named := partition.ParsePath(job, region, base)
		if strings.HasSuffix(f.Name(), vfs.TempSuffix) || isData && named && !there[base+partition.IndexSuffix] {
			if err := s.fs.Remove(path.Join(dir, f.Name())); err != nil {
				return err
			}
			continue
		}
		if base, ok := strings.CutSuffix(f.Name(), partition.IndexSuffix); ok {
			if n, ok := partition.ParsePath(job, region, base); ok {
				if err := s.take(n); err != nil {
					return err
				}
			}
		}
	}
	_ = s.fs.Remove(dir) // if it is empty
	return nil
}

// take notes a partition that was found, if it is sound as far as can be seen without reading it.
func (s *Store) take(n Name) error {
	o, err := s.open(n)
	var lost *LostError
	if errors.As(err, &lost) {
		s.bad = append(s.bad, lost)
		return nil
	}
	if err != nil {
		return err
	}
	s.mu.known[n] = o.DataBytes + o.IndexBytes()
	s.mu.bytes += s.mu.known[n]
	return o.close()
}

// ---------------------------------------------------------------- dropping

// Drop deletes partitions durably; those that are not there are fine. Readers that have one open read on.
//
// The index goes first, and for good, so that no crash leaves one without its data.
func (s *Store) Drop(names ...Name) error {
	dirs := map[string][]Name{}
	doomed := make(map[Name]bool, len(names))
	var err error
	for _, n := range names {
		if bad := n.Validate(); bad != nil {
			err = errors.Join(err, fmt.Errorf("drop %s: %w", n, bad))
			continue
		}
		dirs[n.Dir()] = append(dirs[n.Dir()], n)
		doomed[n] = true
	}
	s.forget(func(n Name) bool { return doomed[n] })
	for dir, names := range dirs {
		if bad := s.dropFrom(path.Join(s.dir, dir), names); bad != nil {
			err = errors.Join(err, fmt.Errorf("drop results of job %s: %w", names[0].Job, bad))
		}
	}
	return err
}

// Abandon is Drop for partitions whose writers are no more, finished or not: it also removes what they have not
// published.
func (s *Store) Abandon(names ...Name) error {
	var err error
	for _, n := range names {
		if n.Validate() != nil {
			continue // Drop says it
		}
		for _, suffix := range []string{partition.IndexSuffix, partition.DataSuffix} {
			if bad := s.fs.Remove(s.path(n, suffix+vfs.TempSuffix)); bad != nil && !errors.Is(bad, fs.ErrNotExist) {
				err = errors.Join(err, bad)
			}
		}
	}
	return errors.Join(err, s.Drop(names...))
}

func (s *Store) dropFrom(dir string, names []Name) error {
	for _, suffix := range []string{partition.IndexSuffix, partition.DataSuffix} {
		for _, n := range names {
			if err := s.fs.Remove(s.path(n, suffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		if err := s.fs.SyncDir(dir); errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
	}
	_ = s.fs.Remove(dir)           // if it is empty
	_ = s.fs.Remove(path.Dir(dir)) // likewise
	return nil
}

// DropJob deletes every partition of a job durably.
func (s *Store) DropJob(job string) error {
	if err := partition.ValidateJob(job); err != nil {
		return fmt.Errorf("drop results: %w", err)
	}
	s.forget(func(n Name) bool { return n.Job == job })
	if err := s.dropJob(path.Join(s.dir, job)); err != nil {
		return fmt.Errorf("drop results of job %s: %w", job, err)
	}
	return nil
}

// dropJob takes the whole directory out of sight in one step; a crash in the middle is finished by Open.
func (s *Store) dropJob(dir string) error {
	doomed := dir + vfs.TempSuffix
	if err := s.fs.RemoveAll(doomed); err != nil {
		return err
	}
	if err := s.fs.Rename(dir, doomed); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := s.fs.SyncDir(s.dir); err != nil {
		return err
	}
	return s.fs.RemoveAll(doomed)
}
