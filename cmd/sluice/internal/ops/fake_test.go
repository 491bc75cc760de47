package ops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/test/bufconn"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/internal/wire"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// fake is a coordinator whose answers a test writes. What it has no answer for is Unimplemented.
type fake struct {
	apipb.UnimplementedJobsServer
	apipb.UnimplementedClusterServer
	apipb.UnimplementedArtifactsServer

	paused bool // connections are accepted, and that is all

	submit    func(context.Context, *apipb.SubmitRequest) (*apipb.SubmitResponse, error)
	plan      func(*apipb.PlanRequest) (*apipb.PlanResponse, error)
	list      func(context.Context, *apipb.ListRequest) (*apipb.ListResponse, error)
	status    func(*apipb.StatusRequest) (*apipb.StatusResponse, error)
	marks     func(*apipb.WatermarksRequest) (*apipb.WatermarksResponse, error)
	wait      func(context.Context, *apipb.WaitRequest) (*apipb.StatusResponse, error)
	cancel    func(*apipb.CancelRequest) (*apipb.CancelResponse, error)
	kept      func(*apipb.CheckpointsRequest) (*apipb.CheckpointsResponse, error)
	savepoint func(context.Context, *apipb.SavepointRequest) (*apipb.SavepointResponse, error)
	deleted   func(*apipb.DeleteSavepointRequest) (*apipb.DeleteSavepointResponse, error)
	events    func(*apipb.EventsRequest, grpc.ServerStreamingServer[jobpb.Event]) error
	logs      func(*apipb.LogsRequest, grpc.ServerStreamingServer[apipb.LogLine]) error
	info      func() (*apipb.InfoResponse, error)
	workers   func(*apipb.WorkersRequest) (*apipb.WorkersResponse, error)
	peers     func(*apipb.PeersRequest) (*apipb.PeersResponse, error)
	drain     func(*apipb.DrainWorkerRequest) (*apipb.DrainWorkerResponse, error)
	transfer  func(*apipb.TransferLeaderRequest) (*apipb.TransferLeaderResponse, error)
	save      func(grpc.ServerStreamingServer[apipb.Chunk]) error
	restore   func(grpc.ClientStreamingServer[apipb.RestoreSnapshotRequest, apipb.RestoreSnapshotResponse]) error
	stat      func(*apipb.StatRequest) (*apipb.StatResponse, error)
	uploading func(grpc.ClientStreamingServer[apipb.UploadRequest, apipb.UploadResponse]) error
}

func (f *fake) Submit(ctx context.Context, r *apipb.SubmitRequest) (*apipb.SubmitResponse, error) {
	return f.submit(ctx, r)
}
func (f *fake) Plan(_ context.Context, r *apipb.PlanRequest) (*apipb.PlanResponse, error) {
	return f.plan(r)
}
func (f *fake) List(ctx context.Context, r *apipb.ListRequest) (*apipb.ListResponse, error) {
	return f.list(ctx, r)
}
func (f *fake) Status(_ context.Context, r *apipb.StatusRequest) (*apipb.StatusResponse, error) {
	return f.status(r)
}
func (f *fake) Watermarks(_ context.Context, r *apipb.WatermarksRequest) (*apipb.WatermarksResponse, error) {
	return f.marks(r)
}
func (f *fake) Wait(ctx context.Context, r *apipb.WaitRequest) (*apipb.StatusResponse, error) {
	if f.wait == nil { // a job that runs at once and for ever
		return &apipb.StatusResponse{Id: r.Job, Status: jobpb.JobStatus_JOB_RUNNING, Fingerprint: "f"}, nil
	}
	return f.wait(ctx, r)
}
func (f *fake) Cancel(_ context.Context, r *apipb.CancelRequest) (*apipb.CancelResponse, error) {
	return f.cancel(r)
}
func (f *fake) Checkpoints(_ context.Context, r *apipb.CheckpointsRequest) (*apipb.CheckpointsResponse, error) {
	return f.kept(r)
}
func (f *fake) Savepoint(ctx context.Context, r *apipb.SavepointRequest) (*apipb.SavepointResponse, error) {
	return f.savepoint(ctx, r)
}
func (f *fake) DeleteSavepoint(_ context.Context, r *apipb.DeleteSavepointRequest) (*apipb.DeleteSavepointResponse, error) {
	return f.deleted(r)
}
func (f *fake) Events(r *apipb.EventsRequest, s grpc.ServerStreamingServer[jobpb.Event]) error {
	return f.events(r, s)
}
func (f *fake) Logs(r *apipb.LogsRequest, s grpc.ServerStreamingServer[apipb.LogLine]) error {
	return f.logs(r, s)
}
func (f *fake) Info(context.Context, *apipb.InfoRequest) (*apipb.InfoResponse, error) {
	if f.info == nil {
		return &apipb.InfoResponse{Cluster: "k", Node: "n1", Platforms: []string{"linux/amd64"}}, nil
	}
	return f.info()
}
func (f *fake) Workers(_ context.Context, r *apipb.WorkersRequest) (*apipb.WorkersResponse, error) {
	return f.workers(r)
}
func (f *fake) Peers(_ context.Context, r *apipb.PeersRequest) (*apipb.PeersResponse, error) {
	return f.peers(r)
}
func (f *fake) DrainWorker(_ context.Context, r *apipb.DrainWorkerRequest) (*apipb.DrainWorkerResponse, error) {
	return f.drain(r)
}
func (f *fake) TransferLeader(_ context.Context, r *apipb.TransferLeaderRequest) (*apipb.TransferLeaderResponse, error) {
	return f.transfer(r)
}
func (f *fake) SaveSnapshot(_ *apipb.SaveSnapshotRequest, s grpc.ServerStreamingServer[apipb.Chunk]) error {
	return f.save(s)
}
func (f *fake) RestoreSnapshot(s grpc.ClientStreamingServer[apipb.RestoreSnapshotRequest, apipb.RestoreSnapshotResponse]) error {
	return f.restore(s)
}
func (f *fake) Stat(_ context.Context, r *apipb.StatRequest) (*apipb.StatResponse, error) {
	return f.stat(r)
}
func (f *fake) Upload(s grpc.ClientStreamingServer[apipb.UploadRequest, apipb.UploadResponse]) error {
	return f.uploading(s)
}

