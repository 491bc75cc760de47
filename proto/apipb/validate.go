package apipb

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/sluiceio/sluice/proto/jobpb"
)

// Bounds of what a client may send. They protect the replicated log, which is for small facts.
const (
	MaxName       = 63 // bytes of a job's name
	maxRequestID  = 128
	maxID         = 128 // bytes of a job id, a node id, an address
	maxEntries    = 256 // parameters, settings
	maxKey        = 128
	maxValue      = 64 << 10
	maxSpec       = 256 << 10 // bytes of all parameters and settings together
	maxParallel   = 1 << 15
	digestLen     = 64
	maxObjectName = 512
	maxPeersKnown = 64
)

// A validation error says which field and why; handlers turn it into an API error.
func field(name, format string, args ...any) error {
	return fmt.Errorf("%s: %s", name, fmt.Sprintf(format, args...))
}

func id(name, value string) error {
	switch {
	case value == "":
		return field(name, "empty")
	case len(value) > maxID:
		return field(name, "%d bytes, at most %d", len(value), maxID)
	case !printable(value):
		return field(name, "%q has characters that are not printable ASCII", value)
	}
	return nil
}

func optionalID(name, value string) error {
	if value == "" {
		return nil
	}
	return id(name, value)
}

func printable(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}

// ValidateRequestID checks the id by which a client recognises its own request. It is remembered, so it is bounded.
func ValidateRequestID(value string) error {
	switch {
	case value == "":
		return field("request_id", "empty; it makes a retry safe: draw a random one per submit and keep it for the retries")
	case len(value) > maxRequestID:
		return field("request_id", "%d bytes, at most %d", len(value), maxRequestID)
	case !printable(value):
		return field("request_id", "%q has characters that are not printable ASCII", value)
	}
	return nil
}

// ValidateSpec checks a job specification.
func ValidateSpec(s *jobpb.JobSpec) error {
	if s == nil {
		return field("spec", "empty")
	}
	if err := validateName(s.Name); err != nil {
		return err
	}
	if err := ValidateDigest("spec.artifact", s.Artifact); err != nil {
		return err
	}
	if s.Parallelism < -1 || s.Parallelism > maxParallel {
		return field("spec.parallelism", "%d is not in 1 to %d (0: the graph's, -1: every slot)", s.Parallelism, maxParallel)
	}
	params, err := entries("spec.params", s.Params)
	if err != nil {
		return err
	}
	settings, err := entries("spec.settings", s.Settings)
	if err != nil {
		return err
	}
	if params+settings > maxSpec {
		return field("spec", "parameters and settings have %d bytes, at most %d", params+settings, maxSpec)
	}
	return nil
}

// validateName: the job id is NAME-N and becomes a label of metrics and a directory of workers.
func validateName(name string) error {
	if name == "" {
		return field("spec.name", "empty")
	}
	if len(name) > MaxName {
		return field("spec.name", "%d bytes, at most %d", len(name), MaxName)
	}
	for i, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if letter || i > 0 && (c == '-' || c == '_' || c == '.') {
			continue
		}
		return field("spec.name", "%q: use letters, digits, '-', '_' and '.', beginning with a letter or digit", name)
	}
	return nil
}

func entries(name string, m map[string]string) (size int, err error) {
	if len(m) > maxEntries {
		return 0, field(name, "%d entries, at most %d", len(m), maxEntries)
	}
	for k, v := range m {
		switch {
		case k == "" || len(k) > maxKey || !printable(k):
			return 0, field(name, "key %.80q: want 1 to %d printable ASCII characters", k, maxKey)
		case len(v) > maxValue:
			return 0, field(name, "value of %q: %d bytes, at most %d", k, len(v), maxValue)
		case !utf8.ValidString(v):
			return 0, field(name, "value of %q: not UTF-8", k)
		}
		size += len(k) + len(v)
	}
	return size, nil
}

// ValidateDigest checks the name of an artifact.
func ValidateDigest(name, digest string) error {
	if len(digest) != digestLen {
		return field(name, "%.80q: want %d lower-case hex digits (SHA-256)", digest, digestLen)
	}
	for _, c := range []byte(digest) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return field(name, "%.80q: not lower-case hex", digest)
		}
	}
	return nil
}

// Validate checks a submit.
func (r *SubmitRequest) Validate() error {
	if err := ValidateRequestID(r.GetRequestId()); err != nil {
		return err
	}
	return ValidateSpec(r.Spec)
}

// Validate checks a plan request.
func (r *PlanRequest) Validate() error {
	switch w := r.GetWhat().(type) {
	case *PlanRequest_Spec:
		return ValidateSpec(w.Spec)
	case *PlanRequest_Job:
		return id("job", w.Job)
	}
	return field("what", "neither a specification nor a job")
}

// Validate checks a list request.
func (r *ListRequest) Validate() error { return statuses("status", r.GetStatus()) }

func statuses(name string, all []jobpb.JobStatus) error {
	for i, s := range all {
		if jobpb.JobStatus_name[int32(s)] == "" || s == jobpb.JobStatus_JOB_UNSPECIFIED {
			return field(fmt.Sprintf("%s[%d]", name, i), "%d is no status", s)
		}
	}
	return nil
}

// Validate checks a status request.
func (r *StatusRequest) Validate() error { return id("job", r.GetJob()) }

