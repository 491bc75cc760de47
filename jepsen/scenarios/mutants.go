package scenarios

// Mutant is a build that lacks one protection: with the build tag mutant, the environment variable SLUICE_MUTANT leaves it out.
type Mutant struct {
	Protection string // its name in the code, invariant.Without
	Means      string // what is left out
	Caught     string // scenario that finds it
}

// Mutants that exist. The suite is trusted only while each is caught.
func Mutants() []Mutant {
	return []Mutant{
		{"request-ids", "a request id that was served before makes another job", "leader-storm"},
		{"adoption", "a new leader ends the task processes that run instead of adopting them", "all-coordinators"},
		{"abort-of-leftovers", "output in progress of an attempt that is gone stays", "kill-worker"},
	}
}
