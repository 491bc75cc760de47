package fault

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/shuffle"
)

var errTest = errors.New("test failure")

func TestKindsOfFailure(t *testing.T) {
	for _, c := range []struct {
		err  error
		kind jobpb.FailureKind
		code string
	}{
		{errTest, jobpb.FailureKind_FAILURE_USER, CodeUser},
		{fmt.Errorf("send: %w", &shuffle.LossError{Reason: shuffle.Broken}), jobpb.FailureKind_FAILURE_LOSS, CodePeer},
		{&shuffle.LossError{Reason: shuffle.Corrupt}, jobpb.FailureKind_FAILURE_LOSS, CodePeer},
		// What the peer failed of is the peer's to report.
		{&shuffle.LossError{Reason: shuffle.Failed, Cause: Fatal(CodePlan, "x")}, jobpb.FailureKind_FAILURE_LOSS, CodePeer},
		{&Fault{Kind: jobpb.FailureKind_FAILURE_LOSS, Code: "x", Err: &shuffle.LossError{}}, jobpb.FailureKind_FAILURE_LOSS, "x"},
		{&shuffle.MemoryError{}, jobpb.FailureKind_FAILURE_FATAL, shuffle.CodeMemory},
		{&shuffle.RecordError{}, jobpb.FailureKind_FAILURE_USER, shuffle.CodeRecord},
		{fmt.Errorf("outer: %w", Fatal(CodePlan, "x")), jobpb.FailureKind_FAILURE_FATAL, CodePlan},
	} {
		if f := Of(c.err, CodeUser, "op"); f.Kind != c.kind || f.Code != c.code {
			t.Errorf("%v: %v %s, want %v %s", c.err, f.Kind, f.Code, c.kind, c.code)
		}
	}
	if f := Failure(errTest); f.Kind != jobpb.FailureKind_FAILURE_FATAL || f.Code != CodeDeploy {
		t.Errorf("an error of deployment became %v", f)
	}
}

func TestTextsOfFailuresAreBounded(t *testing.T) {
	f := Failure(&Fault{Code: CodeUser, Err: errors.New(strings.Repeat("ü", maxFailureText)), Stack: strings.Repeat("x", 1<<20)})
	if len(f.Message) > maxFailureText || len(f.Stack) > maxFailureStack || !strings.HasSuffix(f.Message, "ü\n… cut") {
		t.Errorf("message of %d bytes, stack of %d", len(f.Message), len(f.Stack))
	}
}

func TestAStackBeginsWhereThePanicIs(t *testing.T) {
	err := Protect(func() error { panic(errTest) })
	f, ok := errors.AsType[*Fault](err)
	if !ok || !errors.Is(err, errTest) || f.Code != CodePanic {
		t.Fatalf("error %v", err)
	}
	if !strings.HasPrefix(f.Stack, "github.com/sluiceio/sluice/worker/task/fault.TestAStackBeginsWhereThePanicIs") {
		t.Errorf("stack\n%s", f.Stack)
	}
}

func TestWhatAConnectorCallsFatalIsNotTriedAgain(t *testing.T) {
	f := Of(fmt.Errorf("discover splits: %w", connector.Fatal(errTest)), CodeSource, "src")
	if f.Kind != jobpb.FailureKind_FAILURE_FATAL || f.Code != CodeSource {
		t.Errorf("classified as %v %s", f.Kind, f.Code)
	}
}
