package artifact

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"path"
	"slices"
	"sync"

	"github.com/sluiceio/sluice/internal/vfs"
)

// Errors that callers tell apart.
var (
	ErrMissing = errors.New("artifact is not in the store")
	// ErrTooLarge: more bytes than announced or than the store accepts.
	ErrTooLarge = errors.New("artifact is too large")
	// ErrCutOff: fewer bytes than announced.
	ErrCutOff = errors.New("artifact was cut off")
	// ErrDigest: other bytes than announced.
	ErrDigest = errors.New("artifact does not have the digest announced")
)

const incomingDir = "incoming"

// Store is the artifacts of one data directory.
type Store struct {
	fs       vfs.FS
	dir      string
	maxBytes int64

	mu struct {
		sync.Mutex
		locked map[Digest]chan struct{} // closed when the lock is free again
	}
}

// OpenStore opens the store in dir, which it creates, and removes what interrupted uploads left.
func OpenStore(fsys vfs.FS, dir string, maxBytes int64) (*Store, error) {
	s := &Store{fs: fsys, dir: dir, maxBytes: maxBytes}
	s.mu.locked = make(map[Digest]chan struct{})
	incoming := path.Join(dir, incomingDir)
	if err := vfs.Discard(fsys, incoming); err != nil {
		return nil, fmt.Errorf("clear interrupted uploads: %w", err)
	}
	if err := vfs.MakeDir(fsys, incoming); err != nil {
		return nil, fmt.Errorf("artifact store: %w", err)
	}
	// A name that an earlier process published without getting to the sync counts from now on.
	if err := fsys.SyncDir(dir); err != nil {
		return nil, fmt.Errorf("artifact store: %w", err)
	}
	return s, nil
}

func (s *Store) path(d Digest) string { return path.Join(s.dir, string(d)) }

// Lock waits until nobody else works on d, so that concurrent uploads of one digest become one: the second finds what the
// first has stored. unlock must be called once.
func (s *Store) Lock(ctx context.Context, d Digest) (unlock func(), err error) {
	for {
		s.mu.Lock()
		busy, locked := s.mu.locked[d]
		if !locked {
			free := make(chan struct{})
			s.mu.locked[d] = free
			s.mu.Unlock()
			return func() { s.unlock(d, free) }, nil
		}
		s.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for another upload of artifact %s: %w", d.Short(), context.Cause(ctx))
		}
	}
}

func (s *Store) unlock(d Digest, free chan struct{}) {
	s.mu.Lock()
	delete(s.mu.locked, d)
	s.mu.Unlock()
	close(free)
}

// Stat returns the size of an artifact, or ErrMissing.
func (s *Store) Stat(d Digest) (size int64, err error) {
	info, err := s.fs.Stat(s.path(d))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("%s: %w", d.Short(), ErrMissing)
	}
	if err != nil {
		return 0, fmt.Errorf("stat artifact %s: %w", d.Short(), err)
	}
	return info.Size(), nil
}

// List returns what the store holds, in order.
func (s *Store) List() ([]Digest, error) {
	entries, err := s.fs.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("list artifacts: %w", err)
	}
	var all []Digest
	for _, e := range entries {
		if d, err := ParseDigest(e.Name()); err == nil && !e.IsDir() {
			all = append(all, d)
		}
	}
	slices.Sort(all)
	return all, nil
}

// Open opens an artifact for reading.
func (s *Store) Open(d Digest) (vfs.File, error) {
	f, err := vfs.Open(s.fs, s.path(d))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", d.Short(), ErrMissing)
	}
	if err != nil {
		return nil, fmt.Errorf("open artifact %s: %w", d.Short(), err)
	}
	return f, nil
}

// Remove deletes an artifact durably; it may be gone already.
func (s *Store) Remove(d Digest) error {
	if err := vfs.Discard(s.fs, s.path(d)); err != nil {
		return fmt.Errorf("remove artifact %s: %w", d.Short(), err)
	}
	return nil
}

