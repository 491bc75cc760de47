package snapshot

import (
	"fmt"
	"strings"
)

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

// Prefix is that of all objects of a job.
func Prefix(job string) string { return job + "/" }

// Bounds of a name.
const (
	maxName     = 512
	maxElements = 8
)

// Validate checks a name that comes from elsewhere: it becomes part of a path.
func (n Name) Validate() error {
	if len(n) == 0 || len(n) > maxName {
		return fmt.Errorf("name of %d bytes: an object's has 1 to %d", len(n), maxName)
	}
	elements := strings.Split(string(n), "/")
	if len(elements) < 2 || len(elements) > maxElements {
		return fmt.Errorf("%q is no name of an object: it has %d elements", string(n), len(elements))
	}
	for _, e := range elements {
		if e == "" || e[0] == '.' || strings.IndexFunc(e, foreign) >= 0 {
			return fmt.Errorf("%q is no name of an object: element %q", string(n), e)
		}
	}
	if last := elements[len(elements)-1]; !strings.HasSuffix(last, ".segment") && !strings.HasSuffix(last, ".manifest") {
		return fmt.Errorf("%q is neither a segment nor a manifest", string(n))
	}
	return nil
}

func foreign(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
}
