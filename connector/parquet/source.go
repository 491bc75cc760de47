package parquet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	pq "github.com/parquet-go/parquet-go"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/connector/internal/localfile"
	"github.com/sluiceio/sluice/flow/element"
)

// Rows reads the rows of a file, of the .parquet files below a directory, or of the files that match a glob pattern, in
// the order of their names. T is a struct; its fields name columns as github.com/parquet-go/parquet-go reads them
// (`parquet:"name"`). A column without a field is ignored, a field without a column is an error.
func Rows[T any](pattern string) connector.Source[T] { return &source[T]{pattern: pattern} }

type source[T any] struct{ pattern string }

func (s *source[T]) Bounded() bool { return true }

// String is the detail that a plan shows.
func (s *source[T]) String() string { return s.pattern }

func (s *source[T]) OpenEnumerator(context.Context, int, []byte) (connector.Enumerator, error) {
	return &enumerator{pattern: s.pattern}, nil
}

func (s *source[T]) OpenReader(context.Context, *connector.Task) (connector.Reader[T], error) {
	return &reader[T]{}, nil
}

// enumerator lists the row groups once. What it found is recorded by the engine, so it has nothing to snapshot.
type enumerator struct {
	pattern string
	done    bool
}

func (e *enumerator) Next(ctx context.Context) ([]connector.Split, error) {
	if e.done {
		return nil, io.EOF
	}
	paths, err := localfile.Find(ctx, e.pattern, ".parquet")
	if err != nil {
		return nil, err
	}
	var splits []connector.Split
	for _, p := range paths {
		more, err := rowGroups(p)
		if err != nil {
			return nil, connector.Fatal(fmt.Errorf("input: %w", err))
		}
		splits = append(splits, more...)
	}
	e.done = true
	return splits, io.EOF
}

func (e *enumerator) Snapshot(element.CheckpointID) ([]byte, error) { return nil, nil }
func (e *enumerator) Close() error                                  { return nil }

func rowGroups(path string) (splits []connector.Split, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	file, err := openFile(f, info.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for i, g := range file.RowGroups() {
		if g.NumRows() > 0 {
			s := group{Path: path, Stamp: localfile.StampOf(info), Group: i, Rows: g.NumRows()}
			splits = append(splits, s.split())
		}
	}
	return splits, nil
}

// guarded turns a panic of the Parquet library, which damaged files and unfit types cause, into an error.
func guarded(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("parquet: %v", v)
		}
	}()
	return f()
}

func openFile(r io.ReaderAt, size int64) (file *pq.File, err error) {
	err = guarded(func() (err error) {
		file, err = pq.OpenFile(r, size)
		return err
	})
	return file, err
}

// reader reads its row groups one after another.
type reader[T any] struct {
	groups []*group
	at     int // groups before it are finished
	file   *os.File
	rows   *pq.GenericReader[T] // of group at; nil: not open
	buf    []T
}

func (r *reader[T]) Assign(splits []connector.Split) error {
	for _, s := range splits {
		g, err := decode(s)
		if err != nil {
			return connector.Fatal(err)
		}
		r.groups = append(r.groups, g)
	}
	return nil
}

// atOnce is how many rows are decoded between two looks at the context.
const atOnce = 256

func (r *reader[T]) Poll(ctx context.Context, out *connector.Records[T]) error {
	for ctx.Err() == nil && !out.Full() {
		if r.at == len(r.groups) {
			return io.EOF
		}
		if err := r.read(out); err != nil {
			return fmt.Errorf("%s: %w", r.groups[r.at].Path, err)
		}
	}
	return nil
}

func (r *reader[T]) read(out *connector.Records[T]) error {
	if r.rows == nil {
		if err := r.open(); err != nil {
			return connector.Fatal(errors.Join(err, r.Close()))
		}
	}
	g, split := r.groups[r.at], connector.SplitIndex(r.at)
	want := min(atOnce, out.Max-out.Len(), int(min(g.Rows-g.Next, atOnce)))
	if cap(r.buf) < want {
		r.buf = make([]T, atOnce)
	}
	rows := r.buf[:want]
	clear(rows) // rows of the last Poll belong to the engine
	n := 0
	err := guarded(func() (err error) {
		n, err = r.rows.Read(rows)
		return err
	})
	for i := range n {
		out.Add(split, rows[i], element.MinTime, g.Next)
		g.Next++
	}
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return connector.Fatal(fmt.Errorf("row group %d, row %d: %w", g.Group, g.Next, err))
	case g.Next == g.Rows:
		out.Finish(split)
		r.at++
		return r.Close()
	case n == 0:
		return connector.Fatal(fmt.Errorf("row group %d ends after %d of %d rows", g.Group, g.Next, g.Rows))
	}
	return nil
}

// open goes to the next row of the current group.
func (r *reader[T]) open() (err error) {
	g := r.groups[r.at]
	if r.file, err = os.Open(g.Path); err != nil {
		return err
	}
	if err := g.Verify(r.file); err != nil {
		return err
	}
	file, err := openFile(r.file, g.Size)
	if err != nil {
		return err
	}
	return guarded(func() error {
		groups := file.RowGroups()
		if g.Group >= len(groups) || groups[g.Group].NumRows() != g.Rows {
			return fmt.Errorf("has no row group %d of %d rows", g.Group, g.Rows)
		}
		if err := fits[T](file); err != nil {
			return err
		}
		r.rows = pq.NewGenericRowGroupReader[T](groups[g.Group])
		return r.rows.SeekToRow(g.Next)
	})
}

// fits checks that the file has a column for each field of T: the library would leave the others zero.
func fits[T any](file *pq.File) error {
	var missing []string
	for _, path := range pq.SchemaOf(new(T)).Columns() {
		if _, ok := file.Schema().Lookup(path...); !ok {
			missing = append(missing, strings.Join(path, "."))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	var have []string
	for _, path := range file.Schema().Columns() {
		have = append(have, strings.Join(path, "."))
	}
	return fmt.Errorf("no column %s; the columns are %s", strings.Join(missing, ", "), strings.Join(have, ", "))
}

// Describe names the row within its row group.
func (r *reader[T]) Describe(s connector.SplitIndex, pos int64) string {
	if int(s) >= len(r.groups) {
		return "?"
	}
	g := r.groups[s]
	return g.Path + ", row group " + strconv.Itoa(g.Group) + ", row " + strconv.FormatInt(pos, 10)
}

func (r *reader[T]) Snapshot(element.CheckpointID) ([]connector.Split, error) {
	var splits []connector.Split
	for _, g := range r.groups[r.at:] {
		splits = append(splits, g.split())
	}
	return splits, nil
}

func (r *reader[T]) Committed(context.Context, element.CheckpointID) error { return nil }

func (r *reader[T]) Close() error {
	var err error
	if r.rows != nil {
		err = guarded(r.rows.Close)
	}
	if r.file != nil {
		err = errors.Join(err, r.file.Close())
	}
	r.rows, r.file = nil, nil
	return err
}
