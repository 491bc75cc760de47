// Package bench measures the engine from outside: jobs built through the public API, run embedded, and compared with
// plain loops that do the same work in the same process.
//
// What lives here: benchmarks and the tests that protect their ratios (TestSpeed…, see package bench/ratio and
// make speed). Benchmarks of one part stand beside that part.
package bench
