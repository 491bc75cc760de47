package file

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/connector/internal/localfile"
	"github.com/sluiceio/sluice/flow/element"
)

const splitVersion = 1

// span is a byte range of one file, and how far it has been read. A record belongs to the span of its first byte.
type span struct {
	Path string `json:"path"`
	localfile.Stamp
	First int64 `json:"first"`
	End   int64 `json:"end"`
	// Next is the first byte that was not delivered; of the decompressed bytes for gzip. Equal to First: nothing yet.
	Next int64 `json:"next"`
	// Line counts the lines before Next in a span that begins at byte 0; it names places in errors.
	Line int64 `json:"line"`
}

func (s *span) verify(f *os.File) error {
	if err := s.Verify(f); err != nil {
		return fmt.Errorf("%s %w", s.Path, err)
	}
	return nil
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
	paths, err := localfile.Find(ctx, e.pattern, "")
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
	whole := span{Path: path, Stamp: localfile.StampOf(info), End: info.Size()}
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
