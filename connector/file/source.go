package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/connector/internal/pace"
	"github.com/sluiceio/sluice/flow/element"
)

// Option of a source.
type Option func(*options)

type options struct {
	splitSize int64
	quotes    bool
	rate      int
}

// SplitSize sets the size in bytes of the ranges into which large files are cut; 64 MiB by default.
func SplitSize(bytes int64) Option { return func(o *options) { o.splitSize = max(1, bytes) } }

// NoQuotes says that the CSV input quotes nothing: a quote is an ordinary character, records are lines, and large
// files are read in parallel ranges.
func NoQuotes() Option { return func(o *options) { o.quotes = false } }

// Rate limits every subtask that reads to n records per second; 0, the default, is full speed.
func Rate(n int) Option { return func(o *options) { o.rate = max(0, n) } }

func gather(opts []Option) options {
	o := options{splitSize: 64 << 20, quotes: true}
	for _, f := range opts {
		f(&o)
	}
	return o
}

// Lines reads the lines of text files, without their breaks.
func Lines(pattern string, opts ...Option) connector.Source[string] {
	return &source[string]{pattern: pattern, options: gather(opts), divisible: true, format: func() (format[string], error) { return textFormat{}, nil }}
}

// JSON reads one JSON value per line; blank lines are skipped.
func JSON[T any](pattern string, opts ...Option) connector.Source[T] {
	return &source[T]{pattern: pattern, options: gather(opts), divisible: true, format: func() (format[T], error) { return jsonFormat[T]{}, nil }}
}

// CSV reads records whose first line names the columns. Fields of T take the column of their tag `csv:"name"`, or of
// their own name; a column without field is ignored, a field without column is an error. Fields are strings, integers,
// floats, booleans, time.Time, or an integer type of microseconds since the epoch with the tag `csv:"name,time"`; times
// are RFC 3339 or "2006-01-02 15:04:05" in UTC.
func CSV[T any](pattern string, opts ...Option) connector.Source[T] {
	o := gather(opts)
	return &source[T]{pattern: pattern, options: o, divisible: !o.quotes, format: func() (format[T], error) { return newCSV[T](o.quotes) }}
}

// format turns lines into records.
type format[T any] interface {
	// header is given the lines of a file once it is opened at byte 0, before any record.
	header(l *lines) error
	// next decodes the record that begins at the next line. skip: there was none in it.
	next(l *lines) (v T, raw []byte, skip bool, err error)
}

type source[T any] struct {
	pattern   string
	options   options
	divisible bool
	format    func() (format[T], error)
}

func (s *source[T]) Bounded() bool { return true }

// String is the detail that a plan shows.
func (s *source[T]) String() string { return s.pattern }

func (s *source[T]) OpenEnumerator(context.Context, int, []byte) (connector.Enumerator, error) {
	return &enumerator{pattern: s.pattern, splitSize: s.options.splitSize, divisible: s.divisible}, nil
}

func (s *source[T]) OpenReader(_ context.Context, t *connector.Task) (connector.Reader[T], error) {
	f, err := s.format()
	if err != nil {
		return nil, connector.Fatal(err)
	}
	return &reader[T]{format: f, rate: float64(s.options.rate)}, nil
}

// reader reads its spans one after another.
type reader[T any] struct {
	format format[T]
	spans  []*span
	at     int // spans before it are finished
	open   *lines
	rate   float64 // records per second; 0: full speed
	pace   pace.Pace
}

func (r *reader[T]) Assign(splits []connector.Split) error {
	for _, s := range splits {
		sp, err := decodeSpan(s)
		if err != nil {
			return connector.Fatal(err)
		}
		r.spans = append(r.spans, sp)
	}
	return nil
}

// interruptEvery is how many records pass between two looks at the context.
const interruptEvery = 64

