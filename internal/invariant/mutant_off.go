//go:build !mutant

package invariant

// Without is true in a build made to be wrong, if the named protection is to be left out: the fault injection suite is trusted
// only while it finds each of them (jepsen/scenarios, Mutants). In this build it is a false constant for the compiler.
func Without(string) bool { return false }

// Mutant is what processes that this one starts have in their environment, so that they leave out the same. In this build nothing.
func Mutant() []string { return nil }
