package run

import (
	"context"
	"errors"
	"runtime"
	"testing"
)

func TestATaskThatEndsItsGoroutineFailsTheGroup(t *testing.T) {
	g := NewGroup(t.Context(), "group")
	g.Go("quits", func(context.Context) error { runtime.Goexit(); return nil })
	g.Go("waits", func(ctx context.Context) error { <-ctx.Done(); return nil })
	if err := g.Wait(); !errors.Is(err, ErrExited) {
		t.Errorf("%v", err)
	}
}
