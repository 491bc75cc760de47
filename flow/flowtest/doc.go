// Package flowtest runs jobs inside a test: the same build function, planner, scheduler and task runtime as ./job, with
// sources and sinks replaced by id or left as they are.
//
//	func TestCounts(t *testing.T) {
//		counts := flowtest.Sink[flow.KV[string, int64]]("counts")
//		flowtest.Run(t, &Config{}, build, flowtest.Source("lines", "a b", "b"), counts)
//		if got := counts.Values(); … {
//		}
//	}
//
// What a Sink shows is what the job has committed: records of failed attempts are not in it.
//
// One processor, without a job: Keyed and Connected drive it record by record and show its output, state and timers; Survives
// and SurvivesConnected play a script with a snapshot and a restore after every step. A whole job: Run and Try take it to its
// end; Job drives it record by record, in a bubble of testing/synctest whose clock the test moves; Deterministic runs it under
// many orders of arrival and names the one that changes the answer. Connectors: ConformSource and ConformSink, which are the
// suites of package connector/suite.
//
// docs/testing.md is the guide, with code that runs.
//
// Concurrency: Run returns when everything that it started has ended. A Collected may be read afterwards, and before from any
// goroutine.
package flowtest
