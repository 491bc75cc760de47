package ops

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"uuid"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// store is the artifact side of a cluster: it keeps what was uploaded whole.
type store struct {
	calls  tally
	bytes  map[string][]byte // by digest
	cutOff int               // the next uploads end after this many messages, with Unavailable
}

func (s *store) serve(f *fake) *fake {
	f.stat = func(r *apipb.StatRequest) (*apipb.StatResponse, error) {
		s.calls.add("stat")
		return &apipb.StatResponse{Exists: s.bytes[r.Digest] != nil}, nil
	}
	f.uploading = func(stream grpc.ClientStreamingServer[apipb.UploadRequest, apipb.UploadResponse]) error {
		s.calls.add("upload")
		var header *apipb.UploadHeader
		var data []byte
		for n := 0; ; n++ {
			if s.cutOff > 0 && n == s.cutOff {
				s.cutOff = 0
				return status.Error(codes.Unavailable, "dies")
			}
			m, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			if h := m.GetHeader(); h != nil {
				header = h
			}
			data = append(data, m.GetData()...)
		}
		sum := sha256.Sum256(data)
		if hex.EncodeToString(sum[:]) != header.GetDigest() || int64(len(data)) != header.GetSize() {
			return apipb.NewError(codes.InvalidArgument, &apipb.ErrorDetail{Code: "E074"}, "digest or size differ")
		}
		s.bytes[header.Digest] = data
		return stream.SendAndClose(&apipb.UploadResponse{Digest: header.Digest})
	}
	return f
}

func newStore() *store { return &store{bytes: map[string][]byte{}} }

// executable is a file that can be submitted: this very test.
func executable(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("this test is no ELF executable here")
	}
	return os.Args[0]
}

func here() *apipb.InfoResponse {
	return &apipb.InfoResponse{Platforms: []string{runtime.GOOS + "/" + runtime.GOARCH}}
}

// TestSubmitIsOneJobHoweverOftenItIsAsked plays lost answers: the cluster commits, and the client does not learn of it.
func TestSubmitIsOneJobHoweverOftenItIsAsked(t *testing.T) {
	program := executable(t)
	jobs := map[string]string{} // by request id
	var ids tally
	answers := []error{noLeader(), unknownOutcome(), status.Error(codes.Unavailable, "connection reset"), nil}
	s := newStore()
	f := s.serve(&fake{info: func() (*apipb.InfoResponse, error) { return here(), nil }})
	f.submit = func(_ context.Context, r *apipb.SubmitRequest) (*apipb.SubmitResponse, error) {
		ids.add(r.RequestId)
		answer := answers[0]
		answers = answers[1:]
		if apipb.MessageOf(answer) == "no leader" {
			return nil, answer
		}
		_, existed := jobs[r.RequestId]
		jobs[r.RequestId] = r.Spec.Name + "-1"
		return &apipb.SubmitResponse{Job: jobs[r.RequestId], Existed: existed}, answer
	}
	r := newRig(t, f, nil, f)
	err := Submit(t.Context(), r.Session, SubmitOptions{Program: program, Spec: SpecOptions{Name: "flights", Params: map[string]string{"k": "v"}}})
	if err != nil {
		t.Fatal(err)
	}
	got := ids.all()
	if len(got) != 4 || len(jobs) != 1 || len(slices.Compact(got)) != 1 || got[0] == "" {
		t.Errorf("request ids %q made %d jobs", ids.all(), len(jobs))
	}
	if r.out.String() != "job flights-1 existed already: an earlier submit had this request id\n" {
		t.Errorf("got %q", r.out.String())
	}
	if !strings.Contains(r.err.String(), "request id "+got[0]) {
		t.Errorf("the drawn request id was not printed: %s", r.err.String())
	}
}

