package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"

	"github.com/sluiceio/sluice/internal/pipe"
	"github.com/sluiceio/sluice/internal/probe"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/worker/artifact"
	"github.com/sluiceio/sluice/worker/chunks"
	"github.com/sluiceio/sluice/worker/outbox"
	"github.com/sluiceio/sluice/worker/results"
	"github.com/sluiceio/sluice/worker/spawn"
)

// agent is one incarnation of a worker. Its fields do not change once it runs; each part guards itself.
type agent struct {
	cfg       Config
	log       hclog.Logger
	id        identity
	addresses Addresses

	outbox     *outbox.Outbox
	table      *table
	archive    *archive
	cache      *artifact.Cache
	results    *results.Keeper
	objects    *chunks.Keeper
	starter    *spawn.Starter
	connection *connection
	finder     *finder
	builds     *builds
	counters   *counters
	oom        *spawn.OOMWatch
	probes     *probe.Probes

	requests chan *controlpb.Report   // questions of task processes, for the session
	drains   chan *controlpb.Draining // at most one
	work     *run.Group               // task processes and builds
}

// outboxBytes bounds the reports that wait for a leader. Whoever reports waits when it is reached: the task process then
// waits on its control link.
const outboxBytes = 64 << 20

// requestQueue bounds the questions that wait for the session. Task processes repeat theirs.
const requestQueue = 1024

// Run is the life of a worker. It returns nil after ctx has ended and every task process is gone, or the error that
// ended it. It blocks; one data directory serves one Run at a time, across processes.
func Run(ctx context.Context, c Config) (err error) {
	if err := c.Validate(); err != nil {
		return fmt.Errorf("worker configuration: %w", err)
	}
	if c.DataDir, err = filepath.Abs(c.DataDir); err != nil { // task processes have another working directory
		return fmt.Errorf("worker data directory: %w", err)
	}
	lock, err := lockData(c.DataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	a, err := newAgent(ctx, c)
	if err != nil {
		return err
	}
	ports, err := a.listen(ctx)
	if err != nil {
		return err
	}
	if c.Listening != nil {
		c.Listening(a.addresses)
	}
	return a.run(ctx, ports)
}

// lockData makes the data directory and takes its lock, before anything in it is read.
func lockData(dir string) (lock interface{ Close() error }, err error) {
	if err := vfs.MakeDir(vfs.OS{}, dir); err != nil {
		return nil, fmt.Errorf("worker data directory: %w", err)
	}
	lock, err = vfs.OS{}.Lock(filepath.Join(dir, lockName))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("worker data directory %s: another worker runs on it: %w", dir, err)
	}
	if err != nil {
		return nil, fmt.Errorf("worker data directory: %w", err)
	}
	return lock, nil
}

// newAgent counts the incarnation and makes sure that nothing of the one before runs any more. Only then may the
// worker register: the leader places the subtasks of the old incarnation elsewhere as soon as it hears of the new one.
func newAgent(ctx context.Context, c Config) (*agent, error) {
	id, err := nextIncarnation(vfs.OS{}, c.DataDir)
	if err != nil {
		return nil, err
	}
	a := &agent{
		cfg: c, id: id, log: c.Log.Named("worker").With("worker", id.ID),
		outbox: outbox.New(outboxBytes), table: newTable(), starter: spawn.NewStarter(),
		connection: newConnection(c), finder: newFinder(c.Join), counters: newCounters(), oom: spawn.NewOOMWatch(),
		probes:   probe.New(controlpb.Agent_ServiceDesc.ServiceName),
		requests: make(chan *controlpb.Report, requestQueue), drains: make(chan *controlpb.Draining, 1),
	}
	archive, old, err := openArchive(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("worker %s: %w", id.ID, err)
	}
	a.archive = archive
	for _, key := range old {
		a.table.remember(key)
	}
	if a.cache, err = artifact.Open(vfs.OS{}, filepath.Join(c.DataDir, artifactsName), c.ArtifactBytes); err != nil {
		return nil, fmt.Errorf("worker %s: %w", id.ID, err)
	}
	if a.results, err = results.Open(vfs.OS{}, filepath.Join(c.DataDir, resultsName), id.ID, a.log); err != nil {
		return nil, fmt.Errorf("worker %s: %w", id.ID, err)
	}
	if a.objects, err = chunks.Open(chunks.Config{
		FS: vfs.OS{}, Dir: filepath.Join(c.DataDir, objectsName), Worker: id.ID, Policy: c.Policy, Scrub: c.ScrubInterval, Log: a.log,
	}); err != nil {
		return nil, fmt.Errorf("worker %s: %w", id.ID, err)
	}
	a.builds = newBuilds(a)
	return a, nil
}

