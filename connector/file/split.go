package file

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
)

const splitVersion = 1

// span is a byte range of one file, and how far it has been read. A record belongs to the span of its first byte.
type span struct {
	Path     string `json:"path"`
	Size     int64  `json:"size"`
	ModNanos int64  `json:"mtime"`
	First    int64  `json:"first"`
	End      int64  `json:"end"`
	// Next is the first byte that was not delivered; of the decompressed bytes for gzip. Equal to First: nothing yet.
	Next int64 `json:"next"`
	// Line counts the lines before Next in a span that begins at byte 0; it names places in errors.
	Line int64 `json:"line"`
}

func (s *span) gzip() bool { return strings.HasSuffix(s.Path, ".gz") }

func (s *span) split() connector.Split {
	data, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("a span of strings and integers cannot be encoded: %v", err))
	}
	return connector.Split{ID: s.Path + "@" + strconv.FormatInt(s.First, 10), Version: splitVersion, Data: data}
}

func decodeSpan(s connector.Split) (*span, error) {
	if s.Version != splitVersion {
		return nil, fmt.Errorf("file split %q has version %d, this connector reads %d", s.ID, s.Version, splitVersion)
	}
	sp := new(span)
	if err := json.Unmarshal(s.Data, sp); err != nil {
		return nil, fmt.Errorf("file split %q: %w", s.ID, err)
	}
	if sp.First < 0 || sp.End < sp.First || sp.Next < sp.First || (sp.Next > sp.End && !sp.gzip()) && sp.Next > sp.Size {
		return nil, fmt.Errorf("file split %q: impossible range %d…%d at %d", s.ID, sp.First, sp.End, sp.Next)
	}
	return sp, nil
}

// enumerator lists the files once. What it found is recorded by the engine, so it has nothing to snapshot.
type enumerator struct {
	pattern   string
	splitSize int64
	divisible bool
	done      bool
}

func (e *enumerator) Next(ctx context.Context) ([]connector.Split, error) {
	if e.done {
		return nil, io.EOF
	}
	paths, err := list(ctx, e.pattern)
	if err != nil {
		return nil, err
	}
	var splits []connector.Split
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return nil, connector.Fatal(fmt.Errorf("input: %w", err))
		}
		for _, s := range e.cut(p, info) {
			splits = append(splits, s.split())
		}
	}
	e.done = true
	return splits, io.EOF
}

// cut divides a file into spans of about splitSize bytes; an empty file has none.
func (e *enumerator) cut(path string, info fs.FileInfo) (spans []*span) {
	whole := span{Path: path, Size: info.Size(), ModNanos: info.ModTime().UnixNano(), End: info.Size()}
	if whole.Size == 0 {
		return nil
	}
	n := int64(1)
	if e.divisible && !whole.gzip() {
		n = max(1, (whole.Size+e.splitSize/2)/e.splitSize)
	}
	for i := range n {
		s := whole
		s.First, s.End = whole.Size*i/n, whole.Size*(i+1)/n
		s.Next = s.First
		spans = append(spans, &s)
	}
	return spans
}

func (e *enumerator) Snapshot(element.CheckpointID) ([]byte, error) { return nil, nil }
func (e *enumerator) Close() error                                  { return nil }

// list finds the files of a pattern, sorted by name.
func list(ctx context.Context, pattern string) ([]string, error) {
	if err := anchored("input", pattern); err != nil {
		return nil, err
	}
	info, err := os.Stat(pattern)
	switch {
	case err == nil && info.IsDir():
		return walk(ctx, pattern)
	case err == nil:
		return []string{pattern}, nil
	case !errors.Is(err, fs.ErrNotExist) || !strings.ContainsAny(pattern, "*?["):
		return nil, connector.Fatal(fmt.Errorf("input: %w", err))
	}
	matches, err := filepath.Glob(pattern)
	if err != nil {
		return nil, connector.Fatal(fmt.Errorf("input pattern %q: %w", pattern, err))
	}
	var paths []string
	for _, m := range matches {
		info, err := os.Stat(m)
		if err != nil {
			return nil, connector.Fatal(fmt.Errorf("input: %w", err))
		}
		if info.Mode().IsRegular() {
			paths = append(paths, m)
		}
	}
	if len(paths) == 0 {
		return nil, connector.Fatal(fmt.Errorf("input: no file matches %q", pattern))
	}
	slices.Sort(paths)
	return paths, nil
}

// anchored refuses a relative path in a task process: its working directory is private and goes with the process, so
// that input would never be found there and output would be lost.
func anchored(what, path string) error {
	if os.Getenv("SLUICE_TASK") == "" || filepath.IsAbs(path) {
		return nil
	}
	return connector.Fatal(fmt.Errorf("%s %q is a relative path: on a cluster give an absolute one, which every worker sees", what, path))
}

func walk(ctx context.Context, dir string) (paths []string, err error) {
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
		if d.Type().IsRegular() {
			paths = append(paths, path)
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, connector.Fatal(fmt.Errorf("input directory: %w", err))
	}
	if len(paths) == 0 {
		return nil, connector.Fatal(fmt.Errorf("input: no file in directory %s", dir))
	}
	slices.Sort(paths)
	return paths, nil
}

// verify refuses a file that is not the one that was discovered.
func (s *span) verify(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() != s.Size || info.ModTime().UnixNano() != s.ModNanos {
		return connector.Fatal(fmt.Errorf("%s has changed since the job discovered it: %d bytes of %s, now %d bytes of %s", s.Path,
			s.Size, time.Unix(0, s.ModNanos).UTC().Format(time.RFC3339Nano), info.Size(), info.ModTime().UTC().Format(time.RFC3339Nano)))
	}
	return nil
}
