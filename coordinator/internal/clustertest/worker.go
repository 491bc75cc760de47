package clustertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/internal/wire"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// Worker speaks the session protocol and pretends to run jobs: their attempts begin, read their splits and stored inputs,
// store results, and finish at once. It keeps the promises of a real one: it obeys no lower term than it has seen, numbers its reports and sends them
// again in every session until they are acknowledged, and keeps what runs while it looks for a leader.
type Worker struct {
	ID string

	c       *Cluster
	opts    WorkerOptions
	group   *run.Group
	conns   map[string]*grpc.ClientConn
	changed chan struct{} // capacity 1: an option or a command of the test

	mu struct {
		sync.Mutex
		hold     int32 // attempts of this chain and of those behind it run until they may finish
		deaf     bool  // reads nothing from its session
		outputs  map[string][]string
		reads    map[string][]string
		opened   map[string]int
		sessions int
		refusals int
	}

	// Owned by the worker's goroutine.
	incarnation uint64
	term        uint64
	sequence    uint64
	outbox      []*controlpb.Report
	sent        int // of outbox, in this session
	procs       map[procKey]*proc
	builds      []*controlpb.BuildResult
}

// WorkerOptions of a worker.
type WorkerOptions struct {
	Slots    int32
	OS, Arch string // empty: linux/amd64
	// Protocol of the binaries that it builds; 0: that of this release.
	Protocol int32
	// BuildFails, if set, answers builds instead of a graph.
	BuildFails *jobpb.Failure
	// Parallelism of the jobs that it builds; 0: two.
	Parallelism int32
	// Exchange of the jobs that it builds; automatic, so stage by stage, unless said otherwise.
	Exchange jobpb.ExchangeKind
	// Incarnation of the worker; 0: the first. A higher one of the same id finds the results of the one before.
	Incarnation uint64
	// Graph, if set, is what it builds instead of the job of two operators.
	Graph *jobpb.Graph
	// Logs are the captured output of its task processes, by job. InMemory only; nil: the worker cannot be reached for logs.
	Logs map[string][]*controlpb.LogChunk
}

type procKey struct {
	job    string
	number uint64
}

type proc struct {
	key   procKey
	epoch uint64
	plan  *jobpb.Plan
	tasks []*attempt
	// locations of other subtasks, the newest that it was told of
	locations map[[2]int32]*taskpb.Location
}

type attempt struct {
	d      *taskpb.SubtaskDeployment
	state  jobpb.SubtaskState
	found  bool // the enumerator has reported
	asked  bool // a split request is under way in this session
	splits []string
	end    bool
	open   bool // the gates behind its sources are
	// said so
	produced, loaded bool
}

// StartWorker starts a worker and registers its end with the test.
func (c *Cluster) StartWorker(id string, opts WorkerOptions) *Worker {
	c.t.Helper()
	if opts.Slots == 0 {
		opts.Slots = 4
	}
	if opts.OS == "" {
		opts.OS, opts.Arch = "linux", "amd64"
	}
	if opts.Protocol == 0 {
		opts.Protocol = taskpb.Protocol
	}
	if opts.Parallelism == 0 {
		opts.Parallelism = 2
	}
	w := &Worker{
		ID: id, c: c, opts: opts, conns: make(map[string]*grpc.ClientConn), changed: make(chan struct{}, 1), incarnation: max(opts.Incarnation, 1),
		procs: make(map[procKey]*proc),
	}
	w.mu.hold = math.MaxInt32
	c.disks.reach(id, true)
	w.mu.outputs, w.mu.reads, w.mu.opened = make(map[string][]string), make(map[string][]string), make(map[string]int)
	w.group = run.NewGroup(context.WithoutCancel(c.t.Context()), id)
	w.group.Go("life", w.live)
	if opts.Logs != nil {
		w.serveLogs()
	}
	c.workers = append(c.workers, w)
	return w
}

// serveLogs serves the worker's control port.
func (w *Worker) serveLogs() {
	w.c.t.Helper()
	l, err := w.c.network.Listen(w.ID + ":1")
	if err != nil {
		w.c.t.Fatal(err)
	}
	server := wire.Policy{}.Server()
	controlpb.RegisterAgentServer(server, &agent{logs: w.opts.Logs})
	w.group.Go("control port", func(ctx context.Context) error {
		stop := context.AfterFunc(ctx, server.Stop)
		defer stop()
		if err := server.Serve(l); !errors.Is(err, grpc.ErrServerStopped) {
			return err
		}
		return nil
	})
}

type agent struct {
	controlpb.UnimplementedAgentServer
	logs map[string][]*controlpb.LogChunk
}

func (a *agent) Logs(req *controlpb.LogsRequest, stream grpc.ServerStreamingServer[controlpb.LogChunk]) error {
	chunks, ok := a.logs[req.Job]
	if !ok {
		return apipb.NewError(codes.NotFound, nil, "no logs of job %s", req.Job)
	}
	for _, c := range chunks {
		if err := stream.Send(c); err != nil {
			return err
		}
	}
	if req.Follow {
		<-stream.Context().Done()
	}
	return nil
}

