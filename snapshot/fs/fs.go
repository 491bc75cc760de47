package fs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	iofs "io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/snapshot"
)

// Store is a directory of objects. If the directory goes away, nothing can be put until it is back, or somebody opens it anew.
type Store struct {
	fs  vfs.FS
	dir string
	// drafts numbers the files of this process that are being written.
	drafts atomic.Uint64

	mu struct {
		sync.Mutex
		busy map[snapshot.Name]chan struct{} // being published or deleted; closed at the end
		// sound are objects whose digest was compared when their file was in that state.
		sound map[snapshot.Name]stamp
	}
}

// Open takes over a directory, which is made if it is missing: what crashed writers have left is removed. No process may
// write in it at that time.
func Open(fsys vfs.FS, dir string) (*Store, error) {
	s, err := Join(fsys, dir)
	if err != nil {
		return nil, err
	}
	if err := s.sweep(dir, 0); err != nil {
		return nil, fmt.Errorf("snapshots in %s: %w", dir, err)
	}
	return s, nil
}

// Join uses a directory that others use as well: nothing is removed.
func Join(fsys vfs.FS, dir string) (*Store, error) {
	if err := vfs.MakeDir(fsys, dir); err != nil {
		return nil, &snapshot.WriteError{Where: dir, Cause: err}
	}
	return At(fsys, dir), nil
}

// At uses a directory that its owner has made. If it is not there, nothing is found in it, and nothing can be put.
func At(fsys vfs.FS, dir string) *Store {
	s := &Store{fs: fsys, dir: dir}
	s.mu.busy = map[snapshot.Name]chan struct{}{}
	return s
}

// View looks into a directory that is there, and changes nothing.
func View(fsys vfs.FS, dir string) (*Store, error) {
	info, err := fsys.Stat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is no directory", dir)
	}
	return At(fsys, dir), nil
}

// Dir is the directory.
func (s *Store) Dir() string { return s.dir }

// depth is how many directories lie between the store's and a segment.
const depth = 3

// sweep removes what was being written, and directories that hold nothing any more.
func (s *Store) sweep(dir string, level int) error {
	list, err := s.fs.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		name := path.Join(dir, e.Name())
		switch {
		case e.IsDir() && level < depth:
			err = s.sweep(name, level+1)
		case !e.IsDir() && strings.HasSuffix(e.Name(), vfs.TempSuffix):
			err = s.fs.Remove(name)
		}
		if err != nil {
			return err
		}
	}
	if level == 0 {
		return nil
	}
	if list, err = s.fs.ReadDir(dir); err == nil && len(list) == 0 {
		err = s.fs.Remove(dir)
	}
	return err
}

// path of an object whose name was validated, without its digest.
func (s *Store) path(name snapshot.Name) string { return path.Join(s.dir, string(name)) }

// digestMark stands between the name of an object and its digest in the name of its file: both become durable in one step,
// and whoever reads the file later knows what should be in it.
const digestMark = "@"

// cut takes the name of a file apart. False: it is no object.
func cut(file string) (name snapshot.Name, digest []byte, ok bool) {
	n, d, ok := strings.Cut(file, digestMark)
	digest, err := hex.DecodeString(d)
	name = snapshot.Name(n)
	return name, digest, ok && err == nil && len(digest) == sha256.Size && name.Validate() == nil
}

