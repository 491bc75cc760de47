package archive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/sluiceio/sluice/cmd/sluice/internal/ops"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/internal/wire"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/snapshot"
	"github.com/sluiceio/sluice/snapshot/bundle"
	"github.com/sluiceio/sluice/snapshot/mem"
)

const job = "clicks-7"

// cluster is a coordinator with one kept checkpoint, whose copies may be damaged and whose streams may break.
type cluster struct {
	apipb.UnimplementedJobsServer
	store    *mem.Store
	manifest *jobpb.Object
	segment  *jobpb.Object
	damaged  uint32 // copies of the segment below this number, of 3
	broken   bool   // the first stream of each object breaks in the middle
	begun    map[string]bool
}

func (c *cluster) Checkpoints(context.Context, *apipb.CheckpointsRequest) (*apipb.CheckpointsResponse, error) {
	return &apipb.CheckpointsResponse{Id: job, Kept: []*apipb.CheckpointInfo{{Id: 5, Manifest: c.manifest}}}, nil
}

func (c *cluster) ReadObject(req *apipb.ReadObjectRequest, s grpc.ServerStreamingServer[apipb.Chunk]) error {
	if req.Copy > 3 {
		return apipb.NewError(codes.OutOfRange, &apipb.ErrorDetail{Code: snapshot.CodeRead}, "there are 3 copies")
	}
	r, err := c.store.Open(s.Context(), snapshot.Name(req.Name))
	if err != nil {
		return apipb.NewError(codes.NotFound, &apipb.ErrorDetail{Code: snapshot.CodeFormat}, "%v", err)
	}
	data := make([]byte, r.Size())
	if _, err := r.ReadAt(data, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if req.Name == c.segment.Name && req.Copy < c.damaged {
		data[0] ^= 1
	}
	data = data[req.Offset:]
	if c.broken && !c.begun[req.Name] {
		c.begun[req.Name] = true
		if err := s.Send(&apipb.Chunk{Data: data[:len(data)/2]}); err != nil {
			return err
		}
		return apipb.NewError(codes.Unavailable, &apipb.ErrorDetail{Code: "E069", Retryable: true}, "the leader is gone")
	}
	return s.Send(&apipb.Chunk{Data: data})
}

func start(t *testing.T) (*cluster, *ops.Session, *bytes.Buffer) {
	t.Helper()
	c := &cluster{store: mem.New(), begun: map[string]bool{}}
	put := func(name snapshot.Name, data []byte) *jobpb.Object {
		o, err := c.store.Put(t.Context(), name, int64(len(data)), bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	c.segment = put(snapshot.Segment(job, 1, 4, 5, 0), bytes.Repeat([]byte("state"), 10_000))
	m, err := snapshot.EncodeManifest(&snapshotpb.Manifest{
		Version: snapshot.ManifestVersion, Job: job, JobEpoch: 1, Checkpoint: 5, Kind: jobpb.CheckpointKind_CHECKPOINT_SAVEPOINT, Objects: []*jobpb.Object{c.segment},
		Plan: &jobpb.Plan{
			Graph: &jobpb.Graph{MaxParallelism: 8, Operators: []*jobpb.Operator{{Id: "count"}}}, Chains: []*jobpb.Chain{{Operators: []int32{0}, Parallelism: 1}},
			Regions: []*jobpb.Region{{Checkpointed: true, Subtasks: []*jobpb.SubtaskRange{{Count: 1}}}},
		},
		Subtasks: []*snapshotpb.SubtaskState{{Status: snapshotpb.SubtaskStatus_RUNNING}},
	})
	if err != nil {
		t.Fatal(err)
	}
	c.manifest = put(snapshot.Manifest(job, 1, 5, 2), m)
	l, err := wire.Policy{}.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := wire.Policy{}.Server()
	apipb.RegisterJobsServer(server, c)
	g := run.NewGroup(context.Background(), "coordinator")
	g.Go("serve", func(context.Context) error { return server.Serve(l) })
	client, err := ops.NewClient([]string{l.Addr().String()}, func(addr string) (*grpc.ClientConn, error) { return wire.Policy{}.Client(addr) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Stop()
		if err := errors.Join(client.Close(), g.Wait()); err != nil {
			t.Error(err)
		}
	})
	var out bytes.Buffer
	return c, &ops.Session{Client: client, Out: &out, Err: io.Discard, Format: ops.Table}, &out
}

func wantFault(t *testing.T, err error, exit ops.Exit, code string, texts ...string) {
	t.Helper()
	faults, got := ops.Explain(err)
	if err == nil || got != exit || faults[0].Code != code {
		t.Fatalf("exit %d, %+v (%v); want exit %d, %s", got, faults, err, exit, code)
	}
	for _, text := range texts {
		if !strings.Contains(faults[0].Error(), text) {
			t.Errorf("%q does not say %q", faults[0], text)
		}
	}
}

func TestWhatIsExportedIsSoundWhateverBreaksOnTheWay(t *testing.T) {
	c, s, out := start(t)
	c.broken, c.damaged = true, 3 // one copy is sound
	dir := filepath.Join(t.TempDir(), "out")
	if err := Export(t.Context(), s, job, 5, dir); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.Contains(text, "clicks-7:5") || !strings.Contains(text, dir) {
		t.Errorf("said %q", text)
	}
	moved := dir + "-moved"
	if err := os.Rename(dir, moved); err != nil {
		t.Fatal(err)
	}
	out.Reset()
	s.Format = ops.JSON
	if err := Verify(t.Context(), s, VerifyOptions{Dirs: []string{moved}, Strict: true}); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var report struct {
		Directories []struct{ Savepoint string }
		Checkpoints []struct{ Outcome string }
		Objects     []struct{ Verdict string }
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil || len(report.Objects) != 2 || report.Checkpoints[0].Outcome != "whole" || report.Directories[0].Savepoint != "clicks-7:5" {
		t.Errorf("%v: %s", err, out)
	}
	wantFault(t, Export(t.Context(), s, job, 5, moved), ops.ExitPrecondition, ops.CodeLocalFile, "there already")
	wantFault(t, Export(t.Context(), s, job, 6, dir), ops.ExitNotFound, "", "keeps no checkpoint 6")
	c.damaged = 4
	wantFault(t, Export(t.Context(), s, job, 5, dir), ops.ExitOther, snapshot.CodeDamaged, c.segment.Name)
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a damaged export is there: %v", err)
	}
	wantFault(t, Export(t.Context(), s, job, 5, filepath.Join(moved, bundle.RecordFile, "below")), ops.ExitOther, ops.CodeLocalFile, bundle.RecordFile)
}

func TestVerifySaysWhatIsWrongAndWhere(t *testing.T) {
	_, s, out := start(t)
	dir := filepath.Join(t.TempDir(), "out")
	if err := Export(t.Context(), s, job, 5, dir); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, job, "1", "4", "*.segment@*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	data[7] ^= 1
	if err := os.WriteFile(files[0], data, 0o644); err != nil {
		t.Fatal(err)
	}
	verify := func(dirs ...string) error {
		out.Reset()
		return Verify(t.Context(), s, VerifyOptions{Dirs: dirs})
	}
	wantFault(t, verify(dir), ops.ExitOther, snapshot.CodeDamaged, "1 of 2 objects are damaged, 1 of 1 checkpoints")
	if text := out.String(); !strings.Contains(text, "damaged: E152: clicks-7/1/4/5-0.segment in "+dir+": digest") || !strings.Contains(text, "incomplete: 1 of 1 objects have no intact copy") {
		t.Errorf("said %s", text)
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	wantFault(t, verify(dir), ops.ExitOther, snapshot.CodeFormat, "0 of 1 objects are damaged, 1 of 1")
	empty := t.TempDir()
	wantFault(t, verify(empty), ops.ExitNotFound, snapshot.CodeFormat, empty, "no snapshot")
	wantFault(t, verify(filepath.Join(empty, "nowhere")), ops.ExitOther, ops.CodeLocalFile, "nowhere")
	wantFault(t, verify(files[0]+"x"), ops.ExitOther, ops.CodeLocalFile)
	wantFault(t, verify(), ops.ExitUsage, ops.CodeUsage)
}
