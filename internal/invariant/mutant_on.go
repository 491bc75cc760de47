//go:build mutant

package invariant

import "os"

// Without says which protection this process leaves out: the one that SLUICE_MUTANT names.
func Without(protection string) bool { return os.Getenv("SLUICE_MUTANT") == protection }

// Mutant is what processes that this one starts have in their environment, so that they leave out the same.
func Mutant() []string { return []string{"SLUICE_MUTANT=" + os.Getenv("SLUICE_MUTANT")} }
