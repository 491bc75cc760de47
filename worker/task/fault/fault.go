package fault

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
	"strings"
	"time"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/shuffle"
	"github.com/sluiceio/sluice/shuffle/stored"
	"github.com/sluiceio/sluice/worker/spill"
	"github.com/sluiceio/sluice/worker/state"
)

// Codes of failures at run time (docs/errors.md has causes and fixes).
const (
	CodePlan   = "E030" // the plan is not the one of this binary
	CodeUser   = "E050" // a function of the job returned an error
	CodePanic  = "E051" // a function of the job panicked
	CodeRecord = "E052" // the source could not decode a record
	CodeSource = "E053" // the source, or the discovery of its splits, failed
	CodeSink   = "E054" // the sink failed
	CodeCommit = "E055" // prepared output could not be committed yet
	CodeLost   = "E056" // prepared output can never be committed
	CodePeer   = "E057" // a channel to another subtask broke
	CodeStuck  = "E058" // user code did not return after its attempt was stopped
	CodeDeploy = "E059" // the deployment cannot be run
	CodeRoute  = "E128" // a partitioner returned an index that no consumer has

	CodeNoStore = "E135" // the process has no directory for stored results
)

// Limits of what a failure carries to the coordinators, in bytes.
const (
	maxFailureText  = 4 << 10
	maxFailureStack = 16 << 10
)

// Fault is a failure with what the user needs to find its cause.
type Fault struct {
	Kind     jobpb.FailureKind
	Code     string
	Operator string // operator id; empty: none in particular
	Position string // the record in flight; empty: none
	Stack    string // of a panic
	Err      error
	Lost     []*jobpb.PartitionRef // stored results that could not be read
}

func (f *Fault) Error() string {
	s := f.Code
	if f.Operator != "" {
		s += " " + f.Operator
	}
	s += ": " + f.Err.Error()
	if f.Position != "" {
		s += " (" + f.Position + ")"
	}
	return s
}

func (f *Fault) Unwrap() error { return f.Err }

// Failure is err as it is reported to the coordinator: the Fault in its chain, or a fatal failure of deployment.
func Failure(err error) *jobpb.Failure {
	f, ok := errors.AsType[*Fault](err)
	if !ok {
		f = &Fault{Kind: jobpb.FailureKind_FAILURE_FATAL, Code: CodeDeploy, Err: err}
	}
	if pe, ok := errors.AsType[*run.PanicError](err); ok && f.Stack == "" {
		f.Stack = panicStack(string(pe.Stack))
	}
	return &jobpb.Failure{
		Kind:     f.Kind,
		Code:     f.Code,
		Message:  f.message(),
		Operator: f.Operator,
		Position: bounded(f.Position, maxFailureText),
		Stack:    bounded(f.Stack, maxFailureStack),
		TimeUs:   time.Now().UnixMicro(),
		Lost:     f.Lost,
	}
}

// message is the cause without the code, which the failure carries by itself, and with what the user can do about it.
func (f *Fault) message() string {
	text := strings.Replace(f.Err.Error(), f.Code+": ", "", 1)
	fix := f.remedy()
	if fix == "" || strings.Contains(text, fixLine) {
		return bounded(text, maxFailureText)
	}
	return bounded(text, maxFailureText-len(fixLine)-len(fix)) + fixLine + fix
}

// fixLine begins what the command line shows as a fix.
const fixLine = "\n  fix: "

// remedy is what to do where the code alone tells it; empty: the message says it, or nothing has to be done.
func (f *Fault) remedy() string {
	switch f.Code {
	case stored.CodeWrite:
		return "make room in the directory that is named, or see to its permissions; of a worker it is below --data-dir, of an embedded run below TMPDIR"
	case spill.CodeSpace:
		return "make room in the directory that is named (of a worker below --data-dir, of an embedded run below TMPDIR), or raise batch.memory so that less is spilled"
	case spill.CodeBudget:
		return "raise batch.memory, or give the worker more --memory or fewer --slots"
	case CodeSource:
		if errors.Is(f.Err, fs.ErrNotExist) {
			return "name input that exists, on every worker under the same path"
		}
	}
	return ""
}

