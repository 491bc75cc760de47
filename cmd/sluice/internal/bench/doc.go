// Package bench conducts measurements: it starts one process per run (bench/load), the engine and the plain loop in turns, compares
// what they gave, and does the arithmetic.
//
// What lives here: cases, processes, statistics, reports. What never does: a job, a type of a record, the runtime of tasks. The jobs
// that are measured are linked into a binary of their own, for three reasons: the command line stays as small as it is, a cluster runs
// job binaries anyway, and a process per run shares no heap and no collector with another.
//
// A figure is printed only of runs whose digests agree: the canonical digest of an untimed run with the one that other programs have
// computed, and the field digest of every timed run with that of the loop, or of the other runs where there is no loop. Ratios are
// taken pair by pair, of two runs that follow each other, because the machine does other things meanwhile.
//
// Concurrency: none; one process at a time.
package bench
