package localfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluiceio/sluice/connector"
)

// Find lists what pattern names, sorted by name: one file, the files at any depth below a directory, or the files that
// match a glob pattern. Below a directory hidden files are left out, and those whose name does not end in suffix. To
// find nothing is an error, and every error is fatal for the job.
func Find(ctx context.Context, pattern, suffix string) ([]string, error) {
	if err := Anchored("input", pattern); err != nil {
		return nil, err
	}
	paths, err := find(ctx, pattern, suffix)
	if err != nil {
		return nil, connector.Fatal(fmt.Errorf("input: %w", err))
	}
	slices.Sort(paths)
	return paths, nil
}

func find(ctx context.Context, pattern, suffix string) ([]string, error) {
	info, err := os.Stat(pattern)
	switch {
	case err == nil && info.IsDir():
		return below(ctx, pattern, suffix)
	case err == nil:
		return []string{pattern}, nil
	case !errors.Is(err, fs.ErrNotExist) || !strings.ContainsAny(pattern, "*?["):
		return nil, err
	}
	matches, err := filepath.Glob(pattern)
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %w", pattern, err)
	}
	var paths []string
	for _, m := range matches {
		info, err := os.Stat(m)
		if err != nil {
			return nil, err
		}
		if info.Mode().IsRegular() {
			paths = append(paths, m)
		}
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("no file matches %q", pattern)
	}
	return paths, nil
}

func below(ctx context.Context, dir, suffix string) (paths []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path != dir && strings.HasPrefix(d.Name(), ".") {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.Type().IsRegular() && strings.HasSuffix(d.Name(), suffix) {
			paths = append(paths, path)
		}
		return ctx.Err()
	})
	if err == nil && len(paths) == 0 {
		err = fmt.Errorf("no file *%s in directory %s", suffix, dir)
	}
	return paths, err
}

// Anchored refuses no path at all, and a relative one in a task process: its working directory is private and goes with the process, so
// that input would never be found there and output would be lost.
func Anchored(what, path string) error {
	if path == "" {
		return connector.Fatal(fmt.Errorf("no %s is given: its path is empty", what))
	}
	if os.Getenv("SLUICE_TASK") == "" || filepath.IsAbs(path) {
		return nil
	}
	return connector.Fatal(fmt.Errorf("%s %q is a relative path: on a cluster give an absolute one, which every worker sees", what, path))
}

// Stamp tells a file from what it was before or becomes later.
type Stamp struct {
	Size     int64 `json:"size"`
	ModNanos int64 `json:"mtime"`
}

// StampOf is the stamp of a file now.
func StampOf(info fs.FileInfo) Stamp { return Stamp{info.Size(), info.ModTime().UnixNano()} }

// Verify refuses a file that is not the one that was stamped. That it has changed is fatal for the job; the caller adds
// its path.
func (s Stamp) Verify(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if StampOf(info) != s {
		return connector.Fatal(fmt.Errorf("has changed since the job discovered it: %d bytes of %s, now %d bytes of %s", s.Size,
			time.Unix(0, s.ModNanos).UTC().Format(time.RFC3339Nano), info.Size(), info.ModTime().UTC().Format(time.RFC3339Nano)))
	}
	return nil
}
