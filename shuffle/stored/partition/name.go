package partition

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// Name is the full name of a partition: what one attempt of a producer wrote for one BLOCKING edge. Names are never
// used twice.
type Name struct {
	Job         string
	JobEpoch    uint64
	Region      int32
	RegionEpoch uint64
	Edge        int32
	Producer    int32 // index of the producing subtask
	Attempt     uint32
}

// FromProto is the name that a message means. It is not judged: see Validate.
func FromProto(job string, p *taskpb.PartitionName) Name {
	return Name{
		Job: job, JobEpoch: p.GetJobEpoch(), Region: p.GetRegion(), RegionEpoch: p.GetRegionEpoch(),
		Edge: p.GetEdge(), Producer: p.GetProducer(), Attempt: p.GetAttempt(),
	}
}

// Proto is n as part of a message that names the job elsewhere.
func (n Name) Proto() *taskpb.PartitionName {
	return &taskpb.PartitionName{
		JobEpoch: n.JobEpoch, Region: n.Region, RegionEpoch: n.RegionEpoch, Edge: n.Edge, Producer: n.Producer, Attempt: n.Attempt,
	}
}

// Ref is n as failures and plans of deletion say it.
func (n Name) Ref() *jobpb.PartitionRef {
	return &jobpb.PartitionRef{Edge: n.Edge, Producer: n.Producer, Attempt: n.Attempt}
}

func (n Name) String() string {
	return fmt.Sprintf("partition of edge %d, producer %d, attempt %d (job %s, epochs %d and %d)",
		n.Edge, n.Producer, n.Attempt, n.Job, n.JobEpoch, n.RegionEpoch)
}

// maxJob bounds a job id in bytes; with its longest suffix it is still a name that every file system takes.
const maxJob = 200

// Validate reports what is wrong with a name that came from elsewhere. Job ids become the name of a directory, so
// whatever could lead out of it, or be taken for something else, is refused.
func (n Name) Validate() error {
	var errs []error
	if err := ValidateJob(n.Job); err != nil {
		errs = append(errs, err)
	}
	if n.Region < 0 || n.Edge < 0 || n.Producer < 0 {
		errs = append(errs, fmt.Errorf("region %d, edge %d, producer %d", n.Region, n.Edge, n.Producer))
	}
	if n.Attempt == 0 {
		errs = append(errs, errors.New("attempt 0"))
	}
	return errors.Join(errs...)
}

// ValidateJob reports whether a job id cannot be the name of a directory.
func ValidateJob(job string) error {
	switch {
	case job == "" || len(job) > maxJob:
		return fmt.Errorf("job id of %d bytes", len(job))
	case strings.ContainsFunc(job, func(r rune) bool { return r < ' ' || r == 0x7f || r == '/' || r == '\\' || r == 0xfffd }):
		return fmt.Errorf("job id %q", job)
	case strings.Trim(job, ". ") != job || strings.HasSuffix(job, ".tmp"):
		return fmt.Errorf("job id %q", job)
	}
	return nil
}
