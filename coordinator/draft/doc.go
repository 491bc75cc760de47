// Package draft turns what a build function returned into what is proposed: a plan, or why the job has none.
//
// Pure. The plan itself is made by coordinator/plan; here is what a cluster, as it is now, adds to it.
package draft
