package ops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// located is a job's program: a file to submit as it is, or one that was built from a package.
type located struct {
	path    string
	name    string // of the job, unless the user gives one
	cleanup func() error
}

// locate finds the program that the user means. A directory is a Go package and is built for the platform.
func locate(ctx context.Context, s *Session, arg string, platforms []string) (*located, error) {
	info, err := os.Stat(arg)
	if err != nil {
		return nil, &Fault{
			Exit: ExitUsage, Code: CodeLocalFile, Err: fmt.Errorf("%s: no such program or package directory", arg), Where: arg,
			Hints: []string{"give the path of a job's binary, or of the directory of its main package"},
		}
	}
	if !info.IsDir() {
		return &located{path: arg, name: jobName(arg), cleanup: func() error { return nil }}, nil
	}
	target := "linux/" + runtime.GOARCH // without workers nobody knows better
	if len(platforms) > 0 {
		target = platforms[0]
	}
	return build(ctx, s, arg, target)
}

// jobName is the base name of a path, as far as job names allow it.
func jobName(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		abs = path
	}
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.' {
			return r
		}
		return '-'
	}, filepath.Base(abs))
	return strings.TrimLeft(name, "-_.")
}

// toolchain lets an older go command fetch the toolchain that this binary was built with: jobs need a recent one, and some
// distributions switch fetching off. What the user says in the environment wins.
func toolchain(lookup func(string) (string, bool), own string) []string {
	const name = "GOTOOLCHAIN"
	version, _, _ := strings.Cut(own, " ") // experiments follow
	if _, said := lookup(name); said || !strings.HasPrefix(version, "go1.") {
		return nil
	}
	return []string{name + "=" + version + "+auto"}
}

// build cross-compiles a package into a directory of its own.
func build(ctx context.Context, s *Session, dir, target string) (*located, error) {
	temp, err := os.MkdirTemp("", "sluice-build-")
	if err != nil {
		return nil, localFault(err)
	}
	goos, arch, _ := strings.Cut(target, "/")
	out := filepath.Join(temp, jobName(dir))
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", out, ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), append(toolchain(os.LookupEnv, runtime.Version()), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+arch)...)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	done := s.spinner("building " + dir + " for " + target)
	err = cmd.Run()
	done()
	if err == nil {
		err = isProgram(out)
	}
	if err != nil {
		return nil, errors.Join(buildFault(ctx, dir, target, err, log.String()), os.RemoveAll(temp))
	}
	s.remark(" ✓ built %s for %s", dir, target)
	return &located{path: out, name: jobName(dir), cleanup: func() error { return os.RemoveAll(temp) }}, nil
}

// isProgram: go build writes an archive for a package that is no main.
func isProgram(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.Mode()&0o111 == 0 {
		return errors.New("it is no main package")
	}
	return nil
}

func buildFault(ctx context.Context, dir, target string, err error, output string) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	hint := "the same without a cluster: go build " + dir
	switch {
	case errors.Is(err, exec.ErrNotFound):
		hint = "install Go, or submit a binary"
	case strings.Contains(output, "requires go >= "):
		hint = "export GOTOOLCHAIN=auto: then go fetches the version that go.mod asks for"
	}
	return &Fault{
		Exit: ExitUsage, Code: CodeBuild, Where: dir, Hints: []string{hint},
		Err: fmt.Errorf("%s does not build for %s: %w\n%s", dir, target, err, strings.TrimSpace(output)),
	}
}
