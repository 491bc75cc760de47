package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/worker/task"
)

// BuildLimit is how long a build function may take here; a cluster gives it as long.
const BuildLimit = 30 * time.Second

type buildFunc func(values map[string]string) (*task.Program, []*jobpb.Diagnostic)

// inTime bounds a build function. One that does not return goes on until the process ends, which is soon.
func inTime(build buildFunc) buildFunc {
	return func(values map[string]string) (program *task.Program, diags []*jobpb.Diagnostic) {
		built := make(chan error, 1)
		g := run.NewGroup(context.Background(), "build")
		g.Go("build", func(context.Context) error {
			program, diags = build(values)
			return nil
		})
		run.NewGroup(context.Background(), "build").Go("wait", func(context.Context) error {
			built <- g.Wait()
			return nil
		})
		limit := time.NewTimer(BuildLimit)
		defer limit.Stop()
		select {
		case err := <-built:
			if errors.Is(err, run.ErrExited) {
				return nil, []*jobpb.Diagnostic{{Code: "E043", Message: "the build function did not return: " + run.ErrExited.Error()}}
			}
			if err != nil {
				panic(err) // the build function's own panics are diagnostics; this is one of ours
			}
			return program, diags
		case <-limit.C:
			return nil, []*jobpb.Diagnostic{{
				Code: "E044", Message: fmt.Sprintf("the build function did not return within %s", BuildLimit), Where: buildPlace(),
				Hints: []string{"it describes the job and must not wait for anything; open connections and files where the records are processed"},
			}}
		}
	}
}

// buildPlace is file:line of where a build function hangs.
func buildPlace() string {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for goroutine := range bytes.SplitSeq(stacks, []byte("\n\n")) {
		if bytes.Contains(goroutine, []byte("launch.inTime.func1.1(")) {
			return firstUserLine(string(goroutine))
		}
	}
	return ""
}

// firstUserLine is the place of the innermost function on a stack that is not of the standard library.
func firstUserLine(stack string) string {
	lines := strings.Split(stack, "\n")
	for i := 1; i+1 < len(lines); i += 2 { // a function, then its place
		first, _, inPath := strings.Cut(lines[i], "/")
		if inPath && strings.Contains(first, ".") || strings.HasPrefix(lines[i], "main.") {
			file, _, _ := strings.Cut(strings.TrimSpace(lines[i+1]), " ")
			return filepath.Join(filepath.Base(filepath.Dir(file)), filepath.Base(file)) // the rest differs between machines
		}
	}
	return ""
}
