package snapshot

import "fmt"

// Name is the name of an object: JOB/JOBEPOCH/PROCESS/ID-N.segment or JOB/JOBEPOCH/ID-TERM.manifest, with slashes on every system.
// Process numbers and checkpoint ids are issued by the replicated facts and never again, so a name is never used twice.
type Name string

// Segment names the n-th segment that a task process writes for a checkpoint, from 0. A process that is 0 is that of an embedded job.
func Segment(job string, jobEpoch, process, checkpoint uint64, n int) Name {
	return Name(fmt.Sprintf("%s/%d/%d/%d-%d.segment", job, jobEpoch, process, checkpoint, n))
}

// Manifest names the manifest of a checkpoint that the leader of a term writes: one that is no more may have written another.
func Manifest(job string, jobEpoch, checkpoint, term uint64) Name {
	return Name(fmt.Sprintf("%s/%d/%d-%d.manifest", job, jobEpoch, checkpoint, term))
}
