package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"

	"github.com/sluiceio/sluice/coordinator"
	"github.com/sluiceio/sluice/coordinator/internal/clustertest"
	"github.com/sluiceio/sluice/proto/apipb"
)

// onDisk is a cluster with the real stores, loopback TCP and real time.
func onDisk(t *testing.T, opts clustertest.Options) *clustertest.Cluster {
	t.Helper()
	opts.Where = clustertest.OnDisk
	return clustertest.New(t, opts)
}

func TestOnDiskAllNodesRestartedKeepEverything(t *testing.T) {
	c := onDisk(t, clustertest.Options{})
	leader := c.AwaitLeader()
	digest := mustUpload(t, c.Followers(leader)[0], "a")
	for i := range 5 {
		mustSubmit(t, c.Node(i%3), digest, fmt.Sprint("r", i))
	}
	ids := map[string]string{}
	for i, n := range c.Nodes() {
		ids[n.Name] = n.ID
		end := n.Kill
		if i == 0 {
			end = n.Stop
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range c.Nodes() {
		n.Start()
		if n.ID != ids[n.Name] {
			t.Errorf("%s was %s and is %s", n.Name, ids[n.Name], n.ID)
		}
	}
	leader = c.AwaitLeader()
	if got := jobIDs(t, leader); len(got) != 5 {
		t.Errorf("jobs after the restart: %v", got)
	}
	if again := mustSubmit(t, leader, digest, "r3"); !again.Existed || again.Job != "job-4" {
		t.Errorf("the same request again: %v", again)
	}
	for _, n := range c.Nodes() {
		got, err := fetch(call(t), n, digest)
		if err != nil || clustertest.Digest(got) != digest {
			t.Errorf("%s serves %d bytes, %v", n.Name, len(got), err)
		}
	}
}

func TestOnDiskDirectoryHasOneOwner(t *testing.T) {
	c := onDisk(t, clustertest.Options{Nodes: 1})
	c.AwaitLeader()
	cfg := c.Node(0).Config()
	cfg.Listen, cfg.RaftListen, cfg.HTTPListen = "127.0.0.1:0", "127.0.0.1:0", ""
	err := coordinator.Run(t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("a second process in the same directory: %v", err)
	}
	err = coordinator.Recover(t.Context(), cfg.DataDir, []coordinator.Peer{{ID: c.Node(0).ID, RaftAddress: c.Node(0).Raft}})
	if err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("recovery of a running node: %v", err)
	}
}

func TestOnDiskDrawnPortsAreKept(t *testing.T) {
	cfg := coordinator.DefaultConfig()
	cfg.DataDir = t.TempDir()
	cfg.Listen, cfg.RaftListen, cfg.HTTPListen, cfg.BootstrapExpect = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", 1
	var starts []coordinator.Addresses
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		cfg.Listening = func(a coordinator.Addresses) {
			starts = append(starts, a)
			cancel()
		}
		if err := coordinator.Run(ctx, cfg); err != nil {
			t.Fatal(err)
		}
	}
	if len(starts) != 2 || starts[0] != starts[1] || strings.HasSuffix(starts[0].API, ":0") {
		t.Errorf("two starts have %v", starts)
	}
}

func TestOnDiskUnreadableSnapshotIsFatal(t *testing.T) {
	for name, damage := range map[string]func(dir string) error{
		"state flipped": func(dir string) error {
			return overwrite(filepath.Join(dir, "state.bin"), 40)
		},
		"metadata damaged": func(dir string) error { return os.WriteFile(filepath.Join(dir, "meta.json"), []byte("{"), 0o600) },
		"metadata missing": func(dir string) error { return os.Remove(filepath.Join(dir, "meta.json")) },
	} {
		t.Run(name, func(t *testing.T) {
			c := onDisk(t, clustertest.Options{Nodes: 1, Configure: func(_ string, cfg *coordinator.Config) {
				cfg.SnapshotInterval, cfg.SnapshotThreshold, cfg.TrailingLogs = 20*time.Millisecond, 4, 2
			}})
			n := c.AwaitLeader()
			digest := mustUpload(t, n, "a")
			snapshots := filepath.Join(n.Dir(), "snapshots")
			// At least two, so that an older one would be there to be taken by mistake.
			i := 0
			c.Eventually(20*time.Second, "two snapshots", func(context.Context) error {
				for range 8 {
					mustSubmit(t, n, digest, fmt.Sprint("r", i))
					i++
				}
				list, err := os.ReadDir(snapshots)
				if err == nil && len(list) < 2 {
					err = fmt.Errorf("%d snapshots", len(list))
				}
				return err
			})
			if err := n.Stop(); err != nil {
				t.Fatal(err)
			}
			if err := damage(newestOf(t, snapshots)); err != nil {
				t.Fatal(err)
			}
			err := n.TryStart()
			if err == nil || !strings.Contains(err.Error(), "newest raft snapshot") || !strings.Contains(err.Error(), "unreadable") {
				t.Fatalf("started from an older snapshot: %v", err)
			}
		})
	}
}

