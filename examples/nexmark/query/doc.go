// Package query has the queries of the NX1 workload as jobs: for the example, and for the benchmarks, which run the same jobs
// into another sink.
//
// The queries keep nothing for ever: what joins, ranks and sums wait for is given up when event time has passed it, where
// the query has a time to pass; but q4, q6 and q9 remember each auction with its best bid, q19 with its ten best ones.
// Those of the mode "final state" in the file of expected digests are defined over the whole input; they emit the last value of each key
// when the input ends.
package query
