//go:build race || invariant

package invariant

import "sync/atomic"

// Enabled says that this build has checks.
const Enabled = true

// Exclusive guards something that has one owner at a time without a lock: a loop's state, a writer. It is no lock; it
// panics where a second owner enters. The zero value is ready.
type Exclusive struct {
	owner atomic.Pointer[string]
}

// Enter marks the beginning of exclusive use; who names the user in the report.
func (e *Exclusive) Enter(who string) {
	if !e.owner.CompareAndSwap(nil, &who) {
		other := "somebody who has left meanwhile"
		if p := e.owner.Load(); p != nil {
			other = *p
		}
		That(false, "%s enters while %s is inside", who, other)
	}
}

// Leave ends it.
func (e *Exclusive) Leave() {
	That(e.owner.Swap(nil) != nil, "leave without enter")
}
