package file

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sluiceio/sluice/connector"
)

// maxLine bounds one line, in bytes.
const maxLine = 64 << 20

// lines reads the lines of one span.
type lines struct {
	span *span
	file *os.File
	zip  *gzip.Reader
	in   *bufio.Reader
	at   int64  // of the next unread byte; of the decompressed bytes for gzip
	line int64  // lines read, counted from the beginning of the file if the span begins there
	long []byte // a line that did not fit into in's buffer
}

func openLines(s *span) (_ *lines, err error) {
	f, err := os.Open(s.Path)
	if err != nil {
		return nil, connector.Fatal(fmt.Errorf("input: %w", err))
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	if err := s.verify(f); err != nil {
		return nil, err
	}
	l := &lines{span: s, file: f, line: s.Line}
	if s.gzip() {
		if l.zip, err = gzip.NewReader(bufio.NewReaderSize(f, 128<<10)); err != nil {
			return nil, connector.Fatal(fmt.Errorf("%s: %w", s.Path, err))
		}
		l.in = bufio.NewReaderSize(l.zip, 256<<10)
		return l, l.skip(s.Next)
	}
	l.in = bufio.NewReaderSize(f, 256<<10)
	return l, l.seek(s.Next)
}

// skip discards n decompressed bytes: gzip has no other way to a position.
func (l *lines) skip(n int64) error {
	m, err := io.CopyN(io.Discard, l.in, n)
	l.at = m
	if err != nil {
		return connector.Fatal(fmt.Errorf("%s ends before position %d: %w", l.span.Path, n, err))
	}
	return nil
}

// seek goes to next. A span that has delivered nothing and does not begin the file first looks for the start of a
// record: its first byte may lie inside a record of the span before, or be a start by itself.
func (l *lines) seek(next int64) error {
	search := next == l.span.First && next > 0
	if search {
		next--
	}
	if _, err := l.file.Seek(next, io.SeekStart); err != nil {
		return fmt.Errorf("%s: %w", l.span.Path, err)
	}
	l.in.Reset(l.file)
	l.at = next
	if !search {
		return nil
	}
	_, _, err := l.next()
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// ended: the next record, if any, belongs to another span.
func (l *lines) ended() bool { return l.zip == nil && l.at >= l.span.End }

// next returns one line without its break, valid until the next call, and the position of its first byte.
// io.EOF: no line is left in the file.
func (l *lines) next() (line []byte, start int64, err error) {
	start = l.at
	line, err = l.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		line, err = l.rest(line)
	}
	l.at += int64(len(line))
	if len(line) > 0 {
		l.line++
	}
	switch {
	case err == nil:
		line = line[:len(line)-1]
	case errors.Is(err, io.EOF) && len(line) > 0: // the last line has no break
	case errors.Is(err, io.EOF):
		return nil, start, io.EOF
	default:
		return nil, start, fmt.Errorf("%s at byte %d: %w", l.span.Path, start, err)
	}
	return bytes.TrimSuffix(line, []byte{'\r'}), start, nil
}

func (l *lines) rest(head []byte) ([]byte, error) {
	l.long = append(l.long[:0], head...)
	for {
		part, err := l.in.ReadSlice('\n')
		l.long = append(l.long, part...)
		if len(l.long) > maxLine {
			return nil, connector.Fatal(fmt.Errorf("a line of more than %d MiB", maxLine>>20))
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return l.long, err
		}
	}
}

func (l *lines) close() error {
	var err error
	if l.zip != nil {
		err = l.zip.Close()
	}
	return errors.Join(err, l.file.Close())
}
