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
// Concurrency: Run returns when everything that it started has ended. A Collected may be read afterwards, and before from any
// goroutine.
package flowtest
