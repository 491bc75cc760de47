// Package workdir gives an embedded run a directory of its own below the temporary directory of the user: for the stored
// results of its exchanges and for spilled records.
//
// A directory is locked for as long as its run lives. One whose lock is free belongs to a run that has crashed, or was
// killed: the next start removes it. So nothing is left behind for longer than until then, and nobody's files are taken
// away from under them.
//
// What never lives here: anything that a run has to find again.
//
// Concurrency: Make and Dir may be used from any goroutine; several runs, in one process or in many, do not disturb each
// other.
package workdir
