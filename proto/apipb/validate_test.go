package apipb

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluiceio/sluice/proto/jobpb"
)

var digest = strings.Repeat("0a", 32)

func spec(change func(*jobpb.JobSpec)) *jobpb.JobSpec {
	s := &jobpb.JobSpec{Name: "word-count_2.0", Artifact: digest, Params: map[string]string{"input": "/data/*.csv"}, Settings: map[string]string{"restart": "none"}}
	if change != nil {
		change(s)
	}
	return s
}

func TestSpecificationsAreValidated(t *testing.T) {
	for _, good := range []*jobpb.JobSpec{
		spec(nil),
		spec(func(s *jobpb.JobSpec) { s.Parallelism = -1 }),
		spec(func(s *jobpb.JobSpec) { s.Name = strings.Repeat("x", MaxName) }),
		spec(func(s *jobpb.JobSpec) { s.Params["text"] = "any text, späces\nand lines" }),
	} {
		if err := ValidateSpec(good); err != nil {
			t.Errorf("%v: %v", good, err)
		}
	}
	for want, bad := range map[string]*jobpb.JobSpec{
		"spec: empty":             nil,
		"spec.name: empty":        spec(func(s *jobpb.JobSpec) { s.Name = "" }),
		"spec.name: 64 bytes":     spec(func(s *jobpb.JobSpec) { s.Name = strings.Repeat("x", 64) }),
		`spec.name: ".hidden"`:    spec(func(s *jobpb.JobSpec) { s.Name = ".hidden" }),
		`spec.name: "a/b"`:        spec(func(s *jobpb.JobSpec) { s.Name = "a/b" }),
		`spec.name: "a b"`:        spec(func(s *jobpb.JobSpec) { s.Name = "a b" }),
		`spec.name: "-x"`:         spec(func(s *jobpb.JobSpec) { s.Name = "-x" }),
		"spec.artifact":           spec(func(s *jobpb.JobSpec) { s.Artifact = strings.ToUpper(digest) }),
		"spec.parallelism: -2":    spec(func(s *jobpb.JobSpec) { s.Parallelism = -2 }),
		"spec.parallelism: 40000": spec(func(s *jobpb.JobSpec) { s.Parallelism = 40000 }),
		"spec.params: key":        spec(func(s *jobpb.JobSpec) { s.Params["a b"] = "" }),
		"spec.params: value of":   spec(func(s *jobpb.JobSpec) { s.Params["a"] = strings.Repeat("x", maxValue+1) }),
		"not UTF-8":               spec(func(s *jobpb.JobSpec) { s.Settings["a"] = "\xff" }),
		"257 entries": spec(func(s *jobpb.JobSpec) {
			s.Params = map[string]string{}
			for i := range maxEntries + 1 {
				s.Params[fmt.Sprint(i)] = ""
			}
		}),
		"together": nil,
	} {
		if want == "together" {
			bad = spec(func(s *jobpb.JobSpec) {
				for i := range 5 {
					s.Params[fmt.Sprint(i)] = strings.Repeat("x", maxValue)
				}
			})
			want = "parameters and settings have"
		}
		if err := ValidateSpec(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestRequestsAreValidated(t *testing.T) {
	long := strings.Repeat("x", 200)
	for name, c := range map[string]struct {
		good, bad interface{ Validate() error }
	}{
		"submit":             {&SubmitRequest{Spec: spec(nil), RequestId: "r"}, &SubmitRequest{Spec: spec(nil)}},
		"submit, long id":    {&SubmitRequest{Spec: spec(nil), RequestId: long[:128]}, &SubmitRequest{Spec: spec(nil), RequestId: long}},
		"submit, odd id":     {&SubmitRequest{Spec: spec(nil), RequestId: "r-1"}, &SubmitRequest{Spec: spec(nil), RequestId: "r 1"}},
		"plan":               {&PlanRequest{What: &PlanRequest_Spec{Spec: spec(nil)}}, &PlanRequest{}},
		"plan, job":          {&PlanRequest{What: &PlanRequest_Job{Job: "j-1"}}, &PlanRequest{What: &PlanRequest_Job{}}},
		"list":               {&ListRequest{Status: []jobpb.JobStatus{jobpb.JobStatus_JOB_RUNNING}}, &ListRequest{Status: []jobpb.JobStatus{99}}},
		"status":             {&StatusRequest{Job: "j-1"}, &StatusRequest{Job: "j\n1"}},
		"wait":               {&WaitRequest{Job: "j-1"}, &WaitRequest{Job: "j-1", Until: []jobpb.JobStatus{0}}},
		"cancel":             {&CancelRequest{Job: "j-1"}, &CancelRequest{}},
		"events":             {&EventsRequest{}, &EventsRequest{Job: long}},
		"logs":               {&LogsRequest{Job: "j-1"}, &LogsRequest{Job: "j-1", TailBytes: -1}},
		"upload":             {&UploadHeader{Digest: digest, Size: 1}, (*UploadHeader)(nil)},
		"upload, size":       {&UploadHeader{Digest: digest, Size: 1}, &UploadHeader{Digest: digest}},
		"stat":               {&StatRequest{Digest: digest}, &StatRequest{Digest: digest[1:]}},
		"fetch":              {&FetchRequest{Digest: digest}, &FetchRequest{Digest: "g" + digest[1:]}},
		"drain":              {&DrainWorkerRequest{Worker: "w"}, &DrainWorkerRequest{}},
		"add peer":           {&AddPeerRequest{Id: "a", RaftAddress: "a:1", ApiAddress: "a:2"}, &AddPeerRequest{Id: "a"}},
		"remove peer":        {&RemovePeerRequest{Id: "a"}, &RemovePeerRequest{}},
		"transfer":           {&TransferLeaderRequest{}, &TransferLeaderRequest{To: long}},
		"hello":              {&HelloRequest{Id: "a", RaftAddress: "a:1", ApiAddress: "a:2", Seen: []string{"a"}}, &HelloRequest{Id: "a", RaftAddress: "a:1", ApiAddress: "a:2", Seen: []string{""}}},
		"hello, expectation": {&HelloRequest{Id: "a", RaftAddress: "a:1", ApiAddress: "a:2"}, &HelloRequest{Id: "a", RaftAddress: "a:1", ApiAddress: "a:2", Expect: -1}},
		"hello, crowd":       {&HelloResponse{Id: "a", RaftAddress: "a:1", ApiAddress: "a:2"}, &HelloResponse{Id: "a", RaftAddress: "a:1", ApiAddress: "a:2", Seen: make([]string, 100)}},
		"join":               {&JoinRequest{Id: "a", RaftAddress: "a:1", ApiAddress: "a:2"}, &JoinRequest{Id: "a", RaftAddress: "a:1", ApiAddress: "a:2", Version: long}},
	} {
		if err := c.good.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := c.bad.Validate(); err == nil {
			t.Errorf("%s: %v is accepted", name, c.bad)
		}
	}
}
