//go:build mutant

package invariant

import "os"

// Without says which protection this process leaves out: the one that SLUICE_MUTANT names.
func Without(protection string) bool { return os.Getenv("SLUICE_MUTANT") == protection }