// find looks for an object.
func (s *Store) find(name snapshot.Name) (*jobpb.Object, error) {
	dir := path.Dir(string(name))
	list, err := s.fs.ReadDir(path.Join(s.dir, dir))
	if err != nil && !errors.Is(err, iofs.ErrNotExist) {
		return nil, err
	}
	for _, e := range list {
		n, digest, ok := cut(path.Join(dir, e.Name()))
		if !ok || n != name || e.IsDir() {
			continue
		}
		info, err := s.fs.Stat(path.Join(s.dir, dir, e.Name()))
		if errors.Is(err, iofs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return &jobpb.Object{Name: string(name), Size: info.Size(), Digest: digest}, nil
	}
	return nil, snapshot.ErrNotFound
}

// enter waits until nobody else publishes or deletes name.
func (s *Store) enter(ctx context.Context, name snapshot.Name) (leave func(), err error) {
	for {
		s.mu.Lock()
		other := s.mu.busy[name]
		if other == nil {
			own := make(chan struct{})
			s.mu.busy[name] = own
			s.mu.Unlock()
			return func() {
				s.mu.Lock()
				delete(s.mu.busy, name)
				s.mu.Unlock()
				close(own)
			}, nil
		}
		s.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Put implements snapshot.Store.
func (s *Store) Put(ctx context.Context, name snapshot.Name, size int64, from io.Reader) (*jobpb.Object, error) {
	d, err := s.draft(name)
	if err != nil {
		return nil, err
	}
	defer d.Abort()
	if _, err := snapshot.Copy(ctx, d, from, size); err != nil {
		return nil, fmt.Errorf("put %s: %w", name, err)
	}
	return d.Commit(ctx)
}

// Draft implements snapshot.Drafter.
func (s *Store) Draft(_ context.Context, name snapshot.Name) (snapshot.Draft, error) {
	return s.draft(name)
}

func (s *Store) draft(name snapshot.Name) (*draft, error) {
	if err := name.Validate(); err != nil {
		return nil, err
	}
	to := s.path(name)
	// Of two processes that share a directory, each has names of its own.
	d := &draft{store: s, name: name, temp: to + "." + strconv.Itoa(os.Getpid()) + "-" + strconv.FormatUint(s.drafts.Add(1), 10) + vfs.TempSuffix, sum: sha256.New()}
	// A store whose directory is gone has lost what it held: to make it anew would hide that, and fill what it was mounted over.
	if _, err := s.fs.Stat(s.dir); err != nil {
		return nil, &snapshot.WriteError{Where: s.dir, Cause: fmt.Errorf("the directory of the store: %w", err)}
	}
	if err := vfs.MakeDir(s.fs, path.Dir(to)); err != nil {
		return nil, &snapshot.WriteError{Where: path.Dir(to), Cause: err}
	}
	f, err := vfs.Create(s.fs, d.temp)
	if err != nil {
		return nil, &snapshot.WriteError{Where: d.temp, Cause: err}
	}
	d.file = f
	return d, nil
}

// draft is a file that is being written. After the first failure nothing of it is published.
type draft struct {
	store *Store
	name  snapshot.Name
	temp  string
	file  vfs.File // nil: closed
	sum   hash.Hash
	size  int64
	err   error
	moved bool
}

func (d *draft) Write(p []byte) (int, error) {
	if d.err != nil {
		return 0, d.err
	}
	n, err := d.file.Write(p)
	if err != nil {
		d.err = &snapshot.WriteError{Where: d.temp, Bytes: int64(len(p)), Cause: err}
		return n, d.err
	}
	d.sum.Write(p)
	d.size += int64(len(p))
	return n, nil
}

func (d *draft) Commit(ctx context.Context) (*jobpb.Object, error) {
	if d.err != nil {
		return nil, d.err
	}
	if d.file == nil {
		return nil, fmt.Errorf("put %s: committed or given up already", d.name)
	}
	err := d.file.Sync()
	err = errors.Join(err, d.file.Close())
	d.file = nil
	if err != nil {
		d.err = &snapshot.WriteError{Where: d.temp, Bytes: d.size, Cause: err}
		return nil, d.err
	}
	o := &jobpb.Object{Name: string(d.name), Size: d.size, Digest: d.sum.Sum(nil)}
	leave, err := d.store.enter(ctx, d.name)
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := d.publish(o); err != nil {
		return nil, err
	}
	return o, nil
}

// publish gives the file its name. An object that is there and equal is left, and its name made durable: whoever wrote it
// may have failed at that.
func (d *draft) publish(o *jobpb.Object) error {
	to := d.store.path(d.name) + digestMark + hex.EncodeToString(o.Digest)
	old, err := d.store.find(d.name)
	switch {
	case err == nil:
		if !bytes.Equal(old.Digest, o.Digest) || old.Size != o.Size {
			return fmt.Errorf("put %s: %w", d.name, snapshot.ErrExists)
		}
		_ = d.store.fs.Remove(d.temp) // if it stays, the next Open of the directory removes it
		d.moved = true
	case errors.Is(err, snapshot.ErrNotFound):
		if err := d.store.fs.Rename(d.temp, to); err != nil {
			return &snapshot.WriteError{Where: to, Bytes: d.size, Cause: err}
		}
		d.moved = true
	default:
		return fmt.Errorf("put %s: %w", d.name, err)
	}
	if err := d.store.fs.SyncDir(path.Dir(to)); err != nil {
		return &snapshot.WriteError{Where: path.Dir(to), Cause: err}
	}
	return nil
}

// Abort removes the file. What it cannot remove is removed when the directory is opened next.
func (d *draft) Abort() {
	if d.file != nil {
		_ = d.file.Close()
		d.file = nil
	}
	if !d.moved {
		_ = d.store.fs.Remove(d.temp)
		d.moved = true
	}
	if d.err == nil {
		d.err = fmt.Errorf("put %s: given up", d.name)
	}
}

// Open implements snapshot.Store.
func (s *Store) Open(_ context.Context, name snapshot.Name) (snapshot.Reader, error) {
	if err := name.Validate(); err != nil {
		return nil, err
	}
	o, err := s.find(name)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	f, err := vfs.Open(s.fs, s.file(o))
	if errors.Is(err, iofs.ErrNotExist) {
		return nil, fmt.Errorf("open %s: %w", name, snapshot.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	return &reader{f, o.Size}, nil
}

// file is the path of an object that was found.
func (s *Store) file(o *jobpb.Object) string {
	return path.Join(s.dir, o.Name) + digestMark + hex.EncodeToString(o.Digest)
}

type reader struct {
	vfs.File
	size int64
}

func (r *reader) Size() int64 { return r.size }

// Delete implements snapshot.Store.
func (s *Store) Delete(ctx context.Context, names ...snapshot.Name) error {
	dirs := map[string]bool{}
	for _, n := range names {
		if err := n.Validate(); err != nil {
			return err
		}
		leave, err := s.enter(ctx, n)
		if err != nil {
			return err
		}
		o, err := s.find(n)
		if err == nil {
			err = s.fs.Remove(s.file(o))
		}
		leave()
		if err != nil && !errors.Is(err, iofs.ErrNotExist) && !errors.Is(err, snapshot.ErrNotFound) {
			return fmt.Errorf("delete %s: %w", n, err)
		}
		dirs[path.Dir(s.path(n))] = true // also if it was not there: a removal before may not be durable
	}
	for dir := range dirs {
		if err := s.fs.SyncDir(dir); err != nil && !errors.Is(err, iofs.ErrNotExist) {
			return fmt.Errorf("delete objects in %s: %w", dir, err)
		}
	}
	return nil
}

// List implements snapshot.Store, with digests. Files with other names than those of objects are no objects.
func (s *Store) List(ctx context.Context, prefix string, each func(*jobpb.Object) error) error {
	return s.list(ctx, "", prefix, each)
}

func (s *Store) list(ctx context.Context, below, prefix string, each func(*jobpb.Object) error) error {
	list, err := s.fs.ReadDir(path.Join(s.dir, below))
	if errors.Is(err, iofs.ErrNotExist) { // removed meanwhile
		return nil
	}
	if err != nil {
		return fmt.Errorf("list objects: %w", err)
	}
	sortAsNames(list)
	for _, e := range list {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		name := path.Join(below, e.Name())
		switch {
		case e.IsDir():
			under := name + "/"
			if strings.Count(name, "/") < depth && (strings.HasPrefix(under, prefix) || strings.HasPrefix(prefix, under)) {
				err = s.list(ctx, name, prefix, each)
			}
		case strings.HasPrefix(name, prefix):
			err = s.one(name, each)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) one(file string, each func(*jobpb.Object) error) error {
	name, digest, ok := cut(file)
	if !ok {
		return nil
	}
	info, err := s.fs.Stat(path.Join(s.dir, file))
	if errors.Is(err, iofs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list objects: %w", err)
	}
	return each(&jobpb.Object{Name: string(name), Size: info.Size(), Digest: digest})
}

// Others are the files below the directory that are no objects, by their paths below it: those that are being written, and what does
// not belong there.
func (s *Store) Others(ctx context.Context) ([]string, error) {
	var files []string
	err := s.others(ctx, "", &files)
	return files, err
}

func (s *Store) others(ctx context.Context, below string, files *[]string) error {
	list, err := s.fs.ReadDir(path.Join(s.dir, below))
	if errors.Is(err, iofs.ErrNotExist) { // removed meanwhile
		return nil
	}
	if err != nil {
		return fmt.Errorf("list files: %w", err)
	}
	for _, e := range list {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		name := path.Join(below, e.Name())
		if e.IsDir() {
			if err := s.others(ctx, name, files); err != nil {
				return err
			}
		} else if _, _, ok := cut(name); !ok {
			*files = append(*files, name)
		}
	}
	return nil
}
