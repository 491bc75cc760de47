// Package invariant checks at run time what the code relies on, in builds made for finding mistakes: under -race, or
// with the build tag invariant. In other builds Enabled is a false constant, so that the compiler removes whatever it
// guards, and Exclusive is empty.
//
// A violated invariant is a bug of this program, never of its input: bad input is an error, and is checked in every
// build. So a violation panics, with a *Violation.
//
//	invariant.That(len(free) <= total, "%d free of %d", len(free), total)
//
// evaluates its arguments in every build. Where that costs, or on a hot path, the constant guards it:
//
//	if invariant.Enabled {
//		invariant.That(sorted(keys), "keys out of order: %v", keys)
//	}
//
// Concurrency: That may be called from any goroutine; Exclusive finds out who should not be there.
package invariant
