// Command curve shows what a join costs when its memory is short: the join of the two halves of the flights data on route
// and minute of the day (query f8 of examples/flights), with unlimited memory, then with a half down to a twentieth of
// what its build side takes.
//
//	go run ./bench/curve -input data/flights-3m -half 1500000
//
// The memory of the build side is measured, not guessed: the least batch.memory with which nothing is spilled. Every run
// forms the same pairs, or the command fails. A row of the table is the best of some runs.
package main
