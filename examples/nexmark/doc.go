// Command nexmark runs the queries of the NX1 auction workload.
//
//	nexmark --query=q5 --events=1000000 --seed=42 --usPerEvent=100 --out=DIR
//
// writes the canonical rows of the query into part files below DIR; sluice digest DIR prints their digest, to be compared
// with data/nx1_expected.json, which was computed by other programs.
//
// The queries keep nothing for ever: what joins, ranks and sums wait for is given up when event time has passed it, where
// the query has a time to pass; but q4, q6 and q9 remember each auction with its best bid, q19 with its ten best ones.
// Those of the mode "final state" in the file of expected digests are defined over the whole input; they emit the last value of each key
// when the input ends.
package main