func overwrite(path string, at int64) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil {
		return err
	}
	b[0] ^= 1
	_, err = f.WriteAt(b, at)
	return err
}

func newestOf(t *testing.T, dir string) string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil || len(list) == 0 {
		t.Fatalf("%d snapshots, %v", len(list), err)
	}
	newest := slices.MaxFunc(list, func(a, b os.DirEntry) int {
		return int(indexOf(a.Name())) - int(indexOf(b.Name()))
	})
	return filepath.Join(dir, newest.Name())
}

func indexOf(name string) (index int) {
	var term, milli int
	if _, err := fmt.Sscanf(name, "%d-%d-%d", &term, &index, &milli); err != nil {
		return -1
	}
	return index
}

func TestOnDiskLostQuorumIsRecovered(t *testing.T) {
	c := onDisk(t, clustertest.Options{})
	leader := c.AwaitLeader()
	digest := mustUpload(t, leader, "a")
	job := mustSubmit(t, leader, digest, "r1").Job
	c.Eventually(10*time.Second, "everybody has the job and the artifact", func(ctx context.Context) error {
		for _, n := range c.Nodes() {
			if resp, err := n.Jobs().List(ctx, &apipb.ListRequest{Stale: true}); err != nil || len(resp.Jobs) != 1 {
				return fmt.Errorf("%s: %v %w", n.Name, resp, err)
			}
			if err := holds(ctx, n, digest); err != nil {
				return err
			}
		}
		return nil
	})
	survivor := c.Followers(leader)[0]
	for _, n := range c.Nodes() {
		if err := n.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	self := coordinator.Peer{ID: survivor.ID, RaftAddress: survivor.Raft}
	for name, bad := range map[string][]coordinator.Peer{
		"nobody":      nil,
		"not itself":  {{ID: "other", RaftAddress: "127.0.0.1:1"}},
		"twice":       {self, self},
		"no address":  {{ID: survivor.ID}},
		"one address": {self, {ID: "other", RaftAddress: survivor.Raft}},
	} {
		if err := coordinator.Recover(t.Context(), survivor.Dir(), bad); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if err := coordinator.Recover(t.Context(), t.TempDir(), []coordinator.Peer{self}); err == nil {
		t.Error("an empty directory was recovered")
	}
	if err := coordinator.Recover(t.Context(), survivor.Dir(), []coordinator.Peer{self}); err != nil {
		t.Fatal(err)
	}
	survivor.Start()
	if now := c.AwaitLeader(); now != survivor {
		t.Fatalf("%s leads", now.Name)
	}
	if ids := jobIDs(t, survivor); !slices.Equal(ids, []string{job}) {
		t.Errorf("jobs %v", ids)
	}
	// The dead are forgotten, and new nodes make it whole again.
	c.Eventually(10*time.Second, "one peer", func(ctx context.Context) error {
		all, _, err := peers(ctx, survivor)
		if err == nil && len(all) != 1 {
			err = fmt.Errorf("%d peers", len(all))
		}
		return err
	})
	for _, name := range []string{"n4", "n5"} {
		fresh := c.Add(name)
		fresh.Start()
	}
	awaitVoters(c, survivor, 3)
	if err := survivor.Kill(); err != nil {
		t.Fatal(err)
	}
	if again := mustSubmit(t, c.AwaitLeader(), digest, "r1"); again.Job != job || !again.Existed {
		t.Errorf("submitted again: %v", again)
	}
}

func TestOnDiskMetricsAndHealth(t *testing.T) {
	c := onDisk(t, clustertest.Options{})
	leader := c.AwaitLeader()
	mustSubmit(t, leader, mustUpload(t, leader, "a"), "r1")
	for _, n := range c.Nodes() {
		c.Eventually(10*time.Second, "ready", func(ctx context.Context) error { _, err := get(ctx, n, "/readyz"); return err })
		if _, err := get(call(t), n, "/healthz"); err != nil {
			t.Error(err)
		}
	}
	text, err := get(call(t), leader, "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`sluice_job_status{status="created"} 1`, `sluice_job_status{status="running"} 0`, "sluice_raft_leader 1", "sluice_raft_term ",
		`sluice_raft_peers{suffrage="voter"} 3`, "sluice_raft_applied_index ", "sluice_raft_apply_seconds_count ",
		`sluice_worker_slots{state="free"} 0`, "sluice_artifacts 1", "sluice_raft_leader_changes_total ", "sluice_raft_last_contact_seconds 0",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics lack %q", want)
		}
	}
	for _, n := range c.Nodes() {
		c.Eventually(10*time.Second, "serving", func(ctx context.Context) error {
			return health(ctx, n, apipb.Jobs_ServiceDesc.ServiceName, healthpb.HealthCheckResponse_SERVING)
		})
	}
	offersWhatItServes(t, leader)
	// Without a quorum a node lives, and is not ready.
	for _, n := range c.Nodes()[1:] {
		if err := n.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	c.Eventually(10*time.Second, "not ready", func(ctx context.Context) error {
		if _, err := get(ctx, c.Node(0), "/readyz"); err == nil {
			return errors.New("still ready")
		}
		return nil
	})
	if _, err := get(call(t), c.Node(0), "/healthz"); err != nil {
		t.Error(err)
	}
	c.Eventually(10*time.Second, "not serving", func(ctx context.Context) error {
		return health(ctx, c.Node(0), apipb.Jobs_ServiceDesc.ServiceName, healthpb.HealthCheckResponse_NOT_SERVING)
	})
	if err := health(call(t), c.Node(0), "", healthpb.HealthCheckResponse_SERVING); err != nil {
		t.Error(err)
	}
}

// health asks as a probe does that knows nothing of coordinators.
func health(ctx context.Context, n *clustertest.Node, service string, want healthpb.HealthCheckResponse_ServingStatus) error {
	got, err := healthpb.NewHealthClient(n.Client()).Check(ctx, &healthpb.HealthCheckRequest{Service: service})
	if err != nil {
		return err
	}
	if got.Status != want {
		return fmt.Errorf("%q is %v, want %v", service, got.Status, want)
	}
	return nil
}

// offersWhatItServes asks for services as grpcurl does.
func offersWhatItServes(t *testing.T, n *clustertest.Node) {
	t.Helper()
	stream, err := reflectionpb.NewServerReflectionClient(n.Client()).ServerReflectionInfo(call(t))
	if err != nil {
		t.Fatal(err)
	}
	ask := &reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}
	if err := stream.Send(ask); err != nil {
		t.Fatal(err)
	}
	answer, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range answer.GetListServicesResponse().GetService() {
		names = append(names, s.Name)
	}
	for _, want := range []string{"sluice.api.Jobs", "sluice.api.Cluster", "sluice.control.Control", "grpc.health.v1.Health"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not among %q", want, names)
		}
	}
}

