package suite_test

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// faultVariable has the fault for a test that is to fail.
const faultVariable = "SLUICE_SUITE_FAULT"

// broken is the fault that this process is to show.
func broken() (fault string, ok bool) { return os.LookupEnv(faultVariable) }

// finds runs one check of a suite, in a process of its own, on something with a fault: it has to fail.
func finds(t *testing.T, test, check, fault string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	pattern := "^" + test + "$/^" + regexp.QuoteMeta(strings.ReplaceAll(check, " ", "_")) + "$"
	cmd := exec.CommandContext(t.Context(), self, "-test.run="+pattern, "-test.timeout=60s")
	cmd.Env = append(os.Environ(), faultVariable+"="+fault)
	out, err := cmd.CombinedOutput()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	if err == nil || !strings.Contains(string(out), "--- FAIL: "+test+"/") {
		t.Errorf("%q does not find it:\n%s", check, out)
	}
}
