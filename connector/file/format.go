package file

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/sluiceio/sluice/connector"
)

type textFormat struct{}

func (textFormat) header(*lines) error { return nil }

func (textFormat) next(l *lines) (v string, raw []byte, skip bool, err error) {
	raw, _, err = l.next()
	return string(raw), raw, false, err
}

type jsonFormat[T any] struct{}

func (jsonFormat[T]) header(*lines) error { return nil }

func (jsonFormat[T]) next(l *lines) (v T, raw []byte, skip bool, err error) {
	raw, _, err = l.next()
	if err != nil {
		return v, raw, false, err
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		return v, raw, true, nil
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, raw, false, &recordError{err: err}
	}
	return v, raw, false, nil
}

// csvFormat decodes lines without quotes by cutting them at commas, and hands the others to encoding/csv.
type csvFormat[T any] struct {
	fields []field
	quotes bool
	names  []string
	// columns holds for each column of the current file the field that takes it, -1 for none.
	columns []int
	text    []byte        // of a record with quoted line breaks
	row     T             // under construction: kept here, a local one would be allocated per record
	cells   reflect.Value // row, to set its fields
	words   words
}

func newCSV[T any](quotes bool) (*csvFormat[T], error) {
	fields, err := fieldsOf(reflect.TypeFor[T]())
	if err != nil {
		return nil, err
	}
	f := &csvFormat[T]{fields: fields, quotes: quotes}
	f.cells = reflect.ValueOf(&f.row).Elem()
	return f, nil
}

func (f *csvFormat[T]) header(l *lines) error {
	line, err := f.record(l)
	if errors.Is(err, io.EOF) {
		return connector.Fatal(fmt.Errorf("%s: no header", l.span.Path))
	}
	if err != nil {
		return err
	}
	names, err := f.split(bytes.TrimPrefix(line, []byte("\ufeff")))
	if err != nil {
		return connector.Fatal(fmt.Errorf("%s, line 1: header: %w", l.span.Path, err))
	}
	columns := make([]int, len(names))
	found := 0
	for i, name := range names {
		columns[i] = slices.IndexFunc(f.fields, func(fl field) bool { return fl.name == name })
		if columns[i] >= 0 {
			found++
		}
	}
	for _, fl := range f.fields {
		if n := count(names, fl.name); n != 1 {
			return connector.Fatal(fmt.Errorf("%s, line 1: column %q occurs %d times in the header %q", l.span.Path, fl.name, n, strings.Join(names, ",")))
		}
	}
	f.columns, f.names = columns, names
	return nil
}

func count(names []string, name string) (n int) {
	for _, s := range names {
		if s == name {
			n++
		}
	}
	return n
}

// record is the text of one record; more than a line if a quoted field holds line breaks.
func (f *csvFormat[T]) record(l *lines) ([]byte, error) {
	line, _, err := l.next()
	if err != nil || !f.quotes || bytes.Count(line, []byte{'"'})%2 == 0 {
		return line, err
	}
	f.text = append(f.text[:0], line...)
	for {
		line, _, err := l.next()
		if errors.Is(err, io.EOF) {
			return f.text, nil // encoding/csv names the missing quote
		}
		if err != nil {
			return nil, err
		}
		f.text = append(append(f.text, '\n'), line...)
		if len(f.text) > maxLine {
			return nil, connector.Fatal(fmt.Errorf("%s, line %d: a quoted field of more than %d MiB", l.span.Path, l.line, maxLine>>20))
		}
		if bytes.Count(line, []byte{'"'})%2 == 1 {
			return f.text, nil
		}
	}
}

// split cuts a record into copies of its fields.
func (f *csvFormat[T]) split(text []byte) ([]string, error) {
	if !f.quotes || bytes.IndexByte(text, '"') < 0 {
		return strings.Split(string(text), ","), nil
	}
	r := csv.NewReader(bytes.NewReader(text))
	r.FieldsPerRecord = -1
	return r.Read()
}

func (f *csvFormat[T]) next(l *lines) (v T, raw []byte, skip bool, err error) {
	raw, err = f.record(l)
	if err != nil {
		return v, raw, false, err
	}
	if len(raw) == 0 && len(f.columns) > 1 {
		return v, raw, true, nil // a blank line, as in encoding/csv
	}
	f.row = v
	if !f.quotes || bytes.IndexByte(raw, '"') < 0 {
		err = f.fast(raw)
	} else {
		err = f.quoted(raw)
	}
	return f.row, raw, false, err
}

func (f *csvFormat[T]) fast(text []byte) error {
	for i, to := range f.columns {
		if text == nil {
			return f.width(i)
		}
		cell := text
		if comma := bytes.IndexByte(text, ','); comma >= 0 {
			cell, text = text[:comma], text[comma+1:]
		} else {
			text = nil
		}
		if to >= 0 {
			if err := f.fields[to].set(f.cells, cell, &f.words); err != nil {
				return &recordError{column: f.names[i], err: err}
			}
		}
	}
	if text != nil {
		return f.width(len(f.columns) + 1 + bytes.Count(text, []byte{','}))
	}
	return nil
}

func (f *csvFormat[T]) quoted(text []byte) error {
	cells, err := f.split(text)
	if err != nil {
		return &recordError{err: err}
	}
	if len(cells) != len(f.columns) {
		return f.width(len(cells))
	}
	for i, to := range f.columns {
		if to >= 0 {
			if err := f.fields[to].set(f.cells, []byte(cells[i]), &f.words); err != nil {
				return &recordError{column: f.names[i], err: err}
			}
		}
	}
	return nil
}

func (f *csvFormat[T]) width(got int) error {
	return &recordError{err: fmt.Errorf("%d fields, the header has %d", got, len(f.columns))}
}