// Stop ends the worker, and with it everything that runs on it.
func (w *Worker) Stop() {
	w.c.t.Helper()
	w.c.disks.reach(w.ID, false)
	w.group.Stop()
	if err := w.group.Wait(); err != nil {
		w.c.t.Errorf("worker %s: %v", w.ID, err)
	}
	for _, conn := range w.conns {
		if err := conn.Close(); err != nil {
			w.c.t.Errorf("worker %s: %v", w.ID, err)
		}
	}
	w.conns = nil
}

// Hold keeps attempts running until Finish.
func (w *Worker) Hold() { w.HoldFrom(0) }

// HoldFrom keeps attempts of a chain and of those behind it running until Finish.
func (w *Worker) HoldFrom(chain int32) { w.set(func() { w.mu.hold = chain }) }

// Finish lets attempts finish.
func (w *Worker) Finish() { w.HoldFrom(math.MaxInt32) }

// Deafen makes the worker stop reading what the leader says, while it goes on to speak.
func (w *Worker) Deafen() { w.set(func() { w.mu.deaf = true }) }

func (w *Worker) set(change func()) {
	w.mu.Lock()
	change()
	w.mu.Unlock()
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// Outputs are the parts of a job's output that this worker made visible.
func (w *Worker) Outputs(job string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.mu.outputs[job])
}

// Reads are the splits of a job that finished attempts on this worker have read.
func (w *Worker) Reads(job string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.mu.reads[job])
}

// Sessions is how often the worker was welcomed, Refusals how often a coordinator sent it away.
func (w *Worker) Sessions() (welcomed, refused int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.sessions, w.mu.refusals
}

func (w *Worker) live(ctx context.Context) error {
	next, hint := 0, ""
	for ctx.Err() == nil {
		address := hint
		if address == "" {
			address = w.c.nodes[next%len(w.c.nodes)].API
			next++
		}
		err := w.session(ctx, address)
		detail, _ := apipb.DetailOf(err)
		if hint = detail.GetLeader(); hint == address {
			hint = ""
		}
		w.mu.Lock()
		w.mu.refusals++
		w.mu.Unlock()
		pause := time.NewTimer(100 * time.Millisecond)
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
		pause.Stop()
	}
	return nil
}

func (w *Worker) conn(address string) (*grpc.ClientConn, error) {
	if conn := w.conns[address]; conn != nil {
		return conn, nil
	}
	conn, err := wire.Policy{}.Client(address, w.c.ClientOptions()...)
	if err == nil {
		w.conns[address] = conn
	}
	return conn, err
}

type stream = grpc.BidiStreamingClient[controlpb.WorkerMessage, controlpb.CoordinatorMessage]

const heartbeat = 500 * time.Millisecond

// session is one stream to one coordinator, until it ends.
func (w *Worker) session(ctx context.Context, address string) error {
	conn, err := w.conn(address)
	if err != nil {
		return err
	}
	group := run.NewGroup(ctx, "session")
	defer func() { group.Stop(); _ = group.Wait() }() // it ends with errors of a stream that is given up
	s, err := controlpb.NewControlClient(conn).Attach(group.Context())
	if err != nil {
		return err
	}
	if err := s.Send(&controlpb.WorkerMessage{Message: &controlpb.WorkerMessage_Register{Register: w.register()}}); err != nil {
		_, err = s.Recv()
		return err
	}
	inbox := make(chan *controlpb.CoordinatorMessage)
	ended := make(chan error, 1)
	group.Go("read", func(ctx context.Context) error {
		for {
			if w.isDeaf() {
				<-ctx.Done()
				return nil
			}
			m, err := s.Recv()
			if err != nil {
				ended <- err
				return nil
			}
			select {
			case inbox <- m:
			case <-ctx.Done():
				return nil
			}
		}
	})
	return w.work(ctx, s, inbox, ended)
}

// broken is why a stream ended that takes no more messages. What came in before is left out, so that whoever reads gets to the reason.
func broken(ctx context.Context, inbox <-chan *controlpb.CoordinatorMessage, ended <-chan error) error {
	for {
		select {
		case <-inbox:
		case err := <-ended:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (w *Worker) isDeaf() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.deaf
}

func (w *Worker) work(ctx context.Context, s stream, inbox <-chan *controlpb.CoordinatorMessage, ended <-chan error) error {
	w.sent = 0
	for _, p := range w.procs {
		for _, t := range p.tasks {
			t.asked = false
		}
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	var beats uint64
	welcomed := false
	for {
		select {
		case m := <-inbox:
			if m.Term < w.term {
				return fmt.Errorf("term %d after %d", m.Term, w.term)
			}
			if err := m.Validate(); err != nil {
				return err
			}
			w.term = m.Term
			if m.GetWelcome() != nil && !welcomed {
				welcomed = true
				w.mu.Lock()
				w.mu.sessions++
				w.mu.Unlock()
			}
			w.obey(m)
		case <-beat.C:
			beats++
			if err := s.Send(w.beat(beats)); err != nil && !errors.Is(err, io.EOF) {
				return err
			}
		case <-w.changed:
		case err := <-ended:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if welcomed {
			if err := w.speak(s); err != nil {
				return broken(ctx, inbox, ended)
			}
		}
	}
}
