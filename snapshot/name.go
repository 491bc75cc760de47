package snapshot

import (
	"fmt"
	"strconv"
	"strings"
)

// Name is the name of an object: JOB/JOBEPOCH/PROCESS/ID-N.segment or JOB/JOBEPOCH/ID-TERM.manifest, with slashes on every system.
// Process numbers and checkpoint ids are issued by the replicated facts and never again, so a name is never used twice.
//
// A name that came from elsewhere is data and no path: whoever makes one of it calls Parse first.
type Name string

// Segment names the n-th segment that a task process writes for a checkpoint, from 0. A process that is 0 is that of an embedded job.
func Segment(job string, jobEpoch, process, checkpoint uint64, n int) Name {
	return Parts{Job: job, JobEpoch: jobEpoch, Kind: KindSegment, Process: process, Checkpoint: checkpoint, N: uint64(n)}.Name()
}

// Manifest names the manifest of a checkpoint that the leader of a term writes: one that is no more may have written another.
func Manifest(job string, jobEpoch, checkpoint, term uint64) Name {
	return Parts{Job: job, JobEpoch: jobEpoch, Kind: KindManifest, Checkpoint: checkpoint, N: term}.Name()
}

// Kind is what an object is.
type Kind uint8

const (
	// KindSegment is a file of parts.
	KindSegment Kind = iota + 1
	// KindManifest is a checkpoint.
	KindManifest
)

const (
	segmentSuffix  = ".segment"
	manifestSuffix = ".manifest"
	// maxJob bounds a job id in bytes; a file system takes it as a name.
	maxJob = 200
)

// Parts are what a name is made of.
type Parts struct {
	Job        string
	JobEpoch   uint64
	Kind       Kind
	Process    uint64 // of a segment
	Checkpoint uint64
	N          uint64 // number of a segment, term of a manifest
}

// Name puts the parts together.
func (p Parts) Name() Name {
	if p.Kind == KindManifest {
		return Name(fmt.Sprintf("%s/%d/%d-%d%s", p.Job, p.JobEpoch, p.Checkpoint, p.N, manifestSuffix))
	}
	return Name(fmt.Sprintf("%s/%d/%d/%d-%d%s", p.Job, p.JobEpoch, p.Process, p.Checkpoint, p.N, segmentSuffix))
}

// Parse takes a name apart. What Segment and Manifest would not write is none.
func (n Name) Parse() (Parts, error) {
	p, ok := parse(strings.Split(string(n), "/"))
	if !ok || p.Name() != n { // numbers are read generously; only what would be written so is a name
		return Parts{}, fmt.Errorf("%.300q is no name of an object", string(n))
	}
	return p, nil
}

func parse(elements []string) (p Parts, ok bool) {
	if len(elements) < 3 || ValidateJob(elements[0]) != nil {
		return p, false
	}
	p.Job = elements[0]
	last := elements[len(elements)-1]
	suffix := segmentSuffix
	switch {
	case len(elements) == 4 && strings.HasSuffix(last, segmentSuffix):
		p.Kind = KindSegment
	case len(elements) == 3 && strings.HasSuffix(last, manifestSuffix):
		p.Kind, suffix = KindManifest, manifestSuffix
	default:
		return p, false
	}
	id, n, found := strings.Cut(strings.TrimSuffix(last, suffix), "-")
	ok = found && number(elements[1], &p.JobEpoch) && number(id, &p.Checkpoint) && number(n, &p.N)
	if p.Kind == KindSegment {
		ok = ok && number(elements[2], &p.Process)
	}
	return p, ok && p.Checkpoint > 0
}

func number(s string, to *uint64) bool {
	n, err := strconv.ParseUint(s, 10, 64)
	*to = n
	return err == nil
}

// Validate reports whether n is no name.
func (n Name) Validate() error {
	_, err := n.Parse()
	return err
}

// ValidateJob reports whether a job id cannot be the first element of a name, which becomes that of a directory.
func ValidateJob(job string) error {
	bad := job == "" || len(job) > maxJob || strings.Trim(job, ". ") != job || strings.HasSuffix(job, ".tmp") ||
		strings.ContainsFunc(job, func(r rune) bool { return r < ' ' || r == 0x7f || r == '/' || r == '\\' || r == ':' || r == 0xfffd })
	if bad {
		return fmt.Errorf("%.300q is no job id", job)
	}
	return nil
}
