//go:build !race && !invariant

package invariant

// Enabled says that this build has checks.
const Enabled = false

// Exclusive guards something that has one owner at a time without a lock: a loop's state, a writer. It is no lock; it
// panics where a second owner enters. In this build it does nothing and takes no room.
type Exclusive struct{}

// Enter marks the beginning of exclusive use; who names the user in the report.
func (*Exclusive) Enter(who string) {}

// Leave ends it.
func (*Exclusive) Leave() {}
