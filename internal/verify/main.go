package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// claim is one line of the page.
type claim struct {
	name    string
	command string
	check   func(ctx context.Context) (figure string, err error)
}

type result struct {
	claim
	figure string
	err    error
	took   time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := verify(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "verify:", err)
		os.Exit(1)
	}
}

func verify(ctx context.Context) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "sluice-verify-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s := &suite{root: root, dir: dir}
	if err := s.prepare(); err != nil {
		return err
	}
	var results []result
	failed := 0
	for _, c := range s.claims() {
		start := time.Now()
		figure, err := c.check(ctx)
		r := result{claim: c, figure: figure, err: err, took: time.Since(start).Round(time.Millisecond)}
		results = append(results, r)
		fmt.Printf("%-60s %-40s %v\n", c.name, figure, verdict(err))
		if err != nil {
			failed++
			fmt.Println("   ", err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if err := write(filepath.Join(root, "docs", "verified.md"), results); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d claims do not hold", failed, len(results))
	}
	return nil
}

func verdict(err error) string {
	if err != nil {
		return "FAILED"
	}
	return "holds"
}

func write(path string, results []result) error {
	var b strings.Builder
	commit, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return fmt.Errorf("git rev-parse: %w", err)
	}
	fmt.Fprintf(&b, "# Verified\n\nWritten by `make verify` on %s at commit %s with %s on %s/%s, %d CPUs.\n\n",
		time.Now().UTC().Format("2006-01-02"), strings.TrimSpace(string(commit)), runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	b.WriteString("| claim | command | figure | time | verdict |\n|---|---|---|---|---|\n")
	for _, r := range results {
		v := verdict(r.err)
		if r.err != nil {
			v += ": " + strings.ReplaceAll(strings.SplitN(r.err.Error(), "\n", 2)[0], "|", "\\|")
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s | %v | %s |\n", r.name, r.command, r.figure, r.took, v)
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

// run executes a command and returns its standard output; an error carries the end of what it said.
func run(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		tail := strings.TrimSpace(stderr.String() + "\n" + string(out))
		return "", fmt.Errorf("%s: %w: %s", filepath.Base(name), err, tail[max(0, len(tail)-2000):])
	}
	return strings.TrimSpace(string(out)), nil
}

var errNoData = errors.New("data/flights-3m is missing: run `make data` first (it needs npm)")
