package artifact

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/sluiceio/sluice/internal/vfs"
)

// ErrDigest says that the bytes that arrived are not those that were asked for.
var ErrDigest = errors.New("artifact differs from its digest")

// ErrLocal says that the artifact could not be kept here, whoever gives it.
var ErrLocal = errors.New("the artifact cannot be kept")

// Fetch writes the artifact with this digest (lower-case hex SHA-256) to w.
type Fetch func(ctx context.Context, digest string, w io.Writer) error

// Cache is the directory of artifacts.
type Cache struct {
	fsys  vfs.FS
	dir   string
	limit int64 // bytes; exceeded only by artifacts in use

	mu struct {
		sync.Mutex
		entries map[string]*entry
		size    int64  // bytes of all entries
		clock   uint64 // counts uses, orders entries by age
	}
}

type entry struct {
	size    int64
	uses    int
	last    uint64
	checked bool          // the file is known to match its digest
	busy    chan struct{} // closed when whoever prepares the file is done; nil when nobody does
}

// Open reads the directory, which is made if missing, and removes what an interrupted transfer has left.
func Open(fsys vfs.FS, dir string, limit int64) (*Cache, error) {
	if err := vfs.MakeDir(fsys, dir); err != nil {
		return nil, fmt.Errorf("artifact cache: %w", err)
	}
	files, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("artifact cache: %w", err)
	}
	c := &Cache{fsys: fsys, dir: dir, limit: limit}
	c.mu.entries = map[string]*entry{}
	var infos []fs.FileInfo
	for _, f := range files {
		if !IsDigest(f.Name()) {
			if err := vfs.Discard(fsys, path.Join(dir, f.Name())); err != nil {
				return nil, fmt.Errorf("artifact cache: %w", err)
			}
			continue
		}
		info, err := f.Info()
		if err != nil {
			return nil, fmt.Errorf("artifact cache: %w", err)
		}
		infos = append(infos, info)
	}
	slices.SortFunc(infos, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, info := range infos {
		c.mu.clock++
		c.mu.entries[info.Name()] = &entry{size: info.Size(), last: c.mu.clock}
		c.mu.size += info.Size()
	}
	return c, nil
}

// IsDigest reports whether s is a lower-case hex SHA-256. Anything else never becomes part of a path.
func IsDigest(s string) bool {
	return len(s) == hex.EncodedLen(sha256.Size) && strings.Trim(s, "0123456789abcdef") == ""
}

// Digests lists what the cache holds, in order.
func (c *Cache) Digests() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for digest, e := range c.mu.entries {
		if e.size > 0 {
			all = append(all, digest)
		}
	}
	slices.Sort(all)
	return all
}

// Size is the number of bytes that the cache holds.
func (c *Cache) Size() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.size
}

// Handle keeps an artifact from being removed.
type Handle struct {
	cache  *Cache
	digest string
	once   sync.Once
}

// Path is the executable file.
func (h *Handle) Path() string { return path.Join(h.cache.dir, h.digest) }

// Release gives the artifact free; further calls do nothing.
func (h *Handle) Release() { h.once.Do(func() { h.cache.release(h.digest) }) }

// Acquire returns the artifact, fetched if it is missing or damaged.
func (c *Cache) Acquire(ctx context.Context, digest string, fetch Fetch) (*Handle, error) {
	if !IsDigest(digest) {
		return nil, fmt.Errorf("artifact %q: not a lower-case hex SHA-256", digest)
	}
	for {
		wait, mine := c.claim(digest)
		switch {
		case mine:
			size, err := c.prepare(ctx, digest, fetch)
			if diskFull(err) && c.makeRoom() == nil {
				size, err = c.prepare(ctx, digest, fetch)
			}
			if err := c.settle(digest, size, err); err != nil {
				return nil, fmt.Errorf("artifact %s: %w", digest, err)
			}
			return &Handle{cache: c, digest: digest}, nil
		case wait == nil:
			return &Handle{cache: c, digest: digest}, nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, fmt.Errorf("artifact %s: %w", digest, context.Cause(ctx))
		}
	}
}

// claim takes a use of a ready artifact (nil, false), or makes the caller prepare it (mine), or says what to wait for.
func (c *Cache) claim(digest string) (wait chan struct{}, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.mu.entries[digest]
	if e == nil {
		e = &entry{}
		c.mu.entries[digest] = e
	}
	switch {
	case e.busy != nil:
		return e.busy, false
	case !e.checked:
		e.busy = make(chan struct{})
		return nil, true
	}
	c.use(e)
	return nil, false
}

func (c *Cache) use(e *entry) {
	c.mu.clock++
	e.last = c.mu.clock
	e.uses++
}