func TestSubmitGivesUpAtItsTimeout(t *testing.T) {
	program := executable(t)
	synctest.Test(t, func(t *testing.T) {
		f := newStore().serve(&fake{info: func() (*apipb.InfoResponse, error) { return here(), nil }})
		f.submit = func(context.Context, *apipb.SubmitRequest) (*apipb.SubmitResponse, error) {
			return nil, unknownOutcome()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		wantExit(t, Submit(ctx, newRig(t, f).Session, SubmitOptions{Program: program, Spec: SpecOptions{Name: "x"}}), ExitUnreachable, "E070")
	})
}

func TestBinaryIsUploadedOnceAndWhole(t *testing.T) {
	program := executable(t)
	s := newStore()
	s.cutOff = 3
	f := s.serve(&fake{info: func() (*apipb.InfoResponse, error) { return here(), nil }})
	var artifact string
	f.submit = func(_ context.Context, r *apipb.SubmitRequest) (*apipb.SubmitResponse, error) {
		artifact = r.Spec.Artifact
		return &apipb.SubmitResponse{Job: "x-1"}, nil
	}
	r := newRig(t, f)
	for range 2 {
		if err := Submit(t.Context(), r.Session, SubmitOptions{Program: program, Spec: SpecOptions{Name: "x"}, RequestID: "r"}); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(s.bytes[artifact], want) {
		t.Error("what was stored is not the program")
	}
	if got := s.calls.all(); !slices.Equal(got, []string{"stat", "upload", "upload", "stat"}) {
		t.Errorf("calls %q: a broken upload is begun again, a known binary is not sent", got)
	}
}

func TestSubmitAndWait(t *testing.T) {
	program := executable(t)
	f := newStore().serve(waits(nil, &apipb.StatusResponse{Id: "x-1", Status: jobpb.JobStatus_JOB_FAILED, Failure: &jobpb.Failure{Code: "E051", Message: "boom"}}))
	f.info = func() (*apipb.InfoResponse, error) { return here(), nil }
	f.submit = func(context.Context, *apipb.SubmitRequest) (*apipb.SubmitResponse, error) {
		return &apipb.SubmitResponse{Job: "x-1"}, nil
	}
	r := newRig(t, f)
	err := Submit(t.Context(), r.Session, SubmitOptions{Program: program, Spec: SpecOptions{Name: "x"}, Then: Await})
	wantExit(t, err, ExitJobFailed, "E051")
}

func TestAProgramThatCannotBePlannedIsToldAtOnce(t *testing.T) {
	program := executable(t)
	f := newStore().serve(waits(nil, &apipb.StatusResponse{Id: "x-1", Status: jobpb.JobStatus_JOB_FAILED, Failure: &jobpb.Failure{Code: "E043", Message: "build panicked"}}))
	f.info = func() (*apipb.InfoResponse, error) { return here(), nil }
	f.submit = func(context.Context, *apipb.SubmitRequest) (*apipb.SubmitResponse, error) {
		return &apipb.SubmitResponse{Job: "x-1"}, nil
	}
	for _, then := range []Then{Return, Await} {
		err := Submit(t.Context(), newRig(t, f).Session, SubmitOptions{Program: program, Spec: SpecOptions{Name: "x"}, Then: then})
		wantExit(t, err, ExitUsage, "E043")
	}
}

func TestDryRunShowsThePlanAndMakesNoJob(t *testing.T) {
	program := executable(t)
	f := newStore().serve(&fake{info: func() (*apipb.InfoResponse, error) { return here(), nil }})
	plan := &jobpb.Plan{
		Graph: &jobpb.Graph{Name: "x", Operators: []*jobpb.Operator{
			{Id: "in", Kind: "source", Location: "main.go:7", Bounded: true},
			{Id: "out", Kind: "sink", Location: "main.go:9", Bounded: true, Guarantee: jobpb.Guarantee_GUARANTEE_EXACTLY_ONCE,
				Inputs: []*jobpb.Input{{Partitioner: jobpb.Partitioner_PARTITIONER_REBALANCE}}},
		}, Warnings: []*jobpb.Diagnostic{{Code: "W034", Message: "no effect"}, {Code: "W023", Message: "goes nowhere", Where: "main.go:8"}}},
		Chains: []*jobpb.Chain{{Index: 0, Operators: []int32{0}, Parallelism: 2, Name: "in"}, {Index: 1, Operators: []int32{1}, Parallelism: 3, Name: "out"}},
		Edges: []*jobpb.Edge{{FromOperator: 0, ToOperator: 1, ToChain: 1, Partitioner: jobpb.Partitioner_PARTITIONER_REBALANCE,
			Exchange: jobpb.ExchangeKind_EXCHANGE_BLOCKING, Reason: "bounded input"}},
		Regions: []*jobpb.Region{{Subtasks: []*jobpb.SubtaskRange{{Count: 2}}}, {Index: 1, Subtasks: []*jobpb.SubtaskRange{{Chain: 1, Count: 3}}, InputEdges: []int32{0}}}, Slots: 3, Fingerprint: "dc97aabbccdd",
	}
	var asked *jobpb.JobSpec
	f.plan = func(r *apipb.PlanRequest) (*apipb.PlanResponse, error) {
		asked = r.GetSpec()
		return &apipb.PlanResponse{Plan: plan, Output: "hello\n"}, nil
	}
	r := newRig(t, f)
	o := SpecOptions{Name: "x", Parallelism: 3, Settings: map[string]string{"mode": "batch"}}
	if err := Submit(t.Context(), r.Session, SubmitOptions{Program: program, Spec: o, Then: DryRun}); err != nil {
		t.Fatal(err)
	}
	want := `plan of x: 2 chains, 5 subtasks, 2 regions, 3 slots; fingerprint dc97aabbccdd

in × 2
    in   source  bounded                main.go:7

out × 3
  ← in  rebalance  BLOCKING  (bounded input)  region 0 → 1
    out  sink    bounded, exactly-once  main.go:9

regions, in the order in which they start:
  0  in[0..1]
  1  out[0..2]
      reads in of 0; after 0

warning W034: no effect

warning W023: goes nowhere at main.go:8
`
	if r.out.String() != want {
		t.Errorf("got\n%s", r.out.String())
	}
	if asked.GetParallelism() != 3 || asked.GetSettings()["mode"] != "batch" || !strings.Contains(r.err.String(), "hello") {
		t.Errorf("asked for %v; remarks %s", asked, r.err.String())
	}

	f.plan = func(*apipb.PlanRequest) (*apipb.PlanResponse, error) {
		return &apipb.PlanResponse{Errors: []*jobpb.Diagnostic{{Code: "E043", Message: "build panicked"}, {Code: "E011", Message: "twice"}}}, nil
	}
	err := Plan(t.Context(), r.Session, PlanOptions{What: program, Spec: o})
	wantExit(t, err, ExitUsage, "E043")
	if faults, _ := Explain(err); len(faults) != 2 {
		t.Errorf("%d faults of 2 are shown", len(faults))
	}
}

// TestBadProgramsAreRefusedBeforeAnythingIsSent: no method of the fake but Info has an answer.
func TestBadProgramsAreRefusedBeforeAnythingIsSent(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	module := func(name, source string) string {
		path := filepath.Join(dir, name)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		file(name+"/go.mod", "module x\n\ngo 1.27\n")
		file(name+"/main.go", source)
		return path
	}
	for _, c := range []struct {
		program, code, text string
	}{
		{file("script", "#!/bin/sh\n"), CodeNotELF, "script"},
		{file("mac", "\xcf\xfa\xed\xfe0000"), CodeNotELF, "macOS"},
		{file("exe", "MZ000000"), CodeNotELF, "Windows"},
		{file("short", "x"), CodeNotELF, "shorter"},
		{file("cut", "\x7fELF\x02\x01\x01"), CodeNotELF, "not an ELF"},
		{filepath.Join(dir, "none"), CodeLocalFile, "no such program"},
		{module("broken", "package main\nfunc main() { undefined() }\n"), CodeBuild, "undefined"},
		{module("library", "package library\n"), CodeBuild, "no main package"},
	} {
		r := newRig(t, &fake{})
		err := Submit(t.Context(), r.Session, SubmitOptions{Program: c.program})
		wantExit(t, err, ExitUsage, c.code)
		if !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", c.program, err)
		}
	}
	t.Setenv("GOTOOLCHAIN", "local")
	newer := module("newer", "package main\nfunc main() {}\n")
	file("newer/go.mod", "module x\n\ngo 1.999\n")
	if faults, _ := Explain(Submit(t.Context(), newRig(t, &fake{}).Session, SubmitOptions{Program: newer})); len(faults) != 1 || !strings.Contains(strings.Join(faults[0].Hints, ""), "GOTOOLCHAIN=auto") {
		t.Errorf("an old toolchain: %v", faults)
	}
	r := newRig(t, &fake{info: func() (*apipb.InfoResponse, error) {
		return &apipb.InfoResponse{Platforms: []string{"plan9/mips", "plan9/arm"}}, nil
	}})
	err := Submit(t.Context(), r.Session, SubmitOptions{Program: executable(t)})
	wantExit(t, err, ExitUsage, CodeForeignPlatform)
	if want := "the workers are plan9/mips, plan9/arm"; !strings.Contains(err.Error(), want) {
		t.Errorf("%v does not say %q", err, want)
	}
	r = newRig(t, &fake{info: func() (*apipb.InfoResponse, error) { return here(), nil }})
	wantExit(t, Submit(t.Context(), r.Session, SubmitOptions{Program: executable(t), Spec: SpecOptions{Name: "no/name"}}), ExitUsage, CodeUsage)
}

func TestPackageIsBuiltForTheClustersPlatform(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "my job")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"go.mod": "module x\n\ngo 1.27\n", "main.go": "package main\n\nfunc main() {}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := newRig(t, nil)
	found, err := locate(t.Context(), r.Session, dir, []string{"linux/arm64"})
	if err != nil {
		t.Fatal(err)
	}
	b, err := inspect(found.path, []string{"linux/arm64"})
	if err != nil || b.platform != "linux/arm64" || found.name != "my-job" {
		t.Errorf("%v: %+v %+v", err, b, found)
	}
	if err := found.cleanup(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(found.path); err == nil {
		t.Error("the built program was left behind")
	}
}

func TestPackageIsBuiltWithAToolchainThatCanBuildIt(t *testing.T) {
	for _, c := range []struct {
		said, own string
		want      []string
	}{
		{"", "go1.27.3", []string{"GOTOOLCHAIN=go1.27.3+auto"}},
		{"", "go1.27.3 X:nodwarf5", []string{"GOTOOLCHAIN=go1.27.3+auto"}},
		{"", "devel go1.28-abc", nil},
		{"local", "go1.27.3", nil},
	} {
		lookup := func(string) (string, bool) { return c.said, c.said != "" }
		if got := toolchain(lookup, c.own); !slices.Equal(got, c.want) {
			t.Errorf("said %q, built with %q: %v, want %v", c.said, c.own, got, c.want)
		}
	}
}

// TestDrawnRequestIDsSortByTime: whoever looks for a submit in logs finds those of one time side by side.
func TestDrawnRequestIDsSortByTime(t *testing.T) {
	last := ""
	for range 100 {
		id := NewRequestID()
		parsed, err := uuid.Parse(id)
		if err != nil || parsed[6]>>4 != 7 {
			t.Fatalf("%q is no UUID of version 7: %v", id, err)
		}
		if id <= last {
			t.Errorf("%s was drawn after %s", id, last)
		}
		if err := apipb.ValidateRequestID(id); err != nil {
			t.Error(err)
		}
		last = id
	}
}
