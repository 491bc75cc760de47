package concat

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
)

// Sources reads history to its end, which it must have, and then live.
func Sources[T any](history, live connector.Source[T]) connector.Source[T] {
	return &source[T]{[parts]connector.Source[T]{history, live}}
}

// The two sources.
const (
	first  = 0
	second = 1
	parts  = 2
)

type source[T any] struct{ of [parts]connector.Source[T] }

var (
	_ connector.PhasedSource     = (*source[int])(nil)
	_ connector.Checker          = (*source[int])(nil)
	_ connector.PhasedEnumerator = (*enumerator[int])(nil)
)

// Bounded: if live is.
func (s *source[T]) Bounded() bool { return s.of[second] == nil || s.of[second].Bounded() }

// Phases are those of both.
func (s *source[T]) Phases() int32 { return phases(s.of[first]) + phases(s.of[second]) }

func phases[T any](s connector.Source[T]) int32 {
	if p, ok := s.(connector.PhasedSource); ok {
		return p.Phases()
	}
	return 1
}

// Check: both exist, what comes first has an end, and neither has faults of its own.
func (s *source[T]) Check() error {
	for i, name := range [parts]string{"history", "live"} {
		switch c, checks := s.of[i].(connector.Checker); {
		case s.of[i] == nil:
			return fmt.Errorf("concatenation without a %s source", name)
		case i == first && !s.of[i].Bounded():
			return errors.New("what is to be read to its end before the live source never ends: the history source is not bounded")
		case checks:
			if err := c.Check(); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

func (s *source[T]) String() string {
	return fmt.Sprintf("%s, then %s", describe(s.of[first]), describe(s.of[second]))
}

func describe(s any) string {
	if t, ok := s.(fmt.Stringer); ok {
		return t.String()
	}
	return fmt.Sprintf("%T", s)
}

// OpenEnumerator starts with what restored says, or with history.
func (s *source[T]) OpenEnumerator(ctx context.Context, parallelism int, restored []byte) (connector.Enumerator, error) {
	part, inner := byte(first), []byte(nil)
	if restored != nil {
		var err error
		if part, inner, err = decodeEnumeration(restored); err != nil {
			return nil, err
		}
	}
	e := &enumerator[T]{src: s, parallelism: parallelism}
	return e, e.open(ctx, part, inner)
}

type enumerator[T any] struct {
	src         *source[T]
	parallelism int
	part        byte
	inner       connector.Enumerator
	ended       bool // the one of history has found everything
}

func (e *enumerator[T]) open(ctx context.Context, part byte, restored []byte) error {
	in, err := e.src.of[part].OpenEnumerator(ctx, e.parallelism, restored)
	if err != nil {
		return err
	}
	e.part, e.inner = part, in
	return nil
}

// Next discovers history first. The end of history is not that of the source: the enumerator of live is opened with the
// first call after it, so that phases of history can be asked about before.
func (e *enumerator[T]) Next(ctx context.Context) ([]connector.Split, error) {
	if e.ended && e.part == first {
		closing := e.inner
		if err := e.open(ctx, second, nil); err != nil {
			return nil, err
		}
		if err := closing.Close(); err != nil {
			return nil, err
		}
	}
	splits, err := e.inner.Next(ctx)
	out := make([]connector.Split, len(splits))
	for i, s := range splits {
		out[i] = wrap(e.part, s)
	}
	if e.part == second || !errors.Is(err, io.EOF) {
		return out, err
	}
	if e.ended = true; len(out) == 0 {
		return e.Next(ctx)
	}
	return out, nil
}

// Phase of a split: those of live follow all of history.
func (e *enumerator[T]) Phase(s connector.Split) int32 {
	part, inner, err := unwrap(s)
	if err != nil { // none of ours
		return 0
	}
	p := int32(0)
	if part == second {
		p = phases(e.src.of[first])
	}
	if part == e.part { // splits of the other one were discovered before, and asked about then
		if in, ok := e.inner.(connector.PhasedEnumerator); ok {
			p += in.Phase(inner)
		}
	}
	return p
}

func (e *enumerator[T]) Snapshot(id element.CheckpointID) ([]byte, error) {
	if e.ended && e.part == first {
		return encodeEnumeration(second, nil), nil
	}
	inner, err := e.inner.Snapshot(id)
	if err != nil {
		return nil, err
	}
	return encodeEnumeration(e.part, inner), nil
}

func (e *enumerator[T]) Close() error { return e.inner.Close() }

// OpenReader opens the reader of history; that of live follows with its first split.
func (s *source[T]) OpenReader(ctx context.Context, t *connector.Task) (connector.Reader[T], error) {
	r := &reader[T]{src: s, ctx: ctx, task: t}
	return r, r.start(first)
}
