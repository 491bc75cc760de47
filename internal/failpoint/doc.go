// Package failpoint lets a test break a process at a named place: return an error there, panic, exit, be killed or
// stopped, wait until released, or take longer.
//
// A point is one call in the code that it belongs to,
//
//	if err := failpoint.Hit(ctx, "coordinator.before-commit"); err != nil {
//		return err
//	}
//
// named PACKAGE.STEP by a string literal that occurs nowhere else (a law checks it). While nothing is armed, Hit is one
// atomic load. Points are armed for a whole process by its environment, or by code in tests:
//
//	SLUICE_FAILPOINTS="coordinator.before-commit=2:kill; worker.deploy@w1=error(disk full)"
//	failpoint.Arm(t, "coordinator.before-commit=pause")
//
// The form is NAME[@SCOPE]=[SELECTION:]ACTION. A scope restricts the point to contexts made by WithScope, so that one
// node of several in a process fails. A selection is the number of the hit that acts, "2", or "2+" for it and all later
// ones; without it every hit acts. Actions:
//
//	error[(TEXT)]   Hit returns an *Error
//	panic[(TEXT)]   Hit panics
//	exit[(CODE)]    the process exits at once, without deferred calls; 1 without a code
//	kill            the process kills itself with SIGKILL, as kill -9 does
//	stop            the process stops itself with SIGSTOP, until somebody sends SIGCONT
//	pause[(DIR)]    Hit writes DIR/NAME.reached and waits for DIR/NAME.release; by code, see Handle
//	delay(D)        Hit takes the duration D longer
//
// Waiting ends early with the context. What the process does to itself is announced on standard error first.
//
// The set of armed points is the one mutable value of this kind in the project: a point that had to be handed to every
// place it may break would have to be a parameter of everything. It is not exported, and nothing else is kept there.
//
// Concurrency: everything may be called from any goroutine. Two tests may not arm the same point at the same time.
package failpoint
