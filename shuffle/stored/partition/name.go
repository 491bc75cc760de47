package partition

import (
	"cmp"
	"errors"
	"fmt"
	"path"
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

// Suffixes of the two files of a partition.
const (
	DataSuffix  = ".data"
	IndexSuffix = ".index"
)

// Dir is the directory of the partition's files, relative to the directory of all partitions. Slash-separated.
func (n Name) Dir() string {
	return path.Join(n.Job, fmt.Sprintf("%d-%d-%d", n.JobEpoch, n.Region, n.RegionEpoch))
}

// Path is the path of the partition's files without their suffixes, relative to the directory of all partitions.
func (n Name) Path() string {
	return path.Join(n.Dir(), fmt.Sprintf("e%d-p%d-a%d", n.Edge, n.Producer, n.Attempt))
}

// ParsePath is the name whose Path is job/region/base. False: there is none.
func ParsePath(job, region, base string) (Name, bool) {
	n := Name{Job: job}
	if _, err := fmt.Sscanf(region, "%d-%d-%d", &n.JobEpoch, &n.Region, &n.RegionEpoch); err != nil {
		return Name{}, false
	}
	if _, err := fmt.Sscanf(base, "e%d-p%d-a%d", &n.Edge, &n.Producer, &n.Attempt); err != nil {
		return Name{}, false
	}
	// Scanning is generous; only what would be written so is a name.
	if n.Validate() != nil || n.Path() != path.Join(job, region, base) {
		return Name{}, false
	}
	return n, true
}

// Compare orders names by job, epochs, edge, producer and attempt.
func (n Name) Compare(o Name) int {
	return cmp.Or(
		strings.Compare(n.Job, o.Job), cmp.Compare(n.JobEpoch, o.JobEpoch), cmp.Compare(n.Region, o.Region), cmp.Compare(n.RegionEpoch, o.RegionEpoch),
		cmp.Compare(n.Edge, o.Edge), cmp.Compare(n.Producer, o.Producer), cmp.Compare(n.Attempt, o.Attempt),
	)
}
