package file

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/internal/vfs"
)

// claim is the right of this process to what is in progress below one directory, for jobs that live in one process and end
// with it. Their ids are always the same, so what a killed run has left looks like what a running one is writing; the lock
// tells the two apart. (The names alone could be made to differ, but then nobody would ever remove what was left.) On a
// cluster ids are never used again, and what has ended processes is still wanted: there it is not taken.
type claim struct {
	mu struct {
		sync.Mutex
		lock io.Closer // nil: nothing is in progress here
		// writers are open, and files prepared whose commit or abort is still to come. While there are any the lock is held.
		writers  int
		prepared map[string]bool
	}
}

// enter counts a writer. The first one takes the lock and removes what dead runs have left; the others wait until that is
// done, which is why it happens under the mutex.
func (c *claim) enter(fs vfs.FS, dir string, self part) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.lock == nil {
		lock, err := take(fs, dir, self)
		if err != nil {
			return err
		}
		c.mu.lock, c.mu.prepared = lock, map[string]bool{}
	}
	c.mu.writers++
	return nil
}

// take returns the lock. Its file stays: who removed it could take it away from somebody who has just opened it.
func take(fs vfs.FS, dir string, self part) (io.Closer, error) {
	path := filepath.Join(dir, tmpDir, fmt.Sprintf(".lock~%s~%s", escape(self.job), escape(self.sink)))
	lock, err := fs.Lock(path)
	switch {
	case errors.Is(err, vfs.ErrLocked):
		return nil, connector.Fatal(fmt.Errorf("output directory %s: another run of job %s writes there at the moment\n  fix: wait for its end, or write into another directory", dir, self.job))
	case errors.Is(err, errors.ErrUnsupported): // nobody can be taken for dead here
		return io.NopCloser(nil), nil
	case err != nil:
		return nil, fmt.Errorf("output: %w", err)
	}
	if err := sweep(fs, dir, self); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// sweep removes what earlier runs have left in progress. A run that goes on where another one has stopped has higher
// epochs, and knows what it wants to keep.
func sweep(fs vfs.FS, dir string, self part) error {
	if self.jobEpoch != 1 || self.regionEpoch != 1 {
		return nil
	}
	entries, err := fs.ReadDir(filepath.Join(dir, tmpDir))
	if err != nil {
		return fmt.Errorf("output left behind: %w", err)
	}
	for _, e := range entries {
		if p, ok := parse(e.Name()); ok && p.job == self.job && p.sink == self.sink {
			if err := fs.Remove(filepath.Join(dir, tmpDir, e.Name())); err != nil {
				return fmt.Errorf("output left behind: %w", err)
			}
		}
	}
	return nil
}

// leave ends a writer.
func (c *claim) leave() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.writers--
	return c.release()
}

// keep notes a prepared file.
func (c *claim) keep(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.prepared[name] = true
}

// settled notes that files were published or removed. A process without the lock has nothing to note.
func (c *claim) settled(names ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range names {
		delete(c.mu.prepared, n)
	}
	return c.release()
}

// release gives the lock back when nothing is in progress. The mutex is held.
func (c *claim) release() error {
	if c.mu.lock == nil || c.mu.writers > 0 || len(c.mu.prepared) > 0 {
		return nil
	}
	err := c.mu.lock.Close()
	c.mu.lock = nil
	return err
}
