package failpoint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluiceio/sluice/internal/run"
)

func TestUnarmedPointDoesNothing(t *testing.T) {
	if err := Hit(t.Context(), "test.unarmed"); err != nil {
		t.Fatal(err)
	}
	if !armed.idle.Load() {
		t.Error("not idle after a hit with nothing armed")
	}
	if n := testing.AllocsPerRun(100, func() { _ = Hit(t.Context(), "test.unarmed") }); n > 0 {
		t.Errorf("%v allocations per hit", n)
	}
}

func TestErrorReachesTheCaller(t *testing.T) {
	h := Arm(t, "test.error=error(disk (full))")
	err := Hit(t.Context(), "test.error")
	var e *Error
	if !errors.As(err, &e) || e.Point != "test.error" || e.Text != "disk (full)" {
		t.Errorf("got %v", err)
	}
	if err := Hit(t.Context(), "test.other"); err != nil {
		t.Errorf("another point failed: %v", err)
	}
	if n := h.Hits("test.error"); n != 1 {
		t.Errorf("%d hits", n)
	}
}

func TestSelectionCountsHits(t *testing.T) {
	for spec, want := range map[string]string{
		"test.selected=error":    "EEEE",
		"test.selected=2:error":  "-E--",
		"test.selected=3+:error": "--EE",
	} {
		t.Run(spec, func(t *testing.T) {
			Arm(t, spec)
			got := ""
			for range 4 {
				if Hit(t.Context(), "test.selected") == nil {
					got += "-"
				} else {
					got += "E"
				}
			}
			if got != want {
				t.Errorf("got %s; want %s", got, want)
			}
		})
	}
}

func TestScopeBreaksOneNodeOfSeveral(t *testing.T) {
	Arm(t, "test.scoped@c1=error")
	c1, c2 := WithScope(t.Context(), "c1"), WithScope(t.Context(), "c2")
	if Hit(c1, "test.scoped") == nil {
		t.Error("c1 was spared")
	}
	if err := errors.Join(Hit(c2, "test.scoped"), Hit(t.Context(), "test.scoped")); err != nil {
		t.Errorf("others were not: %v", err)
	}
}

func TestPanic(t *testing.T) {
	Arm(t, "test.panic=panic(boom)")
	defer func() {
		if v := recover(); fmt.Sprint(v) != "failpoint test.panic: boom" {
			t.Errorf("recovered %v", v)
		}
	}()
	t.Errorf("returned %v", Hit(t.Context(), "test.panic"))
}

func TestPauseWaitsForRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := Arm(t, "test.pause=pause")
		ended := false
		g := run.NewGroup(t.Context(), "test")
		g.Go("hit", func(ctx context.Context) error {
			err := Hit(ctx, "test.pause")
			ended = true
			return err
		})
		<-h.Reached("test.pause")
		synctest.Wait()
		if ended {
			t.Error("did not wait")
		}
		h.Release("test.pause")
		synctest.Wait()
		if err := g.Wait(); err != nil || !ended {
			t.Errorf("was not released: %v", err)
		}
	})
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	cause := errors.New("cause")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	Arm(t, fmt.Sprintf("test.a=pause; test.b=delay(1h); test.c=pause(%s)", t.TempDir()))
	for _, name := range []string{"test.a", "test.b", "test.c"} {
		if err := Hit(ctx, name); !errors.Is(err, cause) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		Arm(t, "test.delay=delay(3s)")
		start := time.Now()
		if err := Hit(t.Context(), "test.delay"); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d != 3*time.Second {
			t.Errorf("took %v", d)
		}
	})
}

func TestBadSpecificationsAreErrors(t *testing.T) {
	for _, bad := range []string{
		"x=error", "test.x", "test.x=", "test.x=explode", "test.x=0:error", "test.x=-1:error", "test.x=exit(a)", "test.x=delay",
		"test.x=delay(soon)", "test.x=delay(-1s)", "test.x=kill(9)", "Test.X=error", "test.x=error; test.x=panic", "test.x=99999999999999999999:error",
	} {
		if specs, err := parse(bad); err == nil {
			t.Errorf("%q was read as %+v", bad, specs)
		}
	}
	specs, err := parse(" ; test.x@n=2+:exit(7);; ")
	if err != nil || len(specs) != 1 || specs[0].code != 7 || specs[0].first != 2 || specs[0].name() != "test.x" {
		t.Errorf("got %+v, %v", specs, err)
	}
}

// recorder is a test that may fail without failing this one.
type recorder struct {
	*testing.T
	failures []string
	cleanups []func()
}

func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(format string, a ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, a...))
}
func (r *recorder) Fatalf(format string, a ...any) { r.Errorf(format, a...) }

func TestPointThatWasNeverHitFailsTheTest(t *testing.T) {
	r := &recorder{T: t}
	Arm(r, "test.never=error")
	Arm(r, "test.never=panic")
	for _, f := range r.cleanups {
		f()
	}
	want := []string{"failpoint: test.never is armed already", "failpoint test.never was armed and never hit"}
	if strings.Join(r.failures, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q; want %q", r.failures, want)
	}
	if !armed.idle.Load() {
		t.Error("still armed")
	}
}

// TestChild is the process that the tests below break; by itself it does nothing.
func TestChild(t *testing.T) {
	if os.Getenv("FAILPOINT_CHILD") == "" {
		t.Skip("started by other tests")
	}
	for range 2 {
		if err := Hit(t.Context(), "test.child"); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Println("survived")
}

func child(t *testing.T, spec string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChild$")
	cmd.Env = append(os.Environ(), "FAILPOINT_CHILD=1", Environment+"="+spec)
	return cmd
}

func TestEnvironmentBreaksAProcess(t *testing.T) {
	for spec, want := range map[string]string{
		"test.child=2:exit(7)":    "exit status 7",
		"test.child=kill":         "signal: killed",
		"test.child=error(x)":     "exit status 1",
		"test.child = nonsense":   "exit status 2",
		"test.elsewhere=exit(7)":  "",
		"test.child=3:exit(7)":    "",
		"test.child=2:delay(1ms)": "",
	} {
		out, err := child(t, spec).CombinedOutput()
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != want || (want == "") != strings.Contains(string(out), "survived") {
			t.Errorf("%s: %q; want %q\n%s", spec, got, want, out)
		}
	}
}

func TestPauseIsSeenAndReleasedByAnotherProcess(t *testing.T) {
	dir := t.TempDir()
	cmd := child(t, "test.child=pause("+dir+")")
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(filepath.Join(dir, "test.child.reached")); err == nil {
			break
		}
		<-tick.C
	}
	if err := cmd.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("did not wait: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "test.child.release"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), "survived") {
		t.Errorf("%v: %s", err, out.String())
	}
}

func BenchmarkHitUnarmed(b *testing.B) {
	ctx := b.Context()
	for b.Loop() {
		_ = Hit(ctx, "test.benchmark")
	}
}
