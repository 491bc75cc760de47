package ops

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func checkoutDir(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	found, err := FindCheckout(dir)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestNewJobBuildsAndPassesItsTestOffline does what a newcomer does, without a network.
func TestNewJobBuildsAndPassesItsTestOffline(t *testing.T) {
	r := newRig(t, nil)
	dir := filepath.Join(t.TempDir(), "my-job")
	if err := NewJob(r.Session, NewJobOptions{Dir: dir, Checkout: checkoutDir(t)}); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"test", "./..."}, {"run", ".", "plan"}} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=readonly", "GOWORK=off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	wantExit(t, NewJob(r.Session, NewJobOptions{Dir: dir, Checkout: checkoutDir(t)}), ExitPrecondition, CodeLocalFile)
}

func TestNewJobWithABadNameWritesNothing(t *testing.T) {
	r := newRig(t, nil)
	dir := t.TempDir()
	for _, name := range []string{"Upper", "with space", ".", "..", "-x", strings.Repeat("x", 64)} {
		wantExit(t, NewJob(r.Session, NewJobOptions{Dir: dir + "/" + name, Checkout: checkoutDir(t)}), ExitUsage, CodeUsage)
	}
	wantExit(t, NewJob(r.Session, NewJobOptions{Dir: filepath.Join(dir, "ok"), Checkout: dir}), ExitOther, CodeLocalFile)
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("%v: left behind %v", err, left)
	}
}

func TestCheckoutIsFoundAboveOrNotAtAll(t *testing.T) {
	root := checkoutDir(t)
	got, err := FindCheckout(t.TempDir(), filepath.Join(root, "bin", "sluice"))
	if err != nil || got != root {
		t.Errorf("got %q, %v", got, err)
	}
	_, err = FindCheckout(t.TempDir())
	wantExit(t, err, ExitUsage, CodeUsage)
}

func TestContextsAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "contexts.json")
	load := func() *Contexts {
		t.Helper()
		c, err := LoadContexts(path)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if got, err := load().Get(""); got != nil || err != nil {
		t.Errorf("%v, %v in an empty file", got, err)
	}
	for _, name := range []string{"one", "two"} {
		if err := load().Add(name, &Cluster{Addrs: []string{name + ":1"}}); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := load().Get(""); err != nil || got.Addrs[0] != "one:1" {
		t.Errorf("the first one is not current: %v, %v", got, err)
	}
	if err := load().Select("two"); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, nil)
	if err := (&Contexts{}).Show(r.Session); err != nil || r.out.Len() > 0 || !strings.Contains(r.err.String(), "sluice context add") {
		t.Errorf("none: %v: %s%s", err, r.out.String(), r.err.String())
	}
	if err := load().Show(r.Session); err != nil || r.out.String() != "  one  one:1\n* two  two:1\n" {
		t.Errorf("%v: %s", err, r.out.String())
	}
	if err := load().Remove("two"); err != nil {
		t.Fatal(err)
	}
	if got, err := load().Get(""); got != nil || err != nil {
		t.Errorf("%v, %v after the current one was removed", got, err)
	}
	_, err := load().Get("two")
	wantExit(t, err, ExitNotFound, CodeUsage)
	wantExit(t, load().Select("two"), ExitNotFound, CodeUsage)
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = LoadContexts(path)
	wantExit(t, err, ExitOther, CodeLocalFile)
}
