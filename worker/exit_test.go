package worker

import (
	"strings"
	"testing"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/worker/spawn"
)

func TestTheKindOfAnEndDecidesAboutRestarts(t *testing.T) {
	killed := spawn.Exit{Code: -1, Signal: "SIGKILL"}
	for name, test := range map[string]struct {
		end    ending
		kind   jobpb.FailureKind
		code   string
		reason string
	}{
		"ordered":                 {ending{order: order{reason: "released"}}, jobpb.FailureKind_FAILURE_UNSPECIFIED, "", "released"},
		"ordered, killed":         {ending{exit: killed, order: order{reason: "released"}, killed: true}, jobpb.FailureKind_FAILURE_UNSPECIFIED, "", "was killed"},
		"the worker stops":        {ending{order: order{reason: "stop", kind: jobpb.FailureKind_FAILURE_LOSS}}, jobpb.FailureKind_FAILURE_LOSS, "", "stop"},
		"for want of memory":      {ending{exit: killed, oom: true}, jobpb.FailureKind_FAILURE_USER, codeOutOfMemory, "memory"},
		"by a person":             {ending{exit: killed}, jobpb.FailureKind_FAILURE_LOSS, codeKilled, "from outside"},
		"by a polite person":      {ending{exit: spawn.Exit{Code: -1, Signal: "SIGTERM"}}, jobpb.FailureKind_FAILURE_LOSS, codeKilled, "SIGTERM"},
		"disk full under a table": {ending{exit: spawn.Exit{Code: -1, Signal: "SIGBUS"}}, jobpb.FailureKind_FAILURE_USER, codeCrashed, "SIGBUS"},
		"killed before it spoke":  {ending{exit: killed, silent: linkFailure(noJob("x"))}, jobpb.FailureKind_FAILURE_LOSS, codeKilled, "from outside"},
		"too large to begin":      {ending{exit: killed, oom: true, silent: linkFailure(noJob("x"))}, jobpb.FailureKind_FAILURE_USER, codeOutOfMemory, "memory"},
		"ended before it spoke":   {ending{exit: spawn.Exit{Code: 2}, silent: linkFailure(noJob("x"))}, jobpb.FailureKind_FAILURE_FATAL, codeNoJob, "not a sluice job"},
		"left its link and hung":  {ending{exit: killed, killed: true}, jobpb.FailureKind_FAILURE_USER, codeCrashed, "closed its link"},
		"panic":                   {ending{exit: spawn.Exit{Code: 2}, crash: "panic: x\n\ngoroutine 1"}, jobpb.FailureKind_FAILURE_USER, codeCrashed, "panic: x"},
		"os.Exit(0)":              {ending{}, jobpb.FailureKind_FAILURE_USER, codeCrashed, "by itself"},
		"it said why": {ending{exit: spawn.Exit{Code: 1}, failure: &jobpb.Failure{Code: "E030", Kind: jobpb.FailureKind_FAILURE_FATAL, Message: "differs"}},
			jobpb.FailureKind_FAILURE_FATAL, "E030", "differs"},
	} {
		x := test.end.report()
		if x.Kind != test.kind || x.Failure.GetCode() != test.code || !strings.Contains(x.Reason, test.reason) {
			t.Errorf("%s: %v", name, x)
		}
	}
}
