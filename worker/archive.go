package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/worker/logfile"
	"github.com/sluiceio/sluice/worker/spawn"
)

// archive knows the directories of task processes, those that run and those of the past whose output is kept.
type archive struct {
	root  string
	limit int64 // bytes of output per process
	keep  int   // ended processes
	log   hclog.Logger

	mu struct {
		sync.Mutex
		dirs   []*processOutput // oldest end last seen first
		builds uint64           // directories drawn for builds
		news   chan struct{}    // closed at the next output of any process; nil when nobody waits
	}
}

// processOutput is the directory of one task process.
type processOutput struct {
	archive *archive
	key     processKey
	dir     string
	writer  *logfile.Writer // nil: of an earlier incarnation
	ended   bool            // guarded by the archive's lock
}

// buildPrefix begins the names of directories of builds, which nobody keeps.
const buildPrefix = "build-"

// openArchive ends what an older incarnation has left running, takes over its output and removes what is not kept.
// It returns the processes of the past.
func openArchive(ctx context.Context, c Config) (*archive, []processKey, error) {
	a := &archive{root: filepath.Join(c.DataDir, processesName), limit: c.LogBytes, keep: c.KeepProcesses, log: c.Log.Named("archive")}
	if err := vfs.MakeDir(vfs.OS{}, a.root); err != nil {
		return nil, nil, err
	}
	entries, err := os.ReadDir(a.root)
	if err != nil {
		return nil, nil, fmt.Errorf("task processes: %w", err)
	}
	ends := map[*processOutput]time.Time{}
	var keys []processKey
	for _, e := range entries {
		dir := filepath.Join(a.root, e.Name())
		if err := spawn.EndLeftover(ctx, dir); err != nil {
			return nil, nil, err
		}
		r, err := spawn.ReadRecord(dir)
		if err != nil || strings.HasPrefix(e.Name(), buildPrefix) {
			// A build, or a process whose agent died before it was recorded.
			if err := vfs.Discard(vfs.OS{}, dir); err != nil {
				return nil, nil, err
			}
			continue
		}
		o := &processOutput{archive: a, key: processKey{r.Job, r.Process}, dir: dir, ended: true}
		info, err := e.Info()
		if err != nil {
			return nil, nil, fmt.Errorf("task processes: %w", err)
		}
		if err := o.tidy(); err != nil {
			return nil, nil, err
		}
		a.mu.dirs, ends[o], keys = append(a.mu.dirs, o), info.ModTime(), append(keys, o.key)
	}
	slices.SortFunc(a.mu.dirs, func(x, y *processOutput) int { return ends[x].Compare(ends[y]) })
	return a, keys, a.prune()
}

// open makes the directory of a process and starts its output.
func (a *archive) open(key processKey) (*processOutput, error) {
	o := &processOutput{archive: a, key: key, dir: processDir(a.root, key)}
	logDir := filepath.Join(o.dir, spawn.LogName)
	if err := vfs.MakeDir(vfs.OS{}, logDir); err != nil {
		return nil, fmt.Errorf("directory of process %d of job %s: %w", key.number, key.job, err)
	}
	w, err := logfile.Create(logDir, a.limit, a.announce)
	if err != nil {
		return nil, err
	}
	o.writer = w
	a.mu.Lock()
	a.mu.dirs = append(a.mu.dirs, o)
	a.mu.Unlock()
	a.announce()
	return o, nil
}

// openBuild draws a directory for a build.
func (a *archive) openBuild() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.builds++
	return filepath.Join(a.root, fmt.Sprintf("%s%d", buildPrefix, a.mu.builds))
}

// close ends the output of a process, removes what it has left in its private directory, and the oldest outputs beyond
// the bound.
func (o *processOutput) close() {
	a := o.archive
	err := o.writer.Close()
	if n := o.writer.Dropped(); n > 0 {
		a.log.Warn("output of a task process was dropped", "job", o.key.job, "process", o.key.number, "bytes", n)
	}
	err = errors.Join(err, o.tidy())
	a.mu.Lock()
	o.ended = true
	a.mu.Unlock()
	a.announce()
	if err := errors.Join(err, a.prune()); err != nil {
		a.log.Error("directories of task processes cannot be tidied", "error", err)
	}
}

// tidy removes what the process has left beside its output: temporary and spill files.
func (o *processOutput) tidy() error {
	entries, err := os.ReadDir(o.dir)
	for _, e := range entries {
		switch e.Name() {
		case spawn.LogName, spawn.LockName, spawn.RecordName:
		default:
			err = errors.Join(err, os.RemoveAll(filepath.Join(o.dir, e.Name())))
		}
	}
	return err
}

// prune removes the oldest ended processes beyond the bound.
func (a *archive) prune() error {
	a.mu.Lock()
	surplus := -a.keep
	for _, o := range a.mu.dirs {
		if o.ended {
			surplus++
		}
	}
	var old []*processOutput
	a.mu.dirs = slices.DeleteFunc(a.mu.dirs, func(o *processOutput) bool {
		if !o.ended || len(old) >= surplus {
			return false
		}
		old = append(old, o)
		return true
	})
	a.mu.Unlock()
	var err error
	for _, o := range old {
		err = errors.Join(err, vfs.Discard(vfs.OS{}, o.dir))
	}
	return err
}

// outputs lists the directories of a job in the order of the process numbers.
func (a *archive) outputs(job string) []*processOutput {
	a.mu.Lock()
	defer a.mu.Unlock()
	var dirs []*processOutput
	for _, o := range a.mu.dirs {
		if o.key.job == job {
			dirs = append(dirs, o)
		}
	}
	slices.SortFunc(dirs, func(x, y *processOutput) int { return cmp.Compare(x.key.number, y.key.number) })
	return dirs
}

// changed returns a channel that is closed at the next output of any process.
func (a *archive) changed() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.news == nil {
		a.mu.news = make(chan struct{})
	}
	return a.mu.news
}

// announce wakes those who follow an output.
func (a *archive) announce() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.news != nil {
		close(a.mu.news)
		a.mu.news = nil
	}
}

// tail opens the output of a process for reading. One that was pruned meanwhile is fs.ErrNotExist.
func (o *processOutput) tail(bytes int64) (*logfile.Reader, error) {
	r, err := logfile.Open(filepath.Join(o.dir, spawn.LogName), bytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fs.ErrNotExist
	}
	return r, err
}
