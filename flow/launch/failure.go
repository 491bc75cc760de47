package launch

import (
	"fmt"
	"io"
	"strings"

	"github.com/sluiceio/sluice/proto/jobpb"
)

// printFailure says why a job failed: the root cause, where it happened and on which record.
func printFailure(w io.Writer, job *jobpb.Job) {
	f := job.Failure
	if f == nil {
		fmt.Fprintf(w, "error: the job ended as %s\n", job.Status)
		return
	}
	fmt.Fprintf(w, "error %s: %s\n", f.Code, f.Message)
	if f.Operator != "" {
		fmt.Fprintf(w, "  operator: %s[%d], attempt %d\n", f.Operator, f.Index, f.Attempt)
	}
	if f.Position != "" {
		fmt.Fprintf(w, "  record: %s\n", f.Position)
	}
	if job.Restarts > 0 {
		fmt.Fprintf(w, "  restarts: %d\n", job.Restarts)
	}
	if n := jobpb.SameRecord(job.Failures); n > 0 {
		fmt.Fprintf(w, "  it fails at the same record on every attempt (%d times)\n", n)
	}
	if f.Stack != "" {
		fmt.Fprintf(w, "  stack:\n    %s\n", strings.ReplaceAll(userStack(f.Stack), "\n", "\n    "))
	}
}

// userStack is a stack without what drives the operators.
func userStack(stack string) string {
	if i := strings.Index(stack, "\n"+modulePath+"/worker/task"); i > 0 {
		stack = stack[:i]
	}
	return strings.TrimSpace(stack)
}
