package worker

import (
	"strings"
	"testing"
	"unicode/utf8"

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

func TestTheBeginningOfACrashSurvivesItsLength(t *testing.T) {
	out := &tail{}
	write := func(s string) {
		for len(s) > 0 { // in pieces that respect no line
			n := min(len(s), 7)
			if _, err := out.Write([]byte(s[:n])); err != nil {
				t.Fatal(err)
			}
			s = s[n:]
		}
	}
	write("panic: recovered and logged by user code\n" + strings.Repeat("working\n", 1000))
	write("panic: runtime error: index out of range [recovered]\n\tpanic: again\n\ngoroutine 7 [running]:\nmain.count()\n")
	write(strings.Repeat("goroutine 8 [select]: \xff\n", 5000) + "exit status")
	last, crash := out.text()
	if !strings.HasPrefix(crash, "panic: runtime error: index out of range") || !strings.Contains(crash, "main.count()") || len(crash) > crashBytes {
		t.Errorf("crash of %d bytes: %.100q", len(crash), crash)
	}
	if !strings.HasSuffix(last, "exit status") || len(last) > tailBytes {
		t.Errorf("tail of %d bytes: %.100q", len(last), last)
	}
	if !utf8.ValidString(last) || !utf8.ValidString(crash) {
		t.Error("not UTF-8: it cannot be sent")
	}
}

func TestAnUnfinishedLastLineBelongsToTheCrash(t *testing.T) {
	out := &tail{}
	if _, err := out.Write([]byte("fatal error: all goroutines are asleep")); err != nil {
		t.Fatal(err)
	}
	if _, crash := out.text(); !strings.HasPrefix(crash, "fatal error: all goroutines") {
		t.Errorf("crash: %q", crash)
	}
}

func TestAVeryLongLineIsNoBurden(t *testing.T) {
	out := &tail{}
	for range 100 {
		if _, err := out.Write([]byte(strings.Repeat("x", 100_000))); err != nil {
			t.Fatal(err)
		}
	}
	if last, crash := out.text(); len(last) != tailBytes || crash != "" {
		t.Errorf("%d bytes, crash %q", len(last), crash)
	}
	if n := cap(out.mu.line); n > 2*crashBytes {
		t.Errorf("the line takes %d bytes", n)
	}
}

func TestCountersOfKillsAreReadInBothVersions(t *testing.T) {
	got := oomFiles([]byte("12:memory:/docker/abc\n3:cpu,cpuacct:/x\n0::/system.slice/sluice.service\nnonsense\n"))
	want := []string{"/sys/fs/cgroup/memory/docker/abc/memory.oom_control", "/sys/fs/cgroup/system.slice/sluice.service/memory.events"}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("files: %v", got)
	}
	for data, want := range map[string]int64{
		"low 0\nhigh 0\nmax 7\noom 2\noom_kill 3\noom_group_kill 1\n": 3,
		"oom_kill_disable 0\nunder_oom 0\noom_kill 12\n":              12,
		"oom_kill many\n": 0,
		"":                0,
	} {
		if n := oomKills([]byte(data)); n != want {
			t.Errorf("%q: %d, want %d", data, n, want)
		}
	}
}
