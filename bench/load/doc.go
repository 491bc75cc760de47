// Command load is the one side of a comparison: it runs one case once, in this process, and prints what was measured as one line of
// JSON. `sluice bench` starts it, in turns with the other side, and does the arithmetic.
//
//	load run  --query=q5 --events=1000000            a query of NX1 by the engine, embedded
//	load cost --query=q5 --events=1000000            the same by a plain loop (package bench/cost)
//	load run  --keys=1000000 [--zipf]                count and sum of 100-byte values over so many keys
//	load --query=q5 …                                the job itself, for a cluster
//
// Each run is a process of its own: no heap, no collector and no code path is warm from another case, CPU time is that of the
// process, and GOMAXPROCS is set from outside alike for both sides. The measured time begins when the job is built and ends when it
// has finished, so that the start of the process is not in it.
package main
