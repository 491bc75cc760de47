package flow_test

import (
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestPlans shows plans as users see them. Rewrite testdata/plan with -rewrite and read the difference.
func TestPlans(t *testing.T) {
	datadriven.RunTest(t, "testdata/plan", func(t *testing.T, d *datadriven.TestData) string {
		args := append([]string{d.Cmd}, strings.Fields(d.Input)...)
		_, stdout, stderr := call(jobCalled(d.CmdArgs[0].Key), append(args, "--sluice.parallelism=2")...)
		return stdout + stderr
	})
}