// ports are the listeners of a worker.
type ports struct{ control, data, http net.Listener }

func (p ports) close() error {
	var err error
	for _, l := range []net.Listener{p.control, p.data, p.http} {
		if l != nil {
			err = errors.Join(err, l.Close())
		}
	}
	return err
}

// listen opens every port, or none.
func (a *agent) listen(ctx context.Context) (p ports, err error) {
	open := func(addr string) (l net.Listener) {
		if err == nil && addr != "" {
			l, err = a.cfg.Policy.Listen(ctx, addr)
		}
		return l
	}
	p.control, p.data, p.http = open(a.cfg.Listen), open(a.cfg.DataListen), open(a.cfg.HTTPListen)
	if err != nil {
		return ports{}, errors.Join(fmt.Errorf("worker %s: %w", a.id.ID, err), p.close())
	}
	a.addresses = Addresses{
		ID: a.id.ID, Incarnation: a.id.Incarnation,
		Control: advertised(a.cfg.Advertise, p.control), Data: advertised(a.cfg.DataAdvertise, p.data),
	}
	if p.http != nil {
		a.addresses.HTTP = p.http.Addr().String()
	}
	return p, nil
}

func advertised(addr string, l net.Listener) string {
	if addr != "" {
		return addr
	}
	return l.Addr().String()
}

// run is the life between open and closed ports. Three groups end in mirror order: first the sessions, so that no new
// work arrives; then the work; at last the house, with the thread that every task process depends on.
func (a *agent) run(ctx context.Context, p ports) error {
	base := context.WithoutCancel(ctx)
	house := run.NewGroup(base, "worker")
	a.work = run.NewGroup(house.Context(), "work")
	control := run.NewGroup(a.work.Context(), "control")

	house.Go("starter", a.starter.Run)
	house.Go("memory", a.oom.Run)
	own := pipe.NewOwn(p.data.Addr())
	house.Go("data port", a.dataPort(p.data, own).Run)
	house.Go("results", func(ctx context.Context) error { return a.results.Serve(ctx, own) })
	house.Go("deletions", a.results.Delete)
	house.Go("audit", a.results.Audit)
	house.Go("objects", a.objects.Work)
	house.Go("scrubbing", a.objects.Scrub)
	house.Go("control port", func(ctx context.Context) error { return a.serveControl(ctx, p.control) })
	if p.http != nil {
		house.Go("http port", func(ctx context.Context) error { return a.serveHTTP(ctx, p.http) })
	}
	control.Go("sessions", a.sessions)
	control.Go("orphans", a.watchOrphans)
	control.Go("health", a.keepHealth)
	a.log.Info("worker started", "incarnation", a.id.Incarnation, "slots", a.cfg.Slots, "memory", a.cfg.Memory,
		"control", a.addresses.Control, "data", a.addresses.Data, "pid", os.Getpid())

	select {
	case <-ctx.Done():
		a.wind(control.Context())
	case <-control.Context().Done(): // something failed, here or above
	}
	control.Stop()
	err := control.Wait()
	a.work.Stop()
	err = errors.Join(err, a.work.Wait())
	house.Stop()
	err = errors.Join(err, house.Wait())
	a.log.Info("worker stopped", "error", err)
	return err
}

