// Package fs is a store in a directory: a worker's own, that of an embedded job, or one that all machines share.
//
// An object is written under incoming/, synced, and renamed to its name: a name that is there is complete. Whoever owns the
// directory alone clears what was left under incoming/ (Clear); several processes may use one store at the same time.
//
// Never here: copies in other stores (peer), what may be deleted (snapshot).
package fs

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	iofs "io/fs"
	"path"
	"strings"

	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/snapshot"
)

// incoming is where objects are written before they have their name. No name of an object begins with a dot.
const incoming = ".incoming"

// Store is a directory.
type Store struct {
	fs  vfs.FS
	dir string
}

var _ snapshot.Store = (*Store)(nil)

// Open opens the store in dir, which is made if it is missing.
func Open(fsys vfs.FS, dir string) (*Store, error) {
	if err := vfs.MakeDir(fsys, path.Join(dir, incoming)); err != nil {
		return nil, fmt.Errorf("snapshot store: %w", err)
	}
	return &Store{fs: fsys, dir: dir}, nil
}

// Clear removes what interrupted uploads have left. Nobody else may use the store meanwhile.
func (s *Store) Clear() error {
	list, err := s.fs.ReadDir(path.Join(s.dir, incoming))
	if err != nil {
		return fmt.Errorf("snapshot store: %w", err)
	}
	for _, e := range list {
		if err := vfs.Discard(s.fs, path.Join(s.dir, incoming, e.Name())); err != nil {
			return fmt.Errorf("snapshot store: %w", err)
		}
	}
	return nil
}

// Dir is the directory.
func (s *Store) Dir() string { return s.dir }

func (s *Store) path(name snapshot.Name) string { return path.Join(s.dir, string(name)) }

// failed is an error of writing.
func (s *Store) failed(n int64, err error) error {
	return &snapshot.StoreError{Place: s.dir, Bytes: n, Err: err}
}

// Upload is an object on its way into the store.
type Upload struct {
	s    *Store
	name snapshot.Name
	f    vfs.File // nil: it is there, or was given up
	temp string
	size int64
	sum  hash.Hash
}

// Create begins an object. It is there when Publish has returned without error.
func (s *Store) Create(name snapshot.Name) (*Upload, error) {
	if err := name.Validate(); err != nil {
		return nil, err
	}
	var id [12]byte
	if _, err := rand.Read(id[:]); err != nil {
		return nil, fmt.Errorf("snapshot store: %w", err)
	}
	temp := path.Join(s.dir, incoming, hex.EncodeToString(id[:])+vfs.TempSuffix)
	f, err := vfs.CreateNew(s.fs, temp)
	if err != nil {
		return nil, s.failed(0, err)
	}
	return &Upload{s: s, name: name, f: f, temp: temp, sum: sha256.New()}, nil
}

// Write appends.
func (u *Upload) Write(b []byte) (int, error) {
	n, err := u.f.Write(b)
	u.sum.Write(b[:n])
	u.size += int64(n)
	if err != nil {
		return n, u.s.failed(int64(len(b)), err)
	}
	return n, nil
}

// Publish makes the object durable under its name.
func (u *Upload) Publish() (*jobpb.Object, error) {
	f := u.f
	u.f = nil
	o := &jobpb.Object{Name: string(u.name), Size: u.size, Digest: u.sum.Sum(nil)}
	err := errors.Join(f.Sync(), f.Close())
	if err == nil {
		err = u.place(o)
	}
	if err != nil {
		return nil, u.s.failed(u.size, errors.Join(err, u.s.fs.RemoveAll(u.temp)))
	}
	return o, nil
}

// place gives the object its name.
func (u *Upload) place(o *jobpb.Object) error {
	to := u.s.path(u.name)
	if have, err := u.s.fs.Stat(to); err == nil {
		return u.again(o, have.Size())
	}
	if err := vfs.MakeDir(u.s.fs, path.Dir(to)); err != nil {
		return err
	}
	if err := u.s.fs.Rename(u.temp, to); err != nil {
		return err
	}
	return u.s.fs.SyncDir(path.Dir(to))
}

