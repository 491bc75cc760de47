package main

import (
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	pq "github.com/parquet-go/parquet-go"
	pqformat "github.com/parquet-go/parquet-go/format"

	"github.com/sluiceio/sluice/internal/vfs"
)

func main() {
	files := flag.Int("files", 1, "number of CSV files")
	row := flag.String("row", "", "`name` of a last column that numbers the rows from 0; empty: no such column")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: parquet2csv [-files N] [-row NAME] FILE.parquet DIR")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 2 || *files < 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := convert(flag.Arg(0), flag.Arg(1), options{parts: *files, row: *row}); err != nil {
		fmt.Fprintln(os.Stderr, "parquet2csv:", err)
		os.Exit(1)
	}
}

type options struct {
	parts int    // number of CSV files
	row   string // header of the column of row numbers; empty: none
}

// convert writes the rows of the file at from into parts below a new directory to.
func convert(from, to string, o options) (err error) {
	if _, err := os.Stat(to); err == nil {
		return fmt.Errorf("%s exists already", to)
	}
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close() // read only
	info, err := f.Stat()
	if err != nil {
		return err
	}
	file, err := pq.OpenFile(f, info.Size())
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(filepath.Clean(to)), ".parquet2csv-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	t, err := newTable(file, o.row)
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	for i := range int64(o.parts) {
		first, end := file.NumRows()*i/int64(o.parts), file.NumRows()*(i+1)/int64(o.parts)
		if err := t.part(filepath.Join(tmp, fmt.Sprintf("part-%03d.csv", i)), end-first); err != nil {
			return err
		}
	}
	return vfs.OS{}.Rename(tmp, to)
}

// table is the rows of a file that are not written yet.
type table struct {
	header   []string
	cells    []func(pq.Value) string // by column; the column of row numbers has none
	numbered bool                    // the last column of header holds row numbers
	row      int64                   // number of the next row
	groups   []pq.RowGroup
	rows     pq.Rows // of the row group being read; nil: none
	buf      []pq.Row
}

func newTable(file *pq.File, row string) (*table, error) {
	t := &table{groups: file.RowGroups(), buf: make([]pq.Row, 1024)}
	for _, path := range file.Schema().Columns() {
		if len(path) != 1 {
			return nil, fmt.Errorf("column %q is nested", path)
		}
		leaf, _ := file.Schema().Lookup(path...)
		if leaf.Node.Repeated() {
			return nil, fmt.Errorf("column %q is a list", path[0])
		}
		t.header = append(t.header, path[0])
		t.cells = append(t.cells, format(leaf.Node.Type()))
	}
	if row != "" {
		if slices.Contains(t.header, row) {
			return nil, fmt.Errorf("there is a column %q already", row)
		}
		t.header, t.numbered = append(t.header, row), true
	}
	return t, nil
}

// format is how values of a column are written.
func format(typ pq.Type) func(pq.Value) string {
	if lt := typ.LogicalType(); lt != nil {
		if ts, ok := lt.Value.(*pqformat.TimestampType); ok && ts.Unit.Value != nil {
			unit := ts.Unit.Value.Duration()
			perSecond := int64(time.Second / unit)
			return func(v pq.Value) string {
				x := v.Int64()
				return time.Unix(x/perSecond, x%perSecond*int64(unit)).UTC().Format("2006-01-02 15:04:05.999999999")
			}
		}
	}
	switch typ.Kind() {
	case pq.ByteArray, pq.FixedLenByteArray:
		return func(v pq.Value) string { return string(v.ByteArray()) }
	case pq.Double:
		return func(v pq.Value) string { return strconv.FormatFloat(v.Double(), 'g', -1, 64) }
	case pq.Float:
		return func(v pq.Value) string { return strconv.FormatFloat(float64(v.Float()), 'g', -1, 32) }
	}
	return pq.Value.String
}

// part writes the next n rows.
func (t *table) part(path string, n int64) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := csv.NewWriter(f)
	if err := w.Write(t.header); err != nil {
		return err
	}
	record := make([]string, len(t.header))
	for n > 0 {
		rows, err := t.next(n)
		if err != nil {
			return err
		}
		for _, row := range rows {
			clear(record)
			for _, v := range row {
				if !v.IsNull() {
					record[v.Column()] = t.cells[v.Column()](v)
				}
			}
			if t.numbered {
				record[len(t.cells)] = strconv.FormatInt(t.row, 10)
			}
			t.row++
			if err := w.Write(record); err != nil {
				return err
			}
		}
		n -= int64(len(rows))
	}
	w.Flush()
	return errors.Join(w.Error(), f.Sync())
}

// next reads at most n rows, at least one.
func (t *table) next(n int64) ([]pq.Row, error) {
	for {
		if t.rows == nil {
			if len(t.groups) == 0 {
				return nil, io.ErrUnexpectedEOF
			}
			t.rows, t.groups = t.groups[0].Rows(), t.groups[1:]
		}
		got, err := t.rows.ReadRows(t.buf[:min(int64(len(t.buf)), n)])
		if got > 0 {
			return t.buf[:got], nil
		}
		if !errors.Is(err, io.EOF) {
			return nil, errors.Join(err, t.rows.Close())
		}
		if err := t.rows.Close(); err != nil {
			return nil, err
		}
		t.rows = nil
	}
}
