//go:build unix

package failpoint

import (
	"strings"
	"syscall"
	"testing"
)

func TestStopLastsUntilSignalled(t *testing.T) {
	cmd := child(t, "test.child=2:stop")
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("not stopped: %v, status %#x", err, status)
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), "survived") {
		t.Errorf("%v: %s", err, out.String())
	}
}
