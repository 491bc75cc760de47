package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sluiceio/sluice/internal/run"
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
	var o options
	flag.BoolVar(&o.again, "again", false, "forget which claims held in an earlier run of the same binaries")
	flag.StringVar(&o.only, "only", "", "`regexp`: run the claims whose names match, and leave the page alone")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := verify(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "verify:", err)
		os.Exit(1)
	}
}

type options struct {
	again bool
	only  string
}

func verify(ctx context.Context, o options) (err error) {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	pattern, err := regexp.Compile(o.only)
	if err != nil {
		return err
	}
	build, err := buildOf(filepath.Join(root, "bin"))
	if err != nil {
		return fmt.Errorf("%w: run `make build` first", err)
	}
	path := filepath.Join(root, "bin", "verify.json")
	if o.again {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	j, err := openJournal(path, build)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "sluice-verify-")
	if err != nil {
		return err
	}
	s := &suite{root: root, dir: dir}
	defer func() { err = errors.Join(err, s.stop(context.WithoutCancel(ctx)), os.RemoveAll(dir)) }()
	if err := s.prepare(); err != nil {
		return err
	}
	results, err := examine(ctx, s.claims(), pattern, j)
	if err != nil {
		return err
	}
	if o.only == "" {
		if err := write(filepath.Join(root, "docs", "verified.md"), results); err != nil {
			return err
		}
	}
	failed := 0
	for _, r := range results {
		if r.err != nil {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d claims do not hold", failed, len(results))
	}
	return nil
}

// examine checks the claims that match, and takes those that the journal knows from there.
func examine(ctx context.Context, claims []claim, pattern *regexp.Regexp, j *journal) ([]result, error) {
	var results []result
	begun := time.Now()
	for i, c := range claims {
		if !pattern.MatchString(c.name) {
			continue
		}
		fmt.Printf("%3d/%d  %7v  %s … ", i+1, len(claims), time.Since(begun).Round(time.Second), c.name)
		if h, ok := j.Held[c.name]; ok {
			results = append(results, result{claim: c, figure: h.Figure, took: h.Took})
			fmt.Println("held in an earlier run")
			continue
		}
		start := time.Now()
		figure, err := c.check(ctx)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		r := result{claim: c, figure: figure, err: err, took: time.Since(start).Round(time.Millisecond)}
		results = append(results, r)
		fmt.Printf("%s: %s (%v)\n", verdict(err), figure, r.took)
		if err != nil {
			fmt.Println("    ", err)
		}
		if err := j.note(r); err != nil {
			return nil, err
		}
	}
	return results, nil
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

// output executes a command and returns its standard output; an error carries the end of what it said.
func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	out, _, err := watched(ctx, dir, env, name, args...)
	return out, err
}

// memory is the most that a process had resident, in bytes; 0 where that is not known.
type memory struct {
	own int64 // of its own: what would have to be swapped out
	all int64 // with the parts of files that it has mapped, which the kernel drops when somebody needs room
}

// watchEvery is how often the memory of a process is looked at.
const watchEvery = 100 * time.Millisecond

// watched is output, and tells how much memory the process had.
func watched(ctx context.Context, dir string, env []string, name string, args ...string) (text string, m memory, err error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		return "", m, err
	}
	watch := run.NewGroup(ctx, "watch")
	watch.Go("memory", func(ctx context.Context) error {
		look := time.NewTicker(watchEvery)
		defer look.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-look.C:
			}
			if b, ok := residentOf(cmd.Process.Pid, "RssAnon"); ok {
				m.own = max(m.own, b)
			}
		}
	})
	err = cmd.Wait()
	watch.Stop()
	err = errors.Join(err, watch.Wait())
	if err != nil {
		tail := strings.TrimSpace(stderr.String() + "\n" + stdout.String())
		return "", m, fmt.Errorf("%s: %w: %s", filepath.Base(name), err, tail[max(0, len(tail)-2000):])
	}
	if use, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok && runtime.GOOS == "linux" {
		m.all = use.Maxrss << 10
	}
	return strings.TrimSpace(stdout.String()), m, nil
}

// residentOf is what Linux says of the memory of a process, in bytes: VmRSS, or RssAnon, its part that is in no file.
func residentOf(pid int, field string) (bytes int64, ok bool) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, false // it has ended, or the system has no such files
	}
	for line := range strings.Lines(string(status)) {
		if value, found := strings.CutPrefix(line, field+":"); found {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			return kb << 10, err == nil
		}
	}
	return 0, false
}

var errNoData = errors.New("data/flights-3m is missing or of an earlier release: run `make data` first (it needs npm)")
