package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/internal/failpoint"
	"github.com/sluiceio/sluice/internal/invariant"
	"github.com/sluiceio/sluice/internal/vfs"
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
	fs   vfs.FS
	dir  string
	self part // job, sink, subtask and epochs of the attempt that it belongs to
	// parallelism of the sink; 1 where the committer belongs to no attempt.
	parallelism int
	claim       *claim
}

// Commit publishes by rename. A file that is at its final place already was published by an earlier try.
func (c *committer) Commit(ctx context.Context, cs []connector.Committable) ([]connector.CommitResult, error) {
	results, names := make([]connector.CommitResult, len(cs)), make([]string, len(cs))
	for i, cm := range cs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		name, err := c.own(cm)
		if err != nil {
			return nil, err
		}
		if err := failpoint.Hit(ctx, "file.publish"); err != nil {
			return nil, err
		}
		if results[i], err = c.publish(name); err != nil {
			return nil, err
		}
		names[i] = name
	}
	if len(cs) == 0 {
		return results, nil
	}
	// First where the names have come, then where they have gone: a crash in between leaves two, never none.
	if err := c.fs.SyncDir(c.dir); err != nil {
		return nil, fmt.Errorf("commit output: %w", err)
	}
	if err := c.fs.SyncDir(filepath.Join(c.dir, tmpDir)); err != nil {
		return nil, fmt.Errorf("commit output: %w", err)
	}
	return results, c.claim.settled(names...)
}

func (c *committer) publish(name string) (connector.CommitResult, error) {
	from, to := filepath.Join(c.dir, tmpDir, name), filepath.Join(c.dir, name)
	_, errFrom := c.fs.Stat(from)
	_, errTo := c.fs.Stat(to)
	switch {
	case errors.Is(errFrom, fs.ErrNotExist) && errTo == nil:
		return connector.AlreadyCommitted, nil
	case errors.Is(errFrom, fs.ErrNotExist) && errors.Is(errTo, fs.ErrNotExist):
		return connector.Lost, nil
	case errFrom == nil && errTo == nil:
		return c.settle(from, to)
	}
	if err := c.fs.Rename(from, to); err != nil {
		// A twin of this commit, by a process believed dead, may have been faster.
		if _, e := c.fs.Stat(to); errors.Is(err, fs.ErrNotExist) && e == nil {
			return connector.AlreadyCommitted, nil
		}
		return 0, fmt.Errorf("commit output: %w", err)
	}
	return connector.Committed, nil
}

// settle decides about a file that has its old and its new name: a crash in the middle of an earlier commit leaves one
// file with both. Anything else under the new name stems from somebody who uses the same job id.
func (c *committer) settle(from, to string) (connector.CommitResult, error) {
	same, err := c.equal(from, to)
	if errors.Is(err, fs.ErrNotExist) {
		// A twin of this commit moved the file after it was seen under its old name.
		return connector.AlreadyCommitted, nil
	}
	if err != nil {
		return 0, fmt.Errorf("commit output: %w", err)
	}
	if !same {
		return 0, connector.Fatal(fmt.Errorf("output %s exists with other content, written by another run under the same job id\n  fix: empty %s, or write into another directory", to, c.dir))
	}
	if err := c.remove(from); err != nil {
		return 0, fmt.Errorf("commit output: %w", err)
	}
	return connector.AlreadyCommitted, nil
}

func (c *committer) equal(a, b string) (same bool, err error) {
	var files [2]vfs.File
	for i, path := range []string{a, b} {
		if files[i], err = vfs.Open(c.fs, path); err != nil {
			return false, err
		}
		defer files[i].Close() // read only
	}
	var bufs [2][32 << 10]byte
	for {
		n, errA := io.ReadFull(files[0], bufs[0][:])
		m, errB := io.ReadFull(files[1], bufs[1][:])
		if !bytes.Equal(bufs[0][:n], bufs[1][:m]) {
			return false, nil
		}
		for _, err := range []error{errA, errB} {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return true, nil
			}
			if err != nil {
				return false, err
			}
		}
	}
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
		errs = append(errs, c.discard(name))
	}
	return errors.Join(errs...)
}

// discard removes output in progress.
func (c *committer) discard(name string) error {
	if err := c.remove(filepath.Join(c.dir, tmpDir, name)); err != nil {
		return err
	}
	return c.claim.settled(name)
}

// AbortUnknown removes files in progress of this job and sink whose epochs are lower than those of the attempt, and
// whose subtask was this one's. After a change of parallelism subtask i answers for all old indices ≡ i.
func (c *committer) AbortUnknown(ctx context.Context, keep []connector.Committable) error {
	if invariant.Without("abort-of-leftovers") {
		return nil
	}
	kept := map[string]bool{}
	for _, cm := range keep {
		kept[string(cm.Data)] = true
	}
	entries, err := c.fs.ReadDir(filepath.Join(c.dir, tmpDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		if info, e := c.fs.Stat(c.dir); e == nil && !info.IsDir() {
			return connector.Fatal(fmt.Errorf("output %s is no directory", c.dir))
		}
		return fmt.Errorf("output left behind: %w", err)
	}
	var errs []error
	for _, e := range entries {
		p, ok := parse(e.Name())
		if !ok || kept[e.Name()] || p.job != c.self.job || p.sink != c.self.sink || !older(p, c.self) ||
			p.subtask%c.parallelism != c.self.subtask {
			continue
		}
		errs = append(errs, ctx.Err(), c.discard(e.Name()))
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

func (c *committer) remove(path string) error {
	if err := c.fs.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