func (r *reader[T]) Poll(ctx context.Context, out *connector.Records[T]) error {
	room, ok := r.pace.Take(ctx, r.rate, out.Max)
	if !ok {
		return nil // interrupted: the engine has something to say and asks again
	}
	n := 0
	defer func() { r.pace.GiveBack(r.rate, room-n) }()
	for ; n < room && !out.Full(); n++ {
		if n%interruptEvery == 0 && ctx.Err() != nil {
			break
		}
		if r.open == nil {
			if r.at == len(r.spans) {
				return io.EOF
			}
			if err := r.start(); err != nil {
				return err
			}
		}
		more, err := r.read(out)
		if err != nil {
			return err
		}
		if !more {
			if err := r.finish(out); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *reader[T]) start() error {
	s := r.spans[r.at]
	if err := r.readHeader(s); err != nil {
		return err
	}
	l, err := openLines(s)
	if err != nil {
		return err
	}
	r.open = l
	if s.Next == 0 { // the header is not a record
		if err := r.format.header(l); err != nil {
			return err
		}
		s.Next, s.Line = l.at, l.line
	}
	return nil
}

// readHeader reads the header of a file whose records are read from its middle.
func (r *reader[T]) readHeader(s *span) error {
	if s.Next == 0 {
		return nil
	}
	whole := *s
	whole.First, whole.Next, whole.Line = 0, 0, 0
	l, err := openLines(&whole)
	if err != nil {
		return err
	}
	return errors.Join(r.format.header(l), l.close())
}

// read delivers one record; false: the span has none left.
func (r *reader[T]) read(out *connector.Records[T]) (bool, error) {
	s, l := r.spans[r.at], r.open
	if l.ended() {
		return false, nil
	}
	pos := l.at
	if s.First == 0 {
		pos = l.line + 1
	}
	v, raw, skip, err := r.format.next(l)
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	s.Next, s.Line = l.at, l.line
	if err != nil {
		return true, r.malformed(out, raw, pos, err)
	}
	if !skip {
		out.Add(connector.SplitIndex(r.at), v, element.MinTime, pos)
	}
	return true, nil
}

// malformed hands a record that cannot be decoded to the error policy; any other error ends the reading.
func (r *reader[T]) malformed(out *connector.Records[T], raw []byte, pos int64, err error) error {
	var bad *recordError
	if !errors.As(err, &bad) {
		return err
	}
	bad.place = r.Describe(connector.SplitIndex(r.at), pos)
	out.AddError(connector.SplitIndex(r.at), append([]byte(nil), raw...), pos, bad)
	return nil
}

func (r *reader[T]) finish(out *connector.Records[T]) error {
	// A file that was cut short looks as if it had ended.
	if err := r.spans[r.at].verify(r.open.file); err != nil {
		return err
	}
	err := r.open.close()
	out.Finish(connector.SplitIndex(r.at))
	r.open = nil
	r.at++
	return err
}

// Describe names the line if the file is read from its beginning, else the byte of the record.
func (r *reader[T]) Describe(s connector.SplitIndex, pos int64) string {
	if int(s) >= len(r.spans) {
		return "?"
	}
	sp := r.spans[s]
	if sp.First == 0 {
		return sp.Path + ", line " + strconv.FormatInt(pos, 10)
	}
	return sp.Path + ", byte " + strconv.FormatInt(pos, 10)
}

func (r *reader[T]) Snapshot(element.CheckpointID) ([]connector.Split, error) {
	var splits []connector.Split
	for _, s := range r.spans[r.at:] {
		splits = append(splits, s.split())
	}
	return splits, nil
}

func (r *reader[T]) Committed(context.Context, element.CheckpointID) error { return nil }

func (r *reader[T]) Close() error {
	if r.open == nil {
		return nil
	}
	err := r.open.close()
	r.open = nil
	return err
}

// recordError is a record that cannot be decoded; the rest of the file can still be read.
type recordError struct {
	place  string
	column string
	err    error
}

func (e *recordError) Error() string {
	if e.column != "" {
		return fmt.Sprintf("%s, column %q: %v", e.place, e.column, e.err)
	}
	return fmt.Sprintf("%s: %v", e.place, e.err)
}

func (e *recordError) Unwrap() error { return e.err }
