package process

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/worker/task"
)

// Codes of what can be wrong with a build function as such.
const (
	codePanic = "E043" // it panicked
	codeSlow  = "E044" // it does not return
)

// program runs the user's build function. A panic is a fault with the place where it happened.
func (h *host) program(spec *jobpb.JobSpec) (program *task.Program, faults []*jobpb.Diagnostic) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		where := panicPlace()
		stack := debug.Stack()
		h.log.Error("build function panicked", "panic", v, "stack", string(stack))
		program, faults = nil, []*jobpb.Diagnostic{{
			Code:    codePanic,
			Message: fmt.Sprintf("the build function panicked: %v", v),
			Where:   where,
			Hints:   []string{"the build function only describes the job: it must not use what exists at run time only", "stack:\n" + trimmed(stack)},
		}}
	}()
	program, faults = h.job.Build(spec)
	if program == nil && len(faults) == 0 {
		faults = []*jobpb.Diagnostic{{Code: codePanic, Message: "the build function returned neither a program nor an error"}}
	}
	return program, faults
}

// panicPlace is file:line of the function that panicked. It is called by the deferred function that recovers.
func panicPlace() string {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	panicking := false
	for {
		f, more := frames.Next()
		inRuntime := strings.HasPrefix(f.Function, "runtime.")
		switch {
		case inRuntime && (f.Function == "runtime.gopanic" || f.Function == "runtime.sigpanic"):
			panicking = true
		case panicking && !inRuntime:
			return fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		if !more {
			return ""
		}
	}
}

// stackBytes bounds the stack that is shown with a plan error.
const stackBytes = 3 << 10

// trimmed is the interesting end of a stack: what led from the panic to the build function.
func trimmed(stack []byte) string {
	s := string(stack)
	if i := strings.LastIndex(s, "panic("); i >= 0 {
		s = s[i:]
	}
	if len(s) > stackBytes {
		s = strings.ToValidUTF8(s[:stackBytes], "") + "…"
	}
	return s
}