func get(ctx context.Context, n *clustertest.Node, path string) (_ string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.HTTP+path, nil)
	if err != nil {
		return "", err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, resp.Status, body)
	}
	return string(body), err
}

func TestOnDiskFollowerFarBehindGetsASnapshot(t *testing.T) {
	c := onDisk(t, clustertest.Options{Configure: func(_ string, cfg *coordinator.Config) {
		cfg.SnapshotInterval, cfg.SnapshotThreshold, cfg.TrailingLogs = 50*time.Millisecond, 20, 5
	}})
	leader := c.AwaitLeader()
	digest := mustUpload(t, leader, "a")
	late := c.Followers(leader)[0]
	if err := late.Kill(); err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		mustSubmit(t, leader, digest, fmt.Sprint("r", i))
	}
	c.Eventually(10*time.Second, "the leader has a snapshot", func(context.Context) error {
		list, err := os.ReadDir(filepath.Join(leader.Dir(), "snapshots"))
		if err == nil && len(list) == 0 {
			err = errors.New("none")
		}
		return err
	})
	late.Start()
	c.Eventually(20*time.Second, "the late follower has all jobs", func(ctx context.Context) error {
		resp, err := late.Jobs().List(ctx, &apipb.ListRequest{Stale: true})
		if err == nil && len(resp.Jobs) != 60 {
			err = fmt.Errorf("%d jobs", len(resp.Jobs))
		}
		return err
	})
}

func TestOnDiskPlannedStopHandsLeadershipOver(t *testing.T) {
	c := onDisk(t, clustertest.Options{})
	leader := c.AwaitLeader()
	others := c.Followers(leader)
	if err := leader.Stop(); err != nil {
		t.Fatal(err)
	}
	// The successor led before the old leader had ended: one of the others says so at once.
	known := 0
	for _, n := range others {
		info, err := n.Cluster().Info(call(t), &apipb.InfoRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if info.Leader != "" && info.Leader != leader.ID { // the third node may not have heard yet
			known++
		}
	}
	if known == 0 {
		t.Error("nobody led when the old leader had ended")
	}
}
