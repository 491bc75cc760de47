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
		{"newest-checkpoint", "a restart goes back to the oldest checkpoint that is kept", "kill-worker"},
		{"needed-objects", "objects of checkpoints that are kept are deleted, unless the newest one has them", "no-fault"},
		{"aborted-changes", "what a checkpoint would have written that was given up is not written by the next one", "aborted-after-freeze"},
		{"alignment", "a channel that has brought its barrier is read on", "kill-in-alignment"},
		{"copies", "a checkpoint is acknowledged when one store has it", "power-cut"},
		{"commit-after-completion", "output becomes visible when it is prepared", "kill-worker"},
		{"commit-before-answer", "a commit is answered before it is done", "killed-commits"},
		{"abort-of-leftovers", "output in progress of an attempt that is gone stays", "kill-worker"},
	}
}