// Validate checks the name of the job.
func (r *WatermarksRequest) Validate() error { return id("job", r.GetJob()) }

// Validate checks a wait.
func (r *WaitRequest) Validate() error {
	return errors.Join(id("job", r.GetJob()), statuses("until", r.GetUntil()))
}

// Validate checks the name of the job.
func (r *CheckpointsRequest) Validate() error { return id("job", r.GetJob()) }

// Validate checks a request for a savepoint. Periodic and final checkpoints are not for clients to ask for.
func (r *SavepointRequest) Validate() error {
	if err := errors.Join(id("job", r.GetJob()), id("request_id", r.GetRequestId())); err != nil {
		return err
	}
	switch r.GetKind() {
	case jobpb.CheckpointKind_CHECKPOINT_SAVEPOINT, jobpb.CheckpointKind_CHECKPOINT_STOP, jobpb.CheckpointKind_CHECKPOINT_DRAIN:
		return nil
	}
	return field("kind", "%v is none that can be asked for", r.GetKind())
}

// Validate checks a change of parallelism.
func (r *RescaleRequest) Validate() error {
	if n := r.GetParallelism(); n < 1 || n > jobpb.MaxParallelism {
		return field("parallelism", "%d is not in 1…%d", n, jobpb.MaxParallelism)
	}
	return errors.Join(id("job", r.GetJob()), id("request_id", r.GetRequestId()))
}

// Validate checks the savepoint's name.
func (r *DeleteSavepointRequest) Validate() error {
	if r.GetId() == 0 {
		return field("id", "checkpoints count from 1")
	}
	return id("job", r.GetJob())
}

// Validate checks that the request can name an object.
func (r *ReadObjectRequest) Validate() error {
	switch {
	case r.GetCheckpoint() == 0:
		return field("checkpoint", "checkpoints count from 1")
	case r.GetOffset() < 0:
		return field("offset", "%d is before the first byte", r.GetOffset())
	case r.GetName() == "" || len(r.GetName()) > maxObjectName || !printable(r.GetName()):
		return field("name", "%.100q is no name of an object", r.GetName())
	}
	return id("job", r.GetJob())
}

// Validate checks a cancel.
func (r *CancelRequest) Validate() error { return id("job", r.GetJob()) }

// Validate checks a request for events.
func (r *EventsRequest) Validate() error { return optionalID("job", r.GetJob()) }

// Validate checks a request for logs.
func (r *LogsRequest) Validate() error {
	if r.GetTailBytes() < 0 {
		return field("tail_bytes", "%d is negative", r.GetTailBytes())
	}
	return id("job", r.GetJob())
}

// Validate checks the first message of an upload.
func (h *UploadHeader) Validate() error {
	if h == nil {
		return field("header", "an upload begins with one")
	}
	if h.Size <= 0 {
		return field("header.size", "%d is not positive", h.Size)
	}
	return ValidateDigest("header.digest", h.Digest)
}

// Validate checks a stat.
func (r *StatRequest) Validate() error { return ValidateDigest("digest", r.GetDigest()) }

// Validate checks a fetch.
func (r *FetchRequest) Validate() error { return ValidateDigest("digest", r.GetDigest()) }

// Validate checks a drain.
func (r *DrainWorkerRequest) Validate() error { return id("worker", r.GetWorker()) }

// Validate checks an added coordinator.
func (r *AddPeerRequest) Validate() error {
	return errors.Join(id("id", r.GetId()), id("raft_address", r.GetRaftAddress()), id("api_address", r.GetApiAddress()))
}

// Validate checks a removal.
func (r *RemovePeerRequest) Validate() error { return id("id", r.GetId()) }

// Validate checks a transfer.
func (r *TransferLeaderRequest) Validate() error { return optionalID("to", r.GetTo()) }

// Validate checks the introduction of a coordinator.
func (r *HelloRequest) Validate() error {
	if err := errors.Join(
		id("id", r.GetId()), id("api_address", r.GetApiAddress()), id("raft_address", r.GetRaftAddress()),
		optionalID("cluster", r.GetCluster()), seen(r.GetSeen()),
	); err != nil {
		return err
	}
	if r.Expect < 0 {
		return field("expect", "%d is negative", r.Expect)
	}
	return nil
}

func seen(ids []string) error {
	if len(ids) > maxPeersKnown {
		return field("seen", "%d coordinators, at most %d", len(ids), maxPeersKnown)
	}
	for i, s := range ids {
		if err := id(fmt.Sprintf("seen[%d]", i), s); err != nil {
			return err
		}
	}
	return nil
}

// Validate checks the answer to an introduction.
func (r *HelloResponse) Validate() error {
	return errors.Join(
		id("id", r.GetId()), id("api_address", r.GetApiAddress()), id("raft_address", r.GetRaftAddress()),
		optionalID("cluster", r.GetCluster()), optionalID("leader_address", r.GetLeaderAddress()), seen(r.GetSeen()),
	)
}

// Validate checks a join.
func (r *JoinRequest) Validate() error {
	return errors.Join(
		id("id", r.GetId()), id("api_address", r.GetApiAddress()), id("raft_address", r.GetRaftAddress()),
		optionalID("version", r.GetVersion()),
	)
}