// Times of an orderly stop, beside the grace of the task processes.
const (
	windMargin  = 5 * time.Second // for a killed process to be gone and its output to be read
	reportLimit = time.Second     // for the leader to commit the last reports
)

// wind ends the worker in order: the leader hears of it first, and last how every process ended.
func (a *agent) wind(ctx context.Context) {
	a.log.Info("worker stops")
	a.table.close()
	deadline := time.Now().Add(a.cfg.StopGrace)
	a.drains <- &controlpb.Draining{DeadlineUs: deadline.UnixMicro()} // the only one: there is room
	processes := a.table.list()
	for _, p := range processes {
		p.stop(order{reason: "the worker was stopped", kind: jobpb.FailureKind_FAILURE_LOSS})
	}
	ctx, cancel := context.WithDeadline(ctx, deadline.Add(windMargin))
	defer cancel()
	for _, p := range processes {
		select {
		case <-p.over:
		case <-ctx.Done():
		}
	}
	if open, _, _ := a.connection.registered(); !open {
		return
	}
	ctx, cancelReports := context.WithTimeout(ctx, reportLimit)
	defer cancelReports()
	if err := a.outbox.Wait(ctx); err != nil {
		a.log.Warn("the leader has not committed every report", "pending", a.outbox.Pending())
	}
}

// watchOrphans stops the task processes when no leader was there for the grace. Until then they run on: correctness
// never rests on their end, only tidiness does.
func (a *agent) watchOrphans(ctx context.Context) error {
	for ctx.Err() == nil {
		open, since, changed := a.connection.registered()
		if !open {
			a.awaitLeader(ctx, since, changed)
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return nil
}

// awaitLeader returns when a leader is found, or when the grace is over and the task processes were told to end.
func (a *agent) awaitLeader(ctx context.Context, since time.Time, found <-chan struct{}) {
	timer := time.NewTimer(time.Until(since.Add(a.cfg.OrphanGrace)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-found:
		return
	case <-ctx.Done():
		return
	}
	a.log.Error("no leader was found within the grace; task processes are stopped", "grace", a.cfg.OrphanGrace)
	for _, p := range a.table.list() {
		p.stop(order{
			reason: fmt.Sprintf("no leader was found for %s", a.cfg.OrphanGrace), kind: jobpb.FailureKind_FAILURE_LOSS,
		})
	}
}

// snapshots tells a task process where objects of snapshots go.
func (a *agent) snapshots() string {
	if a.cfg.SnapshotStore == PeerStore {
		return PeerStore + ":" + a.objects.Dir()
	}
	return a.cfg.SnapshotStore
}

func (a *agent) dataPort(l net.Listener, own *pipe.Own) *pipe.Port {
	log := a.log.Named("data")
	return &pipe.Port{
		Listener: l, Timeout: a.cfg.PrefaceTimeout, Route: a.table.route, Own: own,
		Note: func(outcome string, err error) {
			a.counters.connections.note(outcome)
			if err != nil {
				log.Debug("data connection not handed over", "outcome", outcome, "error", err)
			}
		},
	}
}

// serveControl answers calls until ctx is done.
func (a *agent) serveControl(ctx context.Context, l net.Listener) error {
	server := a.cfg.Policy.Server(grpc.WaitForHandlers(true))
	controlpb.RegisterAgentServer(server, &agentService{archive: a.archive, worker: a.id.ID})
	controlpb.RegisterObjectsServer(server, a.objects.Service())
	a.probes.Register(server)
	stop := context.AfterFunc(ctx, server.Stop)
	defer stop()
	return server.Serve(l)
}

// keepHealth says by the health service whether a leader holds a session with this worker, until ctx is done.
func (a *agent) keepHealth(ctx context.Context) error {
	defer a.probes.Stop()
	for {
		open, _, changed := a.connection.registered()
		if open {
			a.probes.Ready()
		} else {
			a.probes.Unready()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}
