package launch

import (
	"fmt"
	"io"
	"strings"

	"github.com/sluiceio/sluice/proto/jobpb"
)

// PlanError is every fault that was found in a plan, its parameters or its settings.
type PlanError struct {
	Diagnostics []*jobpb.Diagnostic
}

// Error lists all faults, each with its place and what to do.
func (e *PlanError) Error() string {
	var b strings.Builder
	for i, d := range e.Diagnostics {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(Format("error", d))
	}
	return b.String()
}

// Has reports whether one of the faults has the code.
func (e *PlanError) Has(code string) bool {
	for _, d := range e.Diagnostics {
		if d.Code == code {
			return true
		}
	}
	return false
}

// Format is the text of a diagnostic for people: the cause in the first line, then place and hints.
func Format(severity string, d *jobpb.Diagnostic) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %s", severity, d.Code, d.Message)
	if d.Where != "" {
		fmt.Fprintf(&b, "\n  at %s", d.Where)
	}
	for _, h := range d.Hints {
		fmt.Fprintf(&b, "\n  fix: %s", h)
	}
	return b.String()
}

func printDiagnostics(w io.Writer, severity string, ds []*jobpb.Diagnostic) {
	for _, d := range ds {
		fmt.Fprintln(w, Format(severity, d))
	}
}
