package run

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
)

// ErrExited is the failure of a task whose goroutine was ended in the middle by runtime.Goexit, which testing.T.FailNow
// calls too.
var ErrExited = errors.New("the goroutine was ended by runtime.Goexit; return an error instead")

// ErrStopped is the cause of a group's context after Stop.
var ErrStopped = errors.New("stopped")

// Group runs named tasks that live and end together.
type Group struct {
	name   string
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup

	mu struct {
		sync.Mutex
		err  error // the first failure; set once
		done bool  // Wait has returned
	}
}

// NewGroup makes an empty group whose context ends with parent. name appears in errors.
func NewGroup(parent context.Context, name string) *Group {
	ctx, cancel := context.WithCancelCause(parent)
	return &Group{name: name, ctx: ctx, cancel: cancel}
}

// Context ends when the parent ends, when a task fails, or at Stop.
func (g *Group) Context() context.Context { return g.ctx }

// Go starts f as a task of the group. An error other than the group's own cancellation ends the group; so does a
// panic, which is reported with its stack instead of taking the process down half-way through another task's write, and a
// runtime.Goexit (ErrExited).
func (g *Group) Go(name string, f func(ctx context.Context) error) {
	g.mu.Lock()
	if g.mu.done {
		g.mu.Unlock()
		panic(fmt.Sprintf("run: %s/%s started after the group had ended", g.name, name))
	}
	g.wg.Add(1)
	g.mu.Unlock()
	go func() {
		defer g.wg.Done()
		err := ErrExited // stands if f does not return
		defer func() {
			if err != nil && !g.cancelled(err) {
				g.fail(fmt.Errorf("%s/%s: %w", g.name, name, err))
			}
		}()
		err = protect(g.ctx, f)
	}()
}

// PanicError is a panic of a task.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

func protect(ctx context.Context, f func(context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return f(ctx)
}

// cancelled: err only repeats that the group is being stopped.
func (g *Group) cancelled(err error) bool {
	return g.ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(g.ctx)))
}

func (g *Group) fail(err error) {
	g.mu.Lock()
	if g.mu.err == nil {
		g.mu.err = err
	}
	g.mu.Unlock()
	g.cancel(err)
}

// Stop asks every task to end. It does not wait.
func (g *Group) Stop() { g.cancel(ErrStopped) }

// Wait returns when every task has ended, with the first failure. The end of the parent context or Stop is no failure.
func (g *Group) Wait() error {
	g.wg.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.done = true
	g.cancel(ErrStopped)
	return g.mu.err
}
