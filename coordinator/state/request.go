package state

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/coordinator/state/jobid"
	"github.com/sluiceio/sluice/coordinator/state/ledger"
	"github.com/sluiceio/sluice/coordinator/state/requestid"
	"github.com/sluiceio/sluice/internal/invariant"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// submitJob creates a job, once per request id.
func (t *tx) submitJob(spec *jobpb.JobSpec, request string) Result {
	return t.once(request, "submit", spec, func() Result {
		if t.Artifact(spec.Artifact) == nil {
			return refused(CodeNoArtifact, "artifact %.12s is not stored in this cluster", spec.Artifact)
		}
		spec, from, r := t.origin(spec)
		if r.Status != Applied {
			return r
		}
		t.nextJob++
		j := &Job{number: t.nextJob, checkpoints: from, head: &jobpb.Job{
			Id: fmt.Sprintf("%s-%d", jobid.Name(spec.Name), t.nextJob), Spec: spec, RequestId: request,
			Status: jobpb.JobStatus_JOB_CREATED, Desired: jobpb.JobStatus_JOB_FINISHED, Epoch: 1, CreatedUs: t.now,
		}}
		t.putJob(j)
		t.event(&jobpb.Event{Kind: "job-submitted", Job: j.ID()})
		return applied(j.ID())
	})
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
	return t.once(request, "cancel", &commandpb.CancelJob{Job: id}, func() Result {
		return t.edit(id, func(e *jobEdit) Result { return e.cancel() })
	})
}

// forgetJobs drops terminal jobs. Their numbers are never issued again. One that has objects gives its checkpoints up first, and is
// dropped when the stores have deleted them; one with savepoints stays: they are their user's.
func (t *tx) forgetJobs(ids []string) Result {
	n := 0
	for _, id := range ids {
		j := t.Job(id)
		if j == nil || !Terminal(j.Status()) || ledger.Savepoints(j.checkpoints) {
			continue
		}
		if len(j.checkpoints.GetObjects()) > 0 {
			if len(j.checkpoints.Completed) > 0 {
				t.edit(id, func(e *jobEdit) Result { return e.took(ledger.Release(e.j.checkpoints), nil) })
				n++
			}
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

// once performs a request, unless its id was served before. Without an id nothing can be told apart.
func (t *tx) once(id, kind string, m proto.Message, perform func() Result) Result {
	if id == "" {
		return perform()
	}
	print := requestid.Fingerprint(kind, m)
	if r, served := t.served(id, kind, print); served {
		return r
	}
	if r, full := t.noRoom(); full {
		return r
	}
	r := perform()
	if r.Status == Applied {
		t.remember(id, kind, r.Job, print)
	}
	return r
}

// served answers a request id that was used before, or that is too old for the cluster to know whether it was.
func (t *tx) served(id, kind string, print []byte) (Result, bool) {
	if r := t.Request(id); r != nil && !invariant.Without("request-ids") {
		if r.Kind != kind || string(r.Fingerprint) != string(print) {
			return refused(CodeRequestReused, "request id %s was used for another request (job %s): draw a fresh one", id, r.Job), true
		}
		return Result{Status: Duplicate, Job: r.Job}, true
	}
	if at, ok := requestid.Time(id); ok && t.now-at > RequestMemoryMicros {
		return refused(CodeRequestExpired, "request id %s is older than 24 hours: whether it was served is no longer known", id), true
	}
	return Result{}, false
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
