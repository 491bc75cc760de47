//go:build unix

package worker

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/sluiceio/sluice/internal/failpoint"
	"github.com/sluiceio/sluice/internal/wire"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

func TestWorkerRegistersWithEverythingThatALeaderNeeds(t *testing.T) {
	c := newCoordinator(t)
	cfg := testConfig(t, c)
	cfg.Zone = "rack-7"
	w := startWorker(t, cfg)
	r := c.session().register
	if r.Worker == "" || r.Worker != w.addresses.ID || r.Incarnation != 1 {
		t.Errorf("identity %q, incarnation %d", r.Worker, r.Incarnation)
	}
	if r.Address != w.addresses.Control || r.DataAddress != w.addresses.Data {
		t.Errorf("addresses %q and %q", r.Address, r.DataAddress)
	}
	if r.Slots != int32(cfg.Slots) || r.Memory != cfg.Memory || r.Version != "test" || r.Zone != "rack-7" {
		t.Errorf("resources: %v", r)
	}
	if r.Os != runtime.GOOS || r.Arch != runtime.GOARCH || r.ProtocolMin != taskpb.ProtocolMin || r.ProtocolMax != taskpb.ProtocolMax {
		t.Errorf("platform: %v", r)
	}
}

func TestIdentityStaysAndIncarnationGrows(t *testing.T) {
	c := newCoordinator(t)
	cfg := testConfig(t, c)
	var first *controlpb.Register
	for incarnation := uint64(1); incarnation <= 3; incarnation++ {
		w := startWorker(t, cfg)
		r := c.session().register
		if first == nil {
			first = r
		}
		if r.Worker != first.Worker || r.Incarnation != incarnation {
			t.Errorf("start %d registered as %s, incarnation %d", incarnation, r.Worker, r.Incarnation)
		}
		if err := w.stop(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTwoWorkersDoNotShareADataDirectory(t *testing.T) {
	c := newCoordinator(t)
	cfg := testConfig(t, c)
	startWorker(t, cfg)
	c.session()
	if err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "another worker runs on it") {
		t.Errorf("second worker: %v", err)
	}
}

func TestAFollowersHintLeadsToTheLeader(t *testing.T) {
	leader, follower := newCoordinator(t), newCoordinator(t)
	follower.set(func() { follower.leader = leader.addr })
	startWorker(t, testConfig(t, follower)) // knows only the follower
	leader.session()
}

func TestSubtasksSurviveTheLeaderWithEqualAttempts(t *testing.T) {
	first, second := newCoordinator(t), newCoordinator(t)
	startWorker(t, testConfig(t, first, second))
	second.set(func() { second.leader = first.addr })
	s := first.session()
	s.order(deploy(deployment("job-1", 7, first.tiny())))
	s.state(jobpb.SubtaskState_SUBTASK_RUNNING)
	s.state(jobpb.SubtaskState_SUBTASK_RUNNING)

	second.set(func() { second.leader, second.term = "", 2 })
	first.die()
	r := second.session().register
	if r.TermSeen != 1 {
		t.Errorf("term seen: %d, want 1", r.TermSeen)
	}
	if len(r.Processes) != 1 {
		t.Fatalf("inventory: %v", r.Processes)
	}
	p := r.Processes[0]
	if p.Job != "job-1" || p.Process != 7 || p.JobEpoch != 1 || len(p.Subtasks) != 2 {
		t.Fatalf("process: %v", p)
	}
	for i, u := range p.Subtasks {
		if u.Index != int32(i) || u.Attempt != 1 || u.RegionEpoch != 1 || u.State != jobpb.SubtaskState_SUBTASK_RUNNING {
			t.Errorf("subtask %d: %v", i, u)
		}
	}
	if len(r.Artifacts) != 1 {
		t.Errorf("artifacts: %v", r.Artifacts)
	}
}

func TestReportsAreSentAgainUntilTheyAreCommitted(t *testing.T) {
	first, second := newCoordinator(t), newCoordinator(t)
	second.set(func() { second.leader = first.addr })
	first.set(func() { first.hold = true })
	startWorker(t, testConfig(t, first, second))
	s := first.session()
	s.order(deploy(deployment("job-1", 7, first.tiny(), "run", "finish")))
	finished := s.state(jobpb.SubtaskState_SUBTASK_FINISHED)

	second.set(func() { second.leader, second.term = "", 2 })
	first.die()
	s = second.session()
	// The attempts have ended, but nobody has committed that: they belong to the inventory and to the reports.
	if p := s.register.Processes; len(p) != 1 || len(p[0].Subtasks) != 2 {
		t.Errorf("inventory before the acknowledgement: %v", p)
	}
	again := s.state(jobpb.SubtaskState_SUBTASK_FINISHED)
	if again.Sequence != finished.Sequence {
		t.Errorf("sequence %d became %d", finished.Sequence, again.Sequence)
	}
	s.state(jobpb.SubtaskState_SUBTASK_FINISHED)
	// second acknowledges: a third leader hears nothing of it any more.
	third := newCoordinator(t)
	third.set(func() { third.term = 3 })
	awaitBeat(t, s)
	second.set(func() { second.leader = third.addr })
	second.die()
	second.listen(second.addr)
	s = third.session()
	for _, p := range s.register.Processes {
		for _, u := range p.Subtasks {
			t.Errorf("still in the inventory: %v", u)
		}
	}
}

// awaitBeat waits for a heartbeat that was sent after everything that the test has seen.
func awaitBeat(t *testing.T, s *fakeSession) *controlpb.Heartbeat {
	t.Helper()
	var last *controlpb.Heartbeat
	for len(s.beats) > 0 {
		last = <-s.beats
	}
	for range 2 { // the first may have been on its way
		select {
		case last = <-s.beats:
		case <-time.After(limit):
			t.Fatal("no heartbeat")
		}
	}
	return last
}

func TestHeartbeatsCarrySamples(t *testing.T) {
	c := newCoordinator(t)
	startWorker(t, testConfig(t, c))
	s := c.session()
	s.order(deploy(deployment("job-1", 7, c.tiny())))
	s.state(jobpb.SubtaskState_SUBTASK_RUNNING)
	deadline := time.After(limit)
	for {
		select {
		case h := <-s.beats:
			if len(h.Samples) == 0 {
				continue
			}
			p := h.Samples[0]
			if p.Job != "job-1" || p.Process != 7 || p.Sample.Counters[0].RecordsIn != 42 {
				t.Errorf("sample: %v", p)
			}
			return
		case <-deadline:
			t.Fatal("no sample arrived")
		}
	}
}

func TestALeaderOfAnOlderTermIsNotObeyed(t *testing.T) {
	c := newCoordinator(t)
	c.set(func() { c.term = 5 })
	startWorker(t, testConfig(t, c))
	s := c.session()
	digest := c.tiny()
	if err := s.send(4, deploy(deployment("job-1", 7, digest))); err != nil {
		t.Fatal(err)
	}
	s.gone() // the worker leaves such a leader
	s = c.session()
	if len(s.register.Processes) > 0 {
		t.Errorf("the old leader was obeyed: %v", s.register.Processes)
	}
	// A leader of an older term is not even taken as one.
	c.set(func() { c.term = 4 })
	old := s
	if err := old.send(4, ack(0, 0)); err != nil {
		t.Fatal(err)
	}
	old.gone()
	c.session().gone() // welcomed in term 4: refused by the worker
	c.set(func() { c.term = 6 })
	deadline := time.Now().Add(limit)
	for {
		s = c.session()
		if len(s.register.Processes) > 0 {
			t.Fatal("the old leader was obeyed")
		}
		if s.register.TermSeen == 5 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("term seen: %d", s.register.TermSeen)
		}
	}
	s.order(deploy(deployment("job-1", 8, digest)))
	for { // sessions of term 4 may still be in the queue
		select {
		case m := <-s.messages:
			if m.GetReport().GetSubtask().GetState() == jobpb.SubtaskState_SUBTASK_RUNNING {
				return
			}
		case s = <-c.sessions:
			s.order(deploy(deployment("job-1", 8, digest)))
		case <-time.After(limit):
			t.Fatal("the new leader is not obeyed")
		}
	}
}

func TestASilentLeaderIsLeft(t *testing.T) {
	first, second := newCoordinator(t), newCoordinator(t)
	second.set(func() { second.leader = first.addr })
	const lostAfter = 6 * time.Second // leaves room for a busy machine
	first.set(func() { first.lostAfter = lostAfter })
	startWorker(t, testConfig(t, first, second))
	s := first.session()
	awaitBeat(t, s) // the leader has answered
	begin := time.Now()
	second.set(func() { second.leader, second.term = "", 2 })
	first.set(func() { first.mute, first.leader = true, second.addr }) // paused: connections stay, answers do not come
	second.session()
	if took := time.Since(begin); took > lostAfter {
		t.Errorf("the worker held to a silent leader for %s, longer than its successor waits", took)
	}
}

func TestAWorkerBelongsToOneCluster(t *testing.T) {
	c := newCoordinator(t)
	startWorker(t, testConfig(t, c))
	s := c.session()
	s.order(deploy(deployment("job-1", 7, c.tiny())))
	s.state(jobpb.SubtaskState_SUBTASK_RUNNING)
	c.set(func() { c.cluster, c.term = "foreign", 9 })
	c.die()
	c.listen(c.addr)
	foreign := c.session()
	foreign.gone()
	c.set(func() { c.cluster = "test" })
	for { // until one is held
		s := c.session()
		select {
		case <-s.ended:
			continue
		case <-s.beats:
		}
		if len(s.register.Processes) != 1 {
			t.Errorf("inventory: %v", s.register.Processes)
		}
		return
	}
}

func TestReadinessFollowsTheSession(t *testing.T) {
	c := newCoordinator(t)
	w := startWorker(t, testConfig(t, c))
	s := c.session()
	awaitBeat(t, s)
	get := func(path string) (int, string) {
		t.Helper()
		resp, err := http.Get("http://" + w.addresses.HTTP + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	if code, body := get("/readyz"); code != http.StatusOK {
		t.Errorf("ready while registered: %d %s", code, body)
	}
	probe := healthProbe(t, w.addresses.Control)
	for begun := time.Now(); probe() != healthpb.HealthCheckResponse_SERVING; {
		if time.Since(begun) > limit {
			t.Fatal("not serving while registered")
		}
	}
	_, metrics := get("/metrics")
	for _, want := range []string{"sluice_worker_registered 1", "sluice_worker_slots_offered 4", "sluice_worker_term 1", "go_goroutines"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics lack %q", want)
		}
	}
	c.die()
	deadline := time.Now().Add(limit)
	for code := http.StatusOK; code != http.StatusServiceUnavailable; code, _ = get("/readyz") {
		if time.Now().After(deadline) {
			t.Fatal("ready without a leader")
		}
	}
	if code, _ := get("/healthz"); code != http.StatusOK {
		t.Errorf("healthy without a leader: %d", code)
	}
	for probe() != healthpb.HealthCheckResponse_NOT_SERVING {
		if time.Now().After(deadline) {
			t.Fatal("serving without a leader")
		}
	}
}

// healthProbe asks the control port as a probe does that knows nothing of workers.
func healthProbe(t *testing.T, addr string) func() healthpb.HealthCheckResponse_ServingStatus {
	t.Helper()
	conn, err := wire.Policy{}.Client(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return func() healthpb.HealthCheckResponse_ServingStatus {
		t.Helper()
		got, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{Service: controlpb.Agent_ServiceDesc.ServiceName})
		if err != nil {
			t.Fatal(err)
		}
		return got.Status
	}
}

func TestAStoppedWorkerTellsItsLeaderFirstAndLast(t *testing.T) {
	c := newCoordinator(t)
	w := startWorker(t, testConfig(t, c))
	s := c.session()
	s.order(deploy(deployment("job-1", 7, c.tiny())))
	s.state(jobpb.SubtaskState_SUBTASK_RUNNING)
	stopped := make(chan error, 1)
	go1(t, func() { stopped <- w.stop() })
	await(s, "draining", func(m *controlpb.WorkerMessage) (bool, bool) { return true, m.GetDraining() != nil })
	x := s.exit(7)
	if x.Kind != jobpb.FailureKind_FAILURE_LOSS || !strings.Contains(x.Reason, "worker was stopped") {
		t.Errorf("exit: %v", x)
	}
	select {
	case err := <-stopped:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(limit):
		t.Fatal("the worker does not stop")
	}
}

func TestOrphansAreStoppedAfterTheGraceAndNotBefore(t *testing.T) {
	c := newCoordinator(t)
	cfg := testConfig(t, c)
	cfg.OrphanGrace = cfg.LostAfter
	startWorker(t, cfg)
	s := c.session()
	s.order(deploy(deployment("job-1", 7, c.tiny())))
	s.state(jobpb.SubtaskState_SUBTASK_RUNNING)
	awaitBeat(t, s)
	begin := time.Now()
	c.die()
	s.gone()
	// A new leader that comes after the grace hears of the end; the one that comes before finds the attempt running.
	c.listen(c.addr)
	s = c.session()
	if len(s.register.Processes) != 1 || s.register.Processes[0].Subtasks[0].State != jobpb.SubtaskState_SUBTASK_RUNNING {
		t.Fatalf("before the grace: %v", s.register.Processes)
	}
	if took := time.Since(begin); took > cfg.OrphanGrace {
		t.Skipf("this machine took %s to bring the leader back", took)
	}
	c.set(func() { c.leader = "127.0.0.1:1" }) // no leader anywhere
	c.die()
	c.listen(c.addr)
	awaitIdle(t, cfg.DataDir)
	c.set(func() { c.leader = "" })
	x := c.session().exit(7)
	if x.Kind != jobpb.FailureKind_FAILURE_LOSS || !strings.Contains(x.Reason, "no leader was found") {
		t.Errorf("exit: %v", x)
	}
}

// The stream breaks in the middle: numbers stay in order, and every fact arrives.
func TestReportsSurviveAStreamThatBreaks(t *testing.T) {
	failpoint.Arm(t, "worker.report=5:error(cut)")
	c := newCoordinator(t)
	c.set(func() { c.hold = true })
	startWorker(t, testConfig(t, c))
	s := c.session()
	digest := c.tiny()
	for process := uint64(1); process <= 3; process++ {
		s.order(deploy(deployment("job-1", process, digest, "run", "finish")))
	}
	s.gone()
	s = c.session()
	seen := map[string]bool{}
	last := uint64(0)
	await(s, "report of every end", func(m *controlpb.WorkerMessage) (bool, bool) {
		r := m.GetReport()
		if r == nil {
			return false, false
		}
		if r.Sequence != last+1 {
			t.Errorf("report %d after %d", r.Sequence, last)
		}
		last = r.Sequence
		if u := r.GetSubtask(); u.GetState() == jobpb.SubtaskState_SUBTASK_FINISHED {
			seen[fmt.Sprint(r.Process, u.Index)] = true
		}
		return true, len(seen) == 6
	})
}

// The agent dies when a task process has ended and nobody knows it yet: its successor has nothing in its inventory, which
// says the same.
func TestAnEndThatWasNeverReportedShowsInTheNextInventory(t *testing.T) {
	c := newCoordinator(t)
	cfg := testConfig(t, c)
	t.Setenv(failpoint.Environment, "worker.exit=kill")
	agent := startAgent(t, cfg)
	s := c.session()
	s.order(deploy(deployment("job-1", 7, c.tiny(), "run", "exit")))
	_ = agent.Wait()
	s.gone()
	t.Setenv(failpoint.Environment, "")
	startAgent(t, cfg)
	r := c.session().register
	if r.Incarnation != 2 || len(r.Processes) > 0 {
		t.Errorf("registered as %v", r)
	}
}