// again: the name is taken. By the same content, that is a retry of somebody who did not hear that it was done.
func (u *Upload) again(o *jobpb.Object, size int64) error {
	r, err := u.s.Open(context.Background(), u.name)
	if err != nil {
		return err
	}
	err = snapshot.Verify(context.Background(), r, o, u.s.dir)
	if err = errors.Join(err, r.Close()); err != nil {
		return fmt.Errorf("%s exists with another content (%d bytes): %w", u.name, size, err)
	}
	return errors.Join(u.s.fs.Remove(u.temp), u.s.fs.SyncDir(path.Dir(u.s.path(u.name))))
}

// Abort gives up what was not published.
func (u *Upload) Abort() {
	if u.f == nil {
		return
	}
	// What is left is removed by Clear.
	_ = errors.Join(u.f.Close(), u.s.fs.Remove(u.temp))
	u.f = nil
}

// Put stores an object.
func (s *Store) Put(ctx context.Context, name snapshot.Name, size int64, from io.Reader) (*jobpb.Object, error) {
	u, err := s.Create(name)
	if err != nil {
		return nil, err
	}
	defer u.Abort()
	n, err := io.Copy(u, io.LimitReader(from, size+1))
	if err != nil {
		return nil, fmt.Errorf("put %s: %w", name, err)
	}
	if n != size {
		return nil, fmt.Errorf("put %s: %d bytes were announced, %d came", name, size, n)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return u.Publish()
}

// Open opens an object.
func (s *Store) Open(_ context.Context, name snapshot.Name) (snapshot.Reader, error) {
	if err := name.Validate(); err != nil {
		return nil, err
	}
	f, err := vfs.Open(s.fs, s.path(name))
	if errors.Is(err, iofs.ErrNotExist) {
		return nil, fmt.Errorf("open %s in %s: %w", name, s.dir, snapshot.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", name, err), f.Close())
	}
	return &reader{f, info.Size()}, nil
}

type reader struct {
	vfs.File
	size int64
}

func (r *reader) Size() int64 { return r.size }

// Delete removes objects durably, and the directories that are empty by that.
func (s *Store) Delete(ctx context.Context, names ...snapshot.Name) error {
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := name.Validate(); err != nil {
			return err
		}
		if err := vfs.Discard(s.fs, s.path(name)); err != nil {
			return fmt.Errorf("snapshot store: %w", err)
		}
		for dir := path.Dir(string(name)); dir != "."; dir = path.Dir(dir) {
			if s.fs.Remove(path.Join(s.dir, dir)) != nil {
				break // it is not empty, or somebody was faster
			}
		}
	}
	return nil
}

// List lists objects in order, without their digests.
func (s *Store) List(ctx context.Context, prefix string, each func(*jobpb.Object) error) error {
	return s.list(ctx, "", prefix, each)
}

func (s *Store) list(ctx context.Context, dir, prefix string, each func(*jobpb.Object) error) error {
	entries, err := s.fs.ReadDir(path.Join(s.dir, dir))
	if errors.Is(err, iofs.ErrNotExist) {
		return nil // deleted meanwhile
	}
	if err != nil {
		return fmt.Errorf("snapshot store: %w", err)
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := path.Join(dir, e.Name())
		if strings.HasPrefix(e.Name(), ".") || !strings.HasPrefix(name, prefix) && !strings.HasPrefix(prefix, name+"/") {
			continue
		}
		if e.IsDir() {
			if err := s.list(ctx, name, prefix, each); err != nil {
				return err
			}
			continue
		}
		info, err := e.Info()
		if errors.Is(err, iofs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("snapshot store: %w", err)
		}
		if err := each(&jobpb.Object{Name: name, Size: info.Size()}); err != nil {
			return err
		}
	}
	return nil
}
