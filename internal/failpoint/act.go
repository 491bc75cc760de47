package failpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Error is what an armed point returns.
type Error struct {
	Point string
	Text  string
}

func (e *Error) Error() string { return fmt.Sprintf("failpoint %s: %s", e.Point, e.Text) }

// releasePoll is how often a pause looks for the file that ends it.
const releasePoll = 10 * time.Millisecond

func (p *point) act(ctx context.Context) error {
	s := p.spec
	switch s.action {
	case actError:
		return &Error{Point: s.key, Text: s.message()}
	case actPanic:
		panic(&Error{Point: s.key, Text: s.message()})
	case actExit:
		p.announce("exits")
		os.Exit(s.code)
	case actKill:
		p.announce("kills itself")
		return kill()
	case actStop:
		p.announce("stops itself")
		return stop()
	case actPause:
		return p.pause(ctx)
	case actDelay:
		return wait(ctx, s.delay)
	}
	return nil
}

func (s spec) message() string {
	if s.text == "" {
		return "injected"
	}
	return s.text
}

// announce writes to standard error, since no logger outlives what follows.
func (p *point) announce(what string) {
	fmt.Fprintf(os.Stderr, "failpoint %s: process %d %s\n", p.spec.key, os.Getpid(), what)
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *point) pause(ctx context.Context) error {
	if p.spec.text != "" {
		return p.pauseByFile(ctx)
	}
	select {
	case <-p.released:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pauseByFile is a pause that another process sees and ends.
func (p *point) pauseByFile(ctx context.Context) error {
	base := filepath.Join(p.spec.text, p.spec.name())
	if err := os.WriteFile(base+".reached", nil, 0o644); err != nil {
		return fmt.Errorf("failpoint %s: %w", p.spec.key, err)
	}
	for {
		_, err := os.Stat(base + ".release")
		if err == nil {
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("failpoint %s: %w", p.spec.key, err)
		}
		if err := wait(ctx, releasePoll); err != nil {
			return err
		}
	}
}