// Verify reads an artifact in full. One that is not what its name says is removed, so that the copy on another
// coordinator can take its place, and reported as ErrDigest.
func (s *Store) Verify(d Digest) (err error) {
	f, err := s.Open(d)
	if err != nil {
		return err
	}
	h := sha256.New()
	_, err = io.Copy(h, f)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("read artifact %s: %w", d.Short(), err)
	}
	if got := digestOf(h); got != d {
		return errors.Join(fmt.Errorf("artifact %s on disk is %s: %w", d.Short(), got.Short(), ErrDigest), s.Remove(d))
	}
	return nil
}

// Writer takes the bytes of one artifact. Exactly one of Commit and Abort ends it; Abort after Commit does nothing.
type Writer struct {
	store  *Store
	file   vfs.File
	temp   string
	digest Digest
	size   int64 // announced
	n      int64 // written
	hash   hash.Hash
	done   bool
}

// Create begins to store an artifact of a known digest and size.
func (s *Store) Create(d Digest, size int64) (*Writer, error) {
	if size <= 0 || size > s.maxBytes {
		return nil, fmt.Errorf("artifact %s of %d bytes, at most %d are allowed: %w", d.Short(), size, s.maxBytes, ErrTooLarge)
	}
	temp := path.Join(s.dir, incomingDir, string(d)+"-"+rand.Text())
	f, err := vfs.CreateNew(s.fs, temp)
	if err != nil {
		return nil, fmt.Errorf("store artifact %s: %w", d.Short(), err)
	}
	return &Writer{store: s, file: f, temp: temp, digest: d, size: size, hash: sha256.New()}, nil
}

// Write adds bytes; more than announced are refused before they reach the disk.
func (w *Writer) Write(p []byte) (int, error) {
	if w.n+int64(len(p)) > w.size {
		return 0, fmt.Errorf("artifact %s: %d bytes were announced, more arrived: %w", w.digest.Short(), w.size, ErrTooLarge)
	}
	n, err := w.file.Write(p)
	w.n += int64(n)
	w.hash.Write(p[:n])
	if err != nil {
		return n, fmt.Errorf("store artifact %s: %w", w.digest.Short(), err)
	}
	return n, nil
}

// Commit makes the artifact appear, durably, if its size and digest are as announced; otherwise nothing is left.
func (w *Writer) Commit() error {
	if w.n < w.size {
		return errors.Join(fmt.Errorf("artifact %s: %d of %d bytes: %w", w.digest.Short(), w.n, w.size, ErrCutOff), w.Abort())
	}
	if got := digestOf(w.hash); got != w.digest {
		return errors.Join(fmt.Errorf("artifact %s: the bytes sent are %s: %w", w.digest.Short(), got.Short(), ErrDigest), w.Abort())
	}
	if err := w.file.Sync(); err != nil {
		return errors.Join(fmt.Errorf("sync artifact %s: %w", w.digest.Short(), err), w.Abort())
	}
	w.done = true
	if err := w.file.Close(); err != nil {
		return errors.Join(fmt.Errorf("close artifact %s: %w", w.digest.Short(), err), w.store.fs.Remove(w.temp))
	}
	if err := w.store.fs.Rename(w.temp, w.store.path(w.digest)); err != nil {
		return errors.Join(fmt.Errorf("publish artifact %s: %w", w.digest.Short(), err), w.store.fs.Remove(w.temp))
	}
	if err := w.store.fs.SyncDir(w.store.dir); err != nil {
		// It may be durable or not; taken away again, so that the next upload does not find it and count it as a copy.
		return errors.Join(fmt.Errorf("publish artifact %s: %w", w.digest.Short(), err), w.store.fs.Remove(w.store.path(w.digest)))
	}
	return nil
}

// Abort leaves nothing behind.
func (w *Writer) Abort() error {
	if w.done {
		return nil
	}
	w.done = true
	err := errors.Join(w.file.Close(), w.store.fs.Remove(w.temp))
	if err != nil {
		return fmt.Errorf("abort artifact %s: %w", w.digest.Short(), err)
	}
	return nil
}
