// Package jepsen torments real clusters and judges what they did, and lets you do the same to your own jobs.
//
// It is a black box: it starts the processes of the one binary, speaks to them as any client does, injects faults
// from outside and compares the visible results with an independent oracle. It imports wire contracts and leaves,
// never the coordinator, the worker or the data plane, so that it cannot share their mistakes.
//
//	cluster    starts, kills, pauses and counts the processes of a cluster; cluster/link hurts what is between them
//	nemesis    seeded schedules of faults, and single ones that are recorded and counted
//	traffic    what clients do and what jobs compute, with its oracle
//	history    one JSON-lines file of every client call, every fault and every fact, in order
//	model      what a cluster may do, for comparison with what it did
//	validate   the verdict on each invariant, from the history alone
//	report     results.json and report.html
//	scenarios  the named experiments: workload × faults × verdict
//
// An outcome that is unknown is not a pass, and a scenario reports how many of its faults really took effect. `sluice jepsen`
// runs the scenarios; README.md beside this file has their list and the track record.
//
// # Your own job under fault
//
// NewCluster starts coordinators and workers for one test, and stops them when it ends. What it needs is the sluice binary: the option
// Binary, the environment variable SLUICE_BINARY, or `sluice` on the path. Every failure of the machinery ends the test; what your job did
// is for the test to judge, usually with Rows.
//
//	func TestNoOrderIsLostWithAWorker(t *testing.T) {
//		c := jepsen.NewCluster(t, jepsen.Coordinators(3), jepsen.Workers(3))
//		out := t.TempDir()
//		job := c.Submit("./orders", jepsen.Param("out", out), jepsen.Parallelism(3))
//		c.Kill(c.WorkerOf(job))
//		c.AwaitState(job, jepsen.Finished)
//		if got := c.Rows(out); !slices.Equal(got, want) {
//			t.Errorf("%d rows, want %d", len(got), len(want))
//		}
//	}
//
// Concurrency: a Cluster belongs to the goroutine of its test.
package jepsen
