package state

import (
	"crypto/sha256"
	"fmt"
	"strconv"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/coordinator/state/jobid"
	"github.com/sluiceio/sluice/internal/invariant"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// submitJob creates a job, once per request id.
func (t *tx) submitJob(spec *jobpb.JobSpec, request string) Result {
	print := fingerprint("submit", spec)
	if r, served := t.served(request, "submit", print); served {
		return r
	}
	if t.Artifact(spec.Artifact) == nil {
		return refused(CodeNoArtifact, "artifact %.12s is not stored in this cluster", spec.Artifact)
	}
	if r, full := t.noRoom(); full {
		return r
	}
	t.nextJob++
	j := &Job{number: t.nextJob, head: &jobpb.Job{
		Id: fmt.Sprintf("%s-%d", jobid.Name(spec.Name), t.nextJob), Spec: spec, RequestId: request,
		Status: jobpb.JobStatus_JOB_CREATED, Desired: jobpb.JobStatus_JOB_FINISHED, Epoch: 1, CreatedUs: t.now,
	}}
	t.putJob(j)
	t.remember(request, "submit", j.ID(), print)
	t.event(&jobpb.Event{Kind: "job-submitted", Job: j.ID()})
	return applied(j.ID())
}

// putJob makes a changed job head visible under this command's revision.
func (t *tx) putJob(j *Job) {
	if j.head.Revision != 0 {
		t.changed = t.changed.Del(j.head.Revision)
	}
	j.head.Revision = t.index
	t.changed = t.changed.Put(t.index, j.number)
	t.jobs = t.jobs.Put(j.number, j)
	t.note(changeJob, j.head)
}

// cancelJob asks for the end of a job. With an attempt alive the job first goes to CANCELLING.
func (t *tx) cancelJob(id, request string) Result {
	print := fingerprint("cancel", &commandpb.CancelJob{Job: id})
	if request != "" {
		if r, served := t.served(request, "cancel", print); served {
			return r
		}
		if r, full := t.noRoom(); full {
			return r
		}
	}
	r := t.edit(id, func(e *jobEdit) Result { return e.cancel() })
	if r.Status == Applied && request != "" {
		t.remember(request, "cancel", id, print)
	}
	return r
}

// forgetJobs drops terminal jobs. Their numbers are never issued again.
func (t *tx) forgetJobs(ids []string) Result {
	n := 0
	for _, id := range ids {
		j := t.Job(id)
		if j == nil || !Terminal(j.Status()) {
			continue
		}
		t.jobs = t.jobs.Del(j.number)
		t.changed = t.changed.Del(j.head.Revision)
		t.gone(changeJob, id)
		n++
	}
	if n == 0 {
		return stale("", "none of these jobs can be forgotten")
	}
	r := applied("")
	r.Dropped = len(ids) - n
	return r
}

func fingerprint(kind string, m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(append([]byte(kind), 0), m)
	if err != nil {
		// Only a text that is not UTF-8 can fail, and commands with one were refused.
		b = []byte(kind)
	}
	sum := sha256.Sum256(b)
	return sum[:]
}

// served answers a request id that was used before, or that is too old for the cluster to know whether it was.
func (t *tx) served(id, kind string, print []byte) (Result, bool) {
	if r := t.Request(id); r != nil && !invariant.Without("request-ids") {
		if r.Kind != kind || string(r.Fingerprint) != string(print) {
			return refused(CodeRequestReused, "request id %s was used for another request (job %s): draw a fresh one", id, r.Job), true
		}
		return Result{Status: Duplicate, Job: r.Job}, true
	}
	if at, ok := requestTime(id); ok && t.now-at > RequestMemoryMicros {
		return refused(CodeRequestExpired, "request id %s is older than 24 hours: whether it was served is no longer known", id), true
	}
	return Result{}, false
}

// requestTime is the time in a UUID of version 7, in microseconds since the Unix epoch. Ids of other kinds carry none,
// and are new to the cluster once it has forgotten them.
func requestTime(id string) (micros int64, ok bool) {
	if len(id) != 36 || id[8] != '-' || id[13] != '-' || id[14] != '7' {
		return 0, false
	}
	ms, err := strconv.ParseUint(id[:8]+id[9:13], 16, 64)
	return int64(ms) * 1000, err == nil
}

// noRoom refuses a request whose id could not be remembered: forgetting a younger one instead could run a job twice.
func (t *tx) noRoom() (Result, bool) {
	t.expire()
	if t.requests.Len() >= MaxRequests {
		return refused(CodeFull, "%d requests within 24 hours: no more can be remembered", MaxRequests), true
	}
	return Result{}, false
}

func (t *tx) remember(id, kind, job string, print []byte) {
	r := &commandpb.Request{Id: id, Kind: kind, Job: job, TimeUs: t.now, Fingerprint: print}
	t.nextRequest++
	t.requests = t.requests.Put(id, r)
	t.requestAge = t.requestAge.Put(t.nextRequest, id)
	t.note(changeRequest, r)
}

// expire forgets request ids that are older than the promise. A few at a time: more than one may leave for each that
// comes, so the backlog shrinks without any command being slow.
func (t *tx) expire() {
	const most = 8
	for range most {
		n, id, ok := t.requestAge.First()
		if !ok || t.now-t.Request(id).TimeUs <= RequestMemoryMicros {
			return
		}
		t.requestAge = t.requestAge.Del(n)
		t.requests = t.requests.Del(id)
		t.gone(changeRequest, id)
	}
}
