package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
)

// tmpDir holds output in progress, below the output directory.
const tmpDir = ".tmp"

// part is the identity of a part file: job, sink, subtask, epochs and checkpoint, never used for two contents.
type part struct {
	job, sink             string
	subtask               int
	jobEpoch, regionEpoch uint64
	checkpoint            element.CheckpointID
}

func (p part) name() string {
	return fmt.Sprintf("part-%05d-%010d~%s~%s~%d.%d", p.subtask, p.checkpoint, escape(p.job), escape(p.sink), p.jobEpoch, p.regionEpoch)
}

// escape keeps separators out of names: what a user calls a sink is data, never a path.
func escape(s string) string {
	return strings.NewReplacer("~", "%7E", ".", "%2E").Replace(url.PathEscape(s))
}

// parse reads a name; false for a file that is not of this sink's making.
func parse(name string) (p part, ok bool) {
	fields := strings.Split(name, "~")
	if len(fields) != 4 {
		return p, false
	}
	head, hasPrefix := strings.CutPrefix(fields[0], "part-")
	subtask, checkpoint, cut := strings.Cut(head, "-")
	jobEpoch, regionEpoch, dot := strings.Cut(fields[3], ".")
	var errs [6]error
	p.subtask, errs[0] = strconv.Atoi(subtask)
	id, err := strconv.ParseUint(checkpoint, 10, 64)
	p.checkpoint, errs[1] = element.CheckpointID(id), err
	p.job, errs[2] = url.PathUnescape(fields[1])
	p.sink, errs[3] = url.PathUnescape(fields[2])
	p.jobEpoch, errs[4] = strconv.ParseUint(jobEpoch, 10, 64)
	p.regionEpoch, errs[5] = strconv.ParseUint(regionEpoch, 10, 64)
	return p, hasPrefix && cut && dot && errors.Join(errs[:]...) == nil && p.name() == name
}

type committer struct {
	dir  string
	self part // job, sink and epochs of the process
}

// Commit publishes by rename. A file that is at its final place already was published by an earlier try.
func (c *committer) Commit(ctx context.Context, cs []connector.Committable) ([]connector.CommitResult, error) {
	results := make([]connector.CommitResult, len(cs))
	for i, cm := range cs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		name, err := c.own(cm)
		if err != nil {
			return nil, err
		}
		if results[i], err = c.publish(name); err != nil {
			return nil, err
		}
	}
	if len(cs) == 0 {
		return results, nil
	}
	return results, errors.Join(syncDir(c.dir), syncDir(filepath.Join(c.dir, tmpDir)))
}

func (c *committer) publish(name string) (connector.CommitResult, error) {
	from, to := filepath.Join(c.dir, tmpDir, name), filepath.Join(c.dir, name)
	_, errFrom := os.Lstat(from)
	_, errTo := os.Lstat(to)
	switch {
	case errors.Is(errFrom, fs.ErrNotExist) && errTo == nil:
		return connector.AlreadyCommitted, nil
	case errors.Is(errFrom, fs.ErrNotExist) && errors.Is(errTo, fs.ErrNotExist):
		return connector.Lost, nil
	case errFrom == nil && errTo == nil:
		return 0, connector.Fatal(fmt.Errorf("output %s exists: another job with the same id has written into this directory", to))
	}
	if err := os.Rename(from, to); err != nil {
		// A twin of this commit, by a process believed dead, may have been faster.
		if _, e := os.Lstat(to); errors.Is(err, fs.ErrNotExist) && e == nil {
			return connector.AlreadyCommitted, nil
		}
		return 0, fmt.Errorf("commit output: %w", err)
	}
	return connector.Committed, nil
}

// own checks that a committable names a part file of this job and sink, and nothing else on this machine.
func (c *committer) own(cm connector.Committable) (string, error) {
	name := string(cm.Data)
	p, ok := parse(name)
	if !ok || p.job != c.self.job || p.sink != c.self.sink {
		return "", connector.Fatal(fmt.Errorf("committable %q is not output of %s of job %s", name, c.self.sink, c.self.job))
	}
	return name, nil
}

func (c *committer) Abort(_ context.Context, cs []connector.Committable) error {
	var errs []error
	for _, cm := range cs {
		name, err := c.own(cm)
		if err != nil {
			return err
		}
		errs = append(errs, remove(filepath.Join(c.dir, tmpDir, name)))
	}
	return errors.Join(errs...)
}

// AbortUnknown removes files in progress of this job and sink whose epochs are lower than those of the process.
func (c *committer) AbortUnknown(ctx context.Context, keep []connector.Committable) error {
	kept := map[string]bool{}
	for _, cm := range keep {
		kept[string(cm.Data)] = true
	}
	entries, err := os.ReadDir(filepath.Join(c.dir, tmpDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("output left behind: %w", err)
	}
	var errs []error
	for _, e := range entries {
		p, ok := parse(e.Name())
		if !ok || kept[e.Name()] || p.job != c.self.job || p.sink != c.self.sink || !older(p, c.self) {
			continue
		}
		errs = append(errs, ctx.Err(), remove(filepath.Join(c.dir, tmpDir, e.Name())))
	}
	return errors.Join(errs...)
}

func older(p, than part) bool {
	if p.jobEpoch != than.jobEpoch {
		return p.jobEpoch < than.jobEpoch
	}
	return p.regionEpoch < than.regionEpoch
}

func (c *committer) Close() error { return nil }

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// syncDir makes the entries of a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
