package invariant

import "fmt"

// Violation is the panic value of a violated invariant.
type Violation struct {
	Message string
}

func (v *Violation) Error() string { return "invariant violated: " + v.Message }

// That panics if ok is false, in builds with checks.
func That(ok bool, format string, args ...any) {
	if Enabled && !ok {
		panic(&Violation{Message: fmt.Sprintf(format, args...)})
	}
}
