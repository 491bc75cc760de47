package stdout

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
)

// Sink prints records with fmt's %v.
func Sink[T any]() connector.Sink[T] {
	return Format(func(dst []byte, v T) []byte { return fmt.Append(dst, v) })
}

// Format prints what line appends for a record.
func Format[T any](line func(dst []byte, v T) []byte) connector.Sink[T] {
	return &sink[T]{line: line, lock: new(sync.Mutex)}
}

type sink[T any] struct {
	line func([]byte, T) []byte
	lock *sync.Mutex // keeps the output of subtasks apart
}

func (s *sink[T]) Guarantee() connector.Guarantee { return connector.AtLeastOnce }

func (s *sink[T]) OpenWriter(context.Context, *connector.Task, [][]byte) (connector.Writer[T], error) {
	return &writer[T]{sink: s}, nil
}

// flushAt bounds what a writer holds back, in bytes.
const flushAt = 64 << 10

type writer[T any] struct {
	connector.NoCommit
	sink *sink[T]
	buf  []byte
}

func (w *writer[T]) Write(ctx context.Context, v T, _ element.Time) error {
	w.buf = append(w.sink.line(w.buf, v), '\n')
	if len(w.buf) >= flushAt {
		return w.Flush(ctx)
	}
	return nil
}

func (w *writer[T]) Flush(context.Context) error {
	w.sink.lock.Lock()
	defer w.sink.lock.Unlock()
	_, err := os.Stdout.Write(w.buf)
	w.buf = w.buf[:0]
	return err
}

func (w *writer[T]) End(ctx context.Context) error { return w.Flush(ctx) }
func (w *writer[T]) Close() error                  { return nil }