// settle ends a preparation and lets the others go on.
func (c *Cache) settle(digest string, size int64, err error) error {
	c.mu.Lock()
	e := c.mu.entries[digest]
	close(e.busy)
	e.busy = nil
	c.mu.size -= e.size
	if err != nil {
		delete(c.mu.entries, digest)
		c.mu.Unlock()
		return err
	}
	e.size, e.checked = size, true
	c.mu.size += size
	c.use(e)
	victims := c.victims(c.limit)
	c.mu.Unlock()
	if err := c.remove(victims); err != nil {
		c.release(digest)
		return err
	}
	return nil
}

// makeRoom removes every artifact that nobody uses: the disk is full, and they can be fetched again.
func (c *Cache) makeRoom() error {
	c.mu.Lock()
	victims := c.victims(0)
	c.mu.Unlock()
	return c.remove(victims)
}

func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// victims takes the oldest artifacts that nobody uses out of the table until the rest fits. The lock is held.
func (c *Cache) victims(limit int64) []string {
	var idle []string
	for digest, e := range c.mu.entries {
		if e.uses == 0 && e.busy == nil {
			idle = append(idle, digest)
		}
	}
	slices.SortFunc(idle, func(a, b string) int { return cmp.Compare(c.mu.entries[a].last, c.mu.entries[b].last) })
	var victims []string
	for _, digest := range idle {
		if c.mu.size <= limit {
			break
		}
		// Claimed until its file is gone: who asks for it meanwhile waits, and then fetches it anew.
		e := c.mu.entries[digest]
		e.busy = make(chan struct{})
		c.mu.size -= e.size
		e.size, e.checked = 0, false
		victims = append(victims, digest)
	}
	return victims
}

func (c *Cache) remove(victims []string) error {
	var err error
	for _, digest := range victims {
		err = errors.Join(err, vfs.Discard(c.fsys, path.Join(c.dir, digest)))
		c.mu.Lock()
		close(c.mu.entries[digest].busy)
		delete(c.mu.entries, digest)
		c.mu.Unlock()
	}
	return err
}

func (c *Cache) release(digest string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.entries[digest].uses--
}

// prepare makes sure that the file is there and is what its digest says.
func (c *Cache) prepare(ctx context.Context, digest string, fetch Fetch) (int64, error) {
	name := path.Join(c.dir, digest)
	size, err := c.verify(digest)
	if err == nil {
		return size, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		// Damaged or unreadable: it is of no use to anyone.
		if err := vfs.Discard(c.fsys, name); err != nil {
			return 0, local(err)
		}
	}
	temp := name + vfs.TempSuffix
	size, err = c.download(ctx, digest, temp, fetch)
	if err != nil {
		return 0, errors.Join(err, c.fsys.RemoveAll(temp))
	}
	if err := c.fsys.Rename(temp, name); err != nil {
		return 0, local(err)
	}
	return size, local(c.fsys.SyncDir(c.dir))
}

// local marks an error that no other coordinator can help with.
func local(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrLocal, err)
}

// verify hashes the file that is there.
func (c *Cache) verify(digest string) (size int64, err error) {
	f, err := vfs.Open(c.fsys, path.Join(c.dir, digest))
	if err != nil {
		return 0, err
	}
	hash := sha256.New()
	size, err = io.Copy(hash, f)
	if err = errors.Join(err, f.Close()); err != nil {
		return 0, err
	}
	return size, match(digest, hash.Sum(nil), size)
}

// download writes, hashes and syncs a new executable file.
func (c *Cache) download(ctx context.Context, digest, temp string, fetch Fetch) (size int64, err error) {
	f, err := c.fsys.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err != nil {
		return 0, local(err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	hash := sha256.New()
	counter := &counter{w: io.MultiWriter(f, hash), limit: c.limit}
	if err := fetch(ctx, digest, counter); err != nil {
		return 0, err
	}
	if err := match(digest, hash.Sum(nil), counter.n); err != nil {
		return 0, err
	}
	return counter.n, local(f.Sync())
}

func match(digest string, sum []byte, size int64) error {
	if got := hex.EncodeToString(sum); got != digest {
		return fmt.Errorf("%w: %d bytes with digest %s", ErrDigest, size, got)
	}
	return nil
}

// counter counts what passes, and stops what would never fit.
type counter struct {
	w        io.Writer
	n, limit int64
}

func (c *counter) Write(p []byte) (int, error) {
	if c.n+int64(len(p)) > c.limit {
		return 0, local(fmt.Errorf("larger than the whole cache of %d bytes", c.limit))
	}
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, local(err)
}
