package parquet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sluiceio/sluice/connector"
)

const splitVersion = 1

// group is a row group of one file, and how far it has been read.
type group struct {
	Path     string `json:"path"`
	Size     int64  `json:"size"`
	ModNanos int64  `json:"mtime"`
	Group    int    `json:"group"`
	Rows     int64  `json:"rows"`
	Next     int64  `json:"next"` // the first row that was not delivered
}

func (g *group) split() connector.Split {
	data, err := json.Marshal(g)
	if err != nil {
		panic(fmt.Sprintf("a group of strings and integers cannot be encoded: %v", err))
	}
	return connector.Split{ID: g.Path + "#" + strconv.Itoa(g.Group), Version: splitVersion, Data: data}
}

func decode(s connector.Split) (*group, error) {
	if s.Version != splitVersion {
		return nil, fmt.Errorf("parquet split %q has version %d, this connector reads %d", s.ID, s.Version, splitVersion)
	}
	g := new(group)
	if err := json.Unmarshal(s.Data, g); err != nil {
		return nil, fmt.Errorf("parquet split %q: %w", s.ID, err)
	}
	if g.Path == "" || g.Group < 0 || g.Rows < 1 || g.Next < 0 || g.Next > g.Rows || g.Size < 0 {
		return nil, fmt.Errorf("parquet split %q: impossible row group %d with row %d of %d", s.ID, g.Group, g.Next, g.Rows)
	}
	return g, nil
}

// verify refuses a file that is not the one that was discovered.
func (g *group) verify(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() != g.Size || info.ModTime().UnixNano() != g.ModNanos {
		return fmt.Errorf("has changed since the job discovered it: %d bytes, now %d, or another time of modification", g.Size, info.Size())
	}
	return nil
}

// list finds the files of a pattern, sorted by name.
func list(ctx context.Context, pattern string) (paths []string, err error) {
	info, err := os.Stat(pattern)
	switch {
	case err == nil && info.IsDir():
		paths, err = walk(ctx, pattern)
	case err == nil:
		paths = []string{pattern}
	case errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(pattern, "*?["):
		if paths, err = filepath.Glob(pattern); err != nil {
			err = fmt.Errorf("pattern %q: %w", pattern, err)
		}
	}
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("no Parquet file at %q", pattern)
	}
	slices.Sort(paths)
	return paths, nil
}

// walk finds the .parquet files below dir, without hidden ones.
func walk(ctx context.Context, dir string) (paths []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path != dir && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.Type().IsRegular() && strings.HasSuffix(d.Name(), ".parquet"):
			paths = append(paths, path)
		}
		return ctx.Err()
	})
	return paths, err
}
