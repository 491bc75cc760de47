package ops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// Exit is an exit code of the command line. They are part of its contract.
type Exit int

// The exit codes.
const (
	ExitOK           Exit = 0
	ExitOther        Exit = 1
	ExitUsage        Exit = 2 // wrong flags or arguments, or an error in the plan
	ExitNotFound     Exit = 3
	ExitPrecondition Exit = 4
	ExitUnreachable  Exit = 5 // no coordinator answers, or there is no leader
	ExitDenied       Exit = 6
	ExitTimeout      Exit = 7
	ExitJobFailed    Exit = 8
	ExitJobCancelled Exit = 9
	ExitInterrupted  Exit = 130
)

// Codes of what the command line itself finds out; others come from the cluster or the job.
const (
	CodeForeignPlatform = "E040"
	CodeNotELF          = "E041"
	CodeUsage           = "E090"
	CodeUnreachable     = "E091"
	CodeTimeout         = "E092"
	CodeJobFailed       = "E093"
	CodeJobCancelled    = "E094"
	CodeBuild           = "E095"
	CodeLocalFile       = "E096"
	CodeDev             = "E097"
	CodeNode            = "E098"
)

// Fault is an error as the user sees it.
type Fault struct {
	Exit      Exit
	Code      string // stable; may be empty
	Err       error  // the one-line cause
	Where     string // place in the user's source, or the thing concerned
	Hints     []string
	Retryable bool
}

func (f *Fault) Error() string {
	if f.Code == "" {
		return f.Err.Error()
	}
	return f.Code + ": " + f.Err.Error()
}

func (f *Fault) Unwrap() error { return f.Err }

// Usagef says that the command line is wrong.
func Usagef(hint, format string, args ...any) error {
	f := &Fault{Exit: ExitUsage, Code: CodeUsage, Err: fmt.Errorf(format, args...)}
	if hint != "" {
		f.Hints = []string{hint}
	}
	return f
}

// localFault says that something on the user's machine cannot be read or written.
func localFault(err error) error {
	return &Fault{Exit: ExitOther, Code: CodeLocalFile, Err: err}
}

// PlanError is what a build or a plan found wrong with the user's program.
type PlanError struct {
	Diagnostics []*jobpb.Diagnostic
}

func (e *PlanError) Error() string {
	lines := make([]string, len(e.Diagnostics))
	for i, d := range e.Diagnostics {
		lines[i] = d.Code + ": " + d.Message
	}
	return strings.Join(lines, "; ")
}

// Explain turns any error into faults to show, and the exit code.
func Explain(err error) ([]*Fault, Exit) {
	if err == nil {
		return nil, ExitOK
	}
	var plan *PlanError
	if errors.As(err, &plan) {
		faults := make([]*Fault, len(plan.Diagnostics))
		for i, d := range plan.Diagnostics {
			faults[i] = &Fault{Exit: ExitUsage, Code: d.Code, Err: errors.New(d.Message), Where: d.Where, Hints: d.Hints}
		}
		return faults, ExitUsage
	}
	f := explainOne(err)
	return []*Fault{f}, f.Exit
}

func explainOne(err error) *Fault {
	var f *Fault
	if errors.As(err, &f) {
		return f
	}
	code := apipb.CodeOf(err)
	if detail, ok := apipb.DetailOf(err); ok {
		return &Fault{
			Exit: exitOf(code), Code: detail.Code, Err: errors.New(apipb.MessageOf(err)),
			Where: detail.Where, Hints: detail.Hints, Retryable: detail.Retryable,
		}
	}
	switch {
	case errors.Is(err, context.Canceled), code == codes.Canceled:
		return &Fault{Exit: ExitInterrupted, Err: errors.New("interrupted")}
	case errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	}
	f = &Fault{Exit: exitOf(code), Err: errors.New(apipb.MessageOf(err))}
	switch f.Exit {
	case ExitTimeout:
		f.Code, f.Retryable, f.Hints = CodeTimeout, true, []string{"--timeout sets how long the command may take"}
	case ExitUnreachable:
		f.Code, f.Retryable = CodeUnreachable, true
	}
	if code == codes.Unimplemented {
		f.Hints = []string{"the cluster is older than this command line: sluice version shows both"}
	}
	return f
}

// exitOf classifies the gRPC code of an error of the API.
func exitOf(code codes.Code) Exit {
	switch code {
	case codes.OK:
		return ExitOK
	case codes.InvalidArgument, codes.OutOfRange:
		return ExitUsage
	case codes.NotFound:
		return ExitNotFound
	case codes.FailedPrecondition, codes.AlreadyExists, codes.Aborted:
		return ExitPrecondition
	case codes.Unavailable:
		return ExitUnreachable
	case codes.PermissionDenied, codes.Unauthenticated:
		return ExitDenied
	case codes.DeadlineExceeded:
		return ExitTimeout
	case codes.Canceled:
		return ExitInterrupted
	}
	return ExitOther
}

// ReportError writes an error to w and returns the exit code.
//
//	error E014: operator without id: window at recommend/main.go:118
//	  fix: name it: .ID("profile")
func ReportError(w io.Writer, format Format, err error) Exit {
	faults, exit := Explain(err)
	if len(faults) == 0 {
		return exit
	}
	if format == JSON {
		writeJSONFaults(w, faults, exit)
		return exit
	}
	for _, f := range faults {
		writeFault(w, f)
	}
	return exit
}

func writeFault(w io.Writer, f *Fault) {
	var b strings.Builder
	fix := "  fix: "
	switch {
	case f.Exit == ExitInterrupted: // as the user wished
		fix = "  "
	case f.Code != "":
		b.WriteString("error " + f.Code + ": ")
	default:
		b.WriteString("error: ")
	}
	lines := strings.Split(strings.TrimRight(f.Err.Error(), "\n"), "\n")
	b.WriteString(lines[0])
	if f.Where != "" && !strings.Contains(lines[0], f.Where) {
		b.WriteString(" at " + f.Where)
	}
	b.WriteString("\n")
	for _, l := range lines[1:] {
		b.WriteString("  " + l + "\n")
	}
	for _, h := range f.Hints {
		b.WriteString(fix + h + "\n")
	}
	_, _ = io.WriteString(w, b.String()) // standard error is the last place to complain to
}

// jsonFault is the stable form of an error in JSON.
type jsonFault struct {
	Code      string   `json:"code"`
	Message   string   `json:"message"`
	Where     string   `json:"where"`
	Hints     []string `json:"hints"`
	Retryable bool     `json:"retryable"`
}

func writeJSONFaults(w io.Writer, faults []*Fault, exit Exit) {
	out := struct {
		Errors []jsonFault `json:"errors"`
		Exit   Exit        `json:"exit"`
	}{Errors: []jsonFault{}, Exit: exit}
	for _, f := range faults {
		hints := f.Hints
		if hints == nil {
			hints = []string{}
		}
		out.Errors = append(out.Errors, jsonFault{Code: f.Code, Message: f.Err.Error(), Where: f.Where, Hints: hints, Retryable: f.Retryable})
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	_ = e.Encode(out) // standard error is the last place to complain to
}