// bounded cuts s to n bytes and says so.
func bounded(s string, n int) string {
	const mark = "\n… cut"
	if len(s) <= n {
		return s
	}
	cut := n - len(mark)
	for cut > 0 && s[cut]&0xC0 == 0x80 { // not inside a rune
		cut--
	}
	return s[:cut] + mark
}

// Of classifies err: what broke because another process did is a loss, what no restart can cure is fatal, and
// everything else is the fault of user code or of the connector that code names, unless the place that found it knows
// better.
func Of(err error, code, operator string) *Fault {
	_, lost := errors.AsType[*shuffle.LossError](err)
	if f, ok := errors.AsType[*Fault](err); ok {
		// A loss may wrap the fault of the peer. That one is the peer's to report.
		if _, outer := errors.AsType[*shuffle.LossError](f); outer || !lost {
			return f
		}
	}
	f := &Fault{Kind: jobpb.FailureKind_FAILURE_USER, Code: code, Operator: operator, Err: err}
	if lost {
		f.Kind, f.Code = jobpb.FailureKind_FAILURE_LOSS, CodePeer
	} else if f.ofStored(err) {
		return f
	} else if _, ok := errors.AsType[*shuffle.MemoryError](err); ok {
		f.Kind, f.Code = jobpb.FailureKind_FAILURE_FATAL, shuffle.CodeMemory
	} else if _, ok := errors.AsType[*shuffle.RecordError](err); ok {
		f.Code = shuffle.CodeRecord
	} else if e, ok := errors.AsType[*spill.Error](err); ok {
		if f.Code = e.Code; e.Fatal {
			f.Kind = jobpb.FailureKind_FAILURE_FATAL
		}
	} else if e, ok := errors.AsType[*state.Error](err); ok {
		f.Code, f.Operator = e.Code, cmp.Or(operator, e.Operator)
	} else if connector.IsFatal(err) {
		f.Kind = jobpb.FailureKind_FAILURE_FATAL
	}
	return f
}

// ofStored classifies the errors of stored results.
func (f *Fault) ofStored(err error) bool {
	if e, ok := errors.AsType[*stored.LostError](err); ok {
		f.Kind, f.Code = jobpb.FailureKind_FAILURE_LOSS, stored.CodeLost
		f.Lost = []*jobpb.PartitionRef{e.Name.Ref()}
		for _, n := range e.Also[:min(len(e.Also), jobpb.MaxLost-1)] {
			f.Lost = append(f.Lost, n.Ref())
		}
	} else if _, ok := errors.AsType[*stored.LinkError](err); ok {
		f.Kind, f.Code = jobpb.FailureKind_FAILURE_LOSS, stored.CodeLink
	} else if _, ok := errors.AsType[*stored.WriteError](err); ok {
		f.Code = stored.CodeWrite // another worker may have room
	} else if _, ok := errors.AsType[*stored.AskedError](err); ok {
		f.Kind, f.Code = jobpb.FailureKind_FAILURE_FATAL, stored.CodeAsked
	} else {
		return false
	}
	return true
}

// Fatal is a failure that a restart cannot cure.
func Fatal(code, format string, args ...any) *Fault {
	return &Fault{Kind: jobpb.FailureKind_FAILURE_FATAL, Code: code, Err: fmt.Errorf(format, args...)}
}

// Panicked is the fault of a panic. To be called by the deferred function that recovered v.
func Panicked(v any, operator, position string) *Fault {
	err, ok := v.(error)
	if !ok {
		err = fmt.Errorf("%v", v)
	}
	return &Fault{
		Kind: jobpb.FailureKind_FAILURE_USER, Code: CodePanic, Operator: operator, Position: position,
		Stack: panicStack(string(debug.Stack())), Err: fmt.Errorf("panic: %w", err),
	}
}

// panicStack is the stack below the call of panic, or of runtime.Goexit: what the user wants to see comes first.
func panicStack(s string) string {
	i := strings.Index(s, "\npanic(")
	if i < 0 {
		i = strings.Index(s, "\nruntime.Goexit(")
	}
	if i >= 0 {
		rest := s[i+1:]
		for range 2 { // the call and its line
			if _, after, ok := strings.Cut(rest, "\n"); ok {
				rest = after
			}
		}
		return rest
	}
	return s
}

// Protect calls f and turns a panic into an error.
func Protect(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = Panicked(v, "", "")
		}
	}()
	return f()
}
