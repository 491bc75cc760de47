package launch_test

import (
	"bytes"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluiceio/sluice/flow/launch"
	"github.com/sluiceio/sluice/flow/launch/param"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/worker/task"
)

func TestABuildThatDoesNotReturnIsToldWithItsPlace(t *testing.T) {
	for _, verb := range []string{"plan", "vet", "run"} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			hangs := launch.Job{
				Name:   "hangs",
				Params: func() (*param.Set, []*jobpb.Diagnostic) { return param.Of(&struct{}{}) },
				Build: func(map[string]string) (*task.Program, []*jobpb.Diagnostic) {
					<-release
					return nil, []*jobpb.Diagnostic{{Code: "E000"}}
				},
			}
			var args []string
			if verb != "run" {
				args = []string{verb}
			}
			start := time.Now()
			var out, err bytes.Buffer
			code := launch.Run(hangs, args, launch.Streams{Out: &out, Err: &err})
			if took := time.Since(start); took != launch.BuildLimit {
				t.Errorf("%s: it took %v", verb, took)
			}
			text := err.String()
			if code != launch.ExitPlan || !strings.HasPrefix(text, "error E044: ") || !strings.Contains(text, "at launch/limit_test.go:") || !strings.Contains(text, "fix: ") || out.Len() > 0 {
				t.Errorf("%s: exit %d, %q, %q", verb, code, text, out.String())
			}
			close(release)
		})
	}
}

func TestABuildThatEndsItsGoroutineIsAPlanError(t *testing.T) {
	leaves := launch.Job{
		Name:   "leaves",
		Params: func() (*param.Set, []*jobpb.Diagnostic) { return param.Of(&struct{}{}) },
		Build:  func(map[string]string) (*task.Program, []*jobpb.Diagnostic) { runtime.Goexit(); return nil, nil },
	}
	var out, err bytes.Buffer
	if code := launch.Run(leaves, nil, launch.Streams{Out: &out, Err: &err}); code != launch.ExitPlan || !strings.HasPrefix(err.String(), "error E043: ") {
		t.Errorf("exit %d, %q", code, err.String())
	}
}