// rig is a session with a cluster of fakes; a nil fake is a coordinator that refuses connections.
type rig struct {
	*Session
	out, err bytes.Buffer
}

// start is what the clock of a rig says: 2026-01-02 03:04:05 UTC.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newRig(t *testing.T, fakes ...*fake) *rig {
	t.Helper()
	listeners := map[string]*bufconn.Listener{}
	var addrs []string
	servers := run.NewGroup(context.Background(), "fakes")
	for i, f := range fakes {
		addr := fmt.Sprintf("127.0.0.1:%d", i+1)
		addrs = append(addrs, addr)
		if f == nil {
			continue
		}
		if f.paused {
			listeners[addr] = nil
			continue
		}
		l := bufconn.Listen(64 << 10)
		s := grpc.NewServer()
		apipb.RegisterJobsServer(s, f)
		apipb.RegisterClusterServer(s, f)
		apipb.RegisterArtifactsServer(s, f)
		listeners[addr] = l
		servers.Go(addr, func(context.Context) error { return s.Serve(l) })
		t.Cleanup(s.Stop)
	}
	dial := func(addr string) (*grpc.ClientConn, error) {
		return wire.Policy{}.Client(addr, grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			l, known := listeners[addr]
			if l != nil {
				return l.DialContext(ctx)
			}
			if known {
				near, _ := net.Pipe() // nobody is at the other end
				return near, nil
			}
			return nil, errors.New("connection refused")
		}))
	}
	client, err := NewClient(addrs, dial)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{}
	r.Session = &Session{Client: client, Out: &r.out, Err: &r.err, Format: Table, Now: func() time.Time { return start }}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// noLeader is what a coordinator answers that has none.
func noLeader() error {
	return apipb.NewError(codes.Unavailable, &apipb.ErrorDetail{Code: "E069", Retryable: true, Hints: []string{"wait"}}, "no leader")
}

func unknownOutcome() error {
	return apipb.NewError(codes.Unavailable, &apipb.ErrorDetail{Code: "E070", Retryable: true, UnknownOutcome: true}, "leadership lost")
}

func wantExit(t *testing.T, err error, exit Exit, code string) {
	t.Helper()
	faults, got := Explain(err)
	if got != exit {
		t.Errorf("exit %d, want %d: %v", got, exit, err)
	}
	if code != "" && (len(faults) == 0 || faults[0].Code != code) {
		t.Errorf("want code %s: %v", code, err)
	}
}

// tally counts calls from several goroutines.
type tally struct {
	mu struct {
		sync.Mutex
		names []string
	}
}

func (c *tally) add(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.names = append(c.mu.names, name)
}

func (c *tally) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.mu.names...)
}
