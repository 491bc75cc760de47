package fault

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/shuffle"
	"github.com/sluiceio/sluice/shuffle/stored"
	"github.com/sluiceio/sluice/worker/spill"
	"github.com/sluiceio/sluice/worker/state"
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
		{fmt.Errorf("outer: %w", &spill.Error{Code: spill.CodeSpace}), jobpb.FailureKind_FAILURE_USER, spill.CodeSpace},
		{&spill.Error{Code: spill.CodeBudget, Fatal: true}, jobpb.FailureKind_FAILURE_FATAL, spill.CodeBudget},
		{fmt.Errorf("read: %w", &stored.LostError{Cause: errTest}), jobpb.FailureKind_FAILURE_LOSS, stored.CodeLost},
		{&stored.LinkError{Cause: errTest}, jobpb.FailureKind_FAILURE_LOSS, stored.CodeLink},
		{&stored.WriteError{Cause: errTest}, jobpb.FailureKind_FAILURE_USER, stored.CodeWrite},
		{&stored.AskedError{Cause: errTest}, jobpb.FailureKind_FAILURE_FATAL, stored.CodeAsked},
		{&shuffle.LossError{Cause: Of(&stored.LostError{Cause: errTest}, "", "")}, jobpb.FailureKind_FAILURE_LOSS, CodePeer},
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

// Keyed state knows whose it is where the caller does not.
func TestAFailureOfStateNamesItsOperator(t *testing.T) {
	err := fmt.Errorf("snapshot 1: %w", &state.Error{Code: state.CodeCodec, Operator: "counts", Err: errTest})
	for operator, want := range map[string]string{"": "counts", "op": "op"} {
		if f := Of(err, CodeUser, operator); f.Code != state.CodeCodec || f.Operator != want {
			t.Errorf("%s of %q, want %q", f.Code, f.Operator, want)
		}
	}
}

func TestALossNamesThePartitionThatWasLost(t *testing.T) {
	lost := &stored.LostError{Name: stored.Name{Edge: 3, Producer: 7, Attempt: 2}, Cause: errTest}
	f := Failure(Of(fmt.Errorf("read: %w", lost), CodeUser, "op"))
	want := &jobpb.PartitionRef{Edge: 3, Producer: 7, Attempt: 2}
	if len(f.Lost) != 1 || !proto.Equal(f.Lost[0], want) {
		t.Errorf("lost %v, want %v", f.Lost, want)
	}
	lost.Also = make([]stored.Name, 2*jobpb.MaxLost)
	lost.Also[0] = stored.Name{Edge: 3, Producer: 8, Attempt: 2}
	if f := Failure(Of(lost, CodeUser, "op")); len(f.Lost) != jobpb.MaxLost || f.Lost[0].Producer != 7 || f.Lost[1].Producer != 8 {
		t.Errorf("%d lost, first %v", len(f.Lost), f.Lost[:2])
	}
	// The one that lost it tells.
	if f := Failure(Of(&shuffle.LossError{Cause: Of(lost, CodeUser, "op")}, CodeUser, "other")); len(f.Lost) != 0 {
		t.Errorf("a peer's loss is told as %v", f.Lost)
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

func TestFailuresOfDiskAndMemorySayWhatToDo(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("pairs[0]/loop: %w", &stored.WriteError{Path: "/d", Bytes: 7, Cause: errTest}), "--data-dir"},
		{&spill.Error{Code: spill.CodeSpace, Path: "/d", Bytes: 7, Err: errTest}, "batch.memory"},
		{&spill.Error{Code: spill.CodeBudget, Path: "pairs", Bytes: 7, Err: errTest}, "--slots"},
		{fmt.Errorf("discover splits: %w", fs.ErrNotExist), "input that exists"},
	} {
		f := Failure(Of(c.err, CodeSource, "op"))
		_, fix, found := strings.Cut(f.Message, "\n  fix: ")
		if !found || !strings.Contains(fix, c.want) {
			t.Errorf("%s has no fix with %q: %s", f.Code, c.want, f.Message)
		}
		if strings.Contains(f.Message, f.Code) {
			t.Errorf("%s stands in the message again: %s", f.Code, f.Message)
		}
	}
	long := Failure(Of(&stored.WriteError{Path: strings.Repeat("x", 2*maxFailureText), Cause: errTest}, CodeUser, "op")).Message
	if len(long) > maxFailureText || !strings.Contains(long, "\n  fix: ") {
		t.Errorf("a long message lost its fix, or its bound: %d bytes", len(long))
	}
	if own := Failure(Of(connector.Fatal(errors.New("x\n  fix: y")), CodeSink, "op")).Message; own != "x\n  fix: y" {
		t.Errorf("the connector's own fix became %q", own)
	}
}
