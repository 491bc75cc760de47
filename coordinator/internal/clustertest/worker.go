package clustertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/internal/wire"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// Worker speaks the session protocol and pretends to run jobs: their attempts begin, read their splits, and finish at
// once. It keeps the promises of a real one: it obeys no lower term than it has seen, numbers its reports and sends them
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
		hold     bool // attempts run until they may finish
		deaf     bool // reads nothing from its session
		outputs  map[string][]string
		reads    map[string][]string
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
}

type attempt struct {
	d      *taskpb.SubtaskDeployment
	state  jobpb.SubtaskState
	found  bool // the enumerator has reported
	asked  bool // a split request is under way in this session
	splits []string
	end    bool
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
	w := &Worker{ID: id, c: c, opts: opts, conns: make(map[string]*grpc.ClientConn), changed: make(chan struct{}, 1), incarnation: 1, procs: make(map[procKey]*proc)}
	w.mu.outputs, w.mu.reads = make(map[string][]string), make(map[string][]string)
	w.group = run.NewGroup(context.WithoutCancel(c.t.Context()), id)
	w.group.Go("life", w.live)
	c.workers = append(c.workers, w)
	return w
}

// Stop ends the worker, and with it everything that runs on it.
func (w *Worker) Stop() {
	w.c.t.Helper()
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
func (w *Worker) Hold() { w.set(func() { w.mu.hold = true }) }

// Finish lets attempts finish.
func (w *Worker) Finish() { w.set(func() { w.mu.hold = false }) }

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
				return <-ended
			}
		}
	}
}

func (w *Worker) beat(n uint64) *controlpb.WorkerMessage {
	h := &controlpb.Heartbeat{Sequence: n}
	for _, p := range w.procs {
		sample := &taskpb.Sample{ResidentBytes: 1 << 20}
		for _, t := range p.tasks {
			sample.Counters = append(sample.Counters, &taskpb.Counters{
				Chain: t.d.Chain, Index: t.d.Index, Attempt: t.d.Attempt, RecordsIn: int64(10 * (t.d.Index + 1)),
			})
		}
		h.Samples = append(h.Samples, &controlpb.ProcessSample{Job: p.key.job, Process: p.key.number, Sample: sample})
	}
	return &controlpb.WorkerMessage{Message: &controlpb.WorkerMessage_Heartbeat{Heartbeat: h}}
}

func (w *Worker) register() *controlpb.Register {
	r := &controlpb.Register{
		Worker: w.ID, Incarnation: w.incarnation, Address: w.ID + ":1", DataAddress: w.ID + ":2", Slots: w.opts.Slots, Memory: 1 << 30,
		Version: "test", ProtocolMin: taskpb.ProtocolMin, ProtocolMax: taskpb.ProtocolMax, Os: w.opts.OS, Arch: w.opts.Arch, TermSeen: w.term,
	}
	for _, p := range w.procs {
		inv := &controlpb.ProcessInventory{Job: p.key.job, JobEpoch: p.epoch, Process: p.key.number}
		for _, t := range p.tasks {
			if active(t.state) || w.unacknowledged(p, t) {
				inv.Subtasks = append(inv.Subtasks, t.update())
			}
		}
		r.Processes = append(r.Processes, inv)
	}
	return r
}

func active(s jobpb.SubtaskState) bool {
	return s == jobpb.SubtaskState_SUBTASK_SCHEDULED || s == jobpb.SubtaskState_SUBTASK_RUNNING
}

func (w *Worker) unacknowledged(p *proc, t *attempt) bool {
	return slices.ContainsFunc(w.outbox, func(r *controlpb.Report) bool {
		u := r.GetSubtask()
		return u != nil && r.Job == p.key.job && u.Chain == t.d.Chain && u.Index == t.d.Index && u.Attempt == t.d.Attempt
	})
}

func (t *attempt) update() *taskpb.SubtaskUpdate {
	return &taskpb.SubtaskUpdate{
		Chain: t.d.Chain, Index: t.d.Index, Attempt: t.d.Attempt, Region: t.d.Region, RegionEpoch: t.d.RegionEpoch, State: t.state,
	}
}

func (w *Worker) report(key procKey, epoch uint64, r *controlpb.Report) {
	w.sequence++
	r.Sequence, r.Job, r.JobEpoch, r.Process = w.sequence, key.job, epoch, key.number
	w.outbox = append(w.outbox, r)
}

func (w *Worker) become(p *proc, t *attempt, s jobpb.SubtaskState) {
	t.state = s
	u := t.update()
	if s == jobpb.SubtaskState_SUBTASK_FINISHED {
		for _, o := range p.plan.Chains[t.d.Chain].Operators {
			if op := p.plan.Graph.Operators[o]; op.Kind == "sink" {
				u.Committables = append(u.Committables, &jobpb.Committable{Sink: op.Id, Subtask: t.d.Index, Data: fmt.Appendf(nil, "%s[%d]", op.Id, t.d.Index)})
			}
		}
		w.mu.Lock()
		w.mu.reads[p.key.job] = append(w.mu.reads[p.key.job], t.splits...)
		w.mu.Unlock()
	}
	w.report(p.key, p.epoch, &controlpb.Report{Fact: &controlpb.Report_Subtask{Subtask: u}})
}

// speak lets every attempt go as far as it can and sends what the leader has not got in this session.
func (w *Worker) speak(s stream) error {
	w.mu.Lock()
	hold := w.mu.hold
	w.mu.Unlock()
	for _, p := range w.procs {
		for _, t := range p.tasks {
			if err := w.advance(s, p, t, hold); err != nil {
				return err
			}
		}
	}
	for ; w.sent < len(w.outbox); w.sent++ {
		if err := s.Send(&controlpb.WorkerMessage{Message: &controlpb.WorkerMessage_Report{Report: w.outbox[w.sent]}}); err != nil {
			return err
		}
	}
	for _, b := range w.builds {
		if err := s.Send(&controlpb.WorkerMessage{Message: &controlpb.WorkerMessage_BuildResult{BuildResult: b}}); err != nil {
			return err
		}
	}
	w.builds = nil
	return nil
}

func (w *Worker) advance(s stream, p *proc, t *attempt, hold bool) error {
	if t.state == jobpb.SubtaskState_SUBTASK_SCHEDULED {
		w.become(p, t, jobpb.SubtaskState_SUBTASK_RUNNING)
	}
	if t.state != jobpb.SubtaskState_SUBTASK_RUNNING {
		return nil
	}
	if !t.found {
		t.found = true
		for _, op := range t.d.Enumerate {
			d := &taskpb.SplitsDiscovered{Operator: op, Region: t.d.Region, RegionEpoch: t.d.RegionEpoch, End: true}
			for i := range 4 * p.plan.Chains[t.d.Chain].Parallelism {
				d.Splits = append(d.Splits, &jobpb.Split{Id: fmt.Sprint("s", i)})
			}
			w.report(p.key, p.epoch, &controlpb.Report{Fact: &controlpb.Report_Splits{Splits: d}})
		}
	}
	head := p.plan.Chains[t.d.Chain].Operators[0]
	if len(p.plan.Graph.Operators[head].Inputs) == 0 && !t.end {
		if t.asked {
			return nil
		}
		t.asked = true
		return s.Send(&controlpb.WorkerMessage{Message: &controlpb.WorkerMessage_Report{Report: &controlpb.Report{
			Job: p.key.job, JobEpoch: p.epoch, Process: p.key.number,
			Fact: &controlpb.Report_SplitRequest{SplitRequest: &taskpb.SplitRequest{
				Operator: head, Chain: t.d.Chain, Index: t.d.Index, Attempt: t.d.Attempt, Region: t.d.Region, RegionEpoch: t.d.RegionEpoch,
				Have: int32(len(t.splits)),
			}},
		}}})
	}
	if !hold {
		w.become(p, t, jobpb.SubtaskState_SUBTASK_FINISHED)
	}
	return nil
}

func (w *Worker) obey(m *controlpb.CoordinatorMessage) {
	switch v := m.Message.(type) {
	case *controlpb.CoordinatorMessage_Ack:
		for len(w.outbox) > 0 && w.outbox[0].Sequence <= v.Ack.Sequence {
			w.outbox = w.outbox[1:]
			w.sent = max(w.sent-1, 0)
		}
	case *controlpb.CoordinatorMessage_Build:
		w.builds = append(w.builds, w.build(v.Build))
	case *controlpb.CoordinatorMessage_Deploy:
		w.deploy(v.Deploy.Deployment)
	case *controlpb.CoordinatorMessage_Cancel:
		w.cancel(v.Cancel)
	case *controlpb.CoordinatorMessage_Commit:
		w.commit(v.Commit)
	case *controlpb.CoordinatorMessage_Release:
		w.release(v.Release)
	case *controlpb.CoordinatorMessage_AssignSplits:
		w.assign(v.AssignSplits)
	}
}

// build answers with a job that reads splits, exchanges by key and writes.
func (w *Worker) build(b *controlpb.RequestBuild) *controlpb.BuildResult {
	result := &controlpb.BuildResult{Job: b.Job, Build: b.Build, Protocol: w.opts.Protocol, Failure: w.opts.BuildFails}
	if result.Failure == nil {
		result.Built = &taskpb.Built{Output: "built\n", Graph: &jobpb.Graph{Name: b.Spec.Name, Operators: []*jobpb.Operator{
			{Id: "in", Kind: "source", Bounded: true, Parallelism: w.opts.Parallelism},
			{Id: "out", Kind: "sink", Bounded: true, Parallelism: w.opts.Parallelism, Guarantee: jobpb.Guarantee_GUARANTEE_EXACTLY_ONCE,
				Inputs: []*jobpb.Input{{Operator: 0, Partitioner: jobpb.Partitioner_PARTITIONER_HASH}}},
		}}}
	}
	return result
}

func (w *Worker) deploy(d *taskpb.Deployment) {
	key := procKey{d.Job, d.Process}
	p := w.procs[key]
	if p == nil {
		p = &proc{key: key, plan: d.Plan}
		w.procs[key] = p
	}
	if d.JobEpoch < p.epoch {
		return
	}
	p.epoch = d.JobEpoch
	for _, sd := range d.Subtasks {
		known := slices.ContainsFunc(p.tasks, func(t *attempt) bool {
			return t.d.Chain == sd.Chain && t.d.Index == sd.Index && t.d.Attempt >= sd.Attempt
		})
		if !known {
			p.tasks = append(p.tasks, &attempt{d: sd, state: jobpb.SubtaskState_SUBTASK_SCHEDULED})
		}
	}
}

func (w *Worker) cancel(c *taskpb.Cancel) {
	for _, p := range w.procs {
		if p.key.job != c.Job || c.JobEpoch < p.epoch {
			continue
		}
		for _, t := range p.tasks {
			meant := len(c.Regions) == 0 || slices.ContainsFunc(c.Regions, func(r *taskpb.RegionEpoch) bool {
				return r.Region == t.d.Region && t.d.RegionEpoch <= r.Epoch
			})
			if meant && active(t.state) {
				w.become(p, t, jobpb.SubtaskState_SUBTASK_CANCELLED)
			}
		}
	}
}

func (w *Worker) commit(c *taskpb.Commit) {
	key := procKey{c.Job, c.Process}
	if w.procs[key] == nil {
		w.absent(key)
		return
	}
	w.mu.Lock()
	for _, x := range c.Committables {
		if !c.Abort && !slices.Contains(w.mu.outputs[c.Job], string(x.Data)) {
			w.mu.outputs[c.Job] = append(w.mu.outputs[c.Job], string(x.Data))
		}
	}
	w.mu.Unlock()
	w.report(key, c.JobEpoch, &controlpb.Report{Fact: &controlpb.Report_Commit{Commit: &taskpb.CommitResult{
		Job: c.Job, JobEpoch: c.JobEpoch, Process: c.Process, Checkpoint: c.Checkpoint,
	}}})
}

func (w *Worker) release(r *controlpb.Release) {
	key := procKey{r.Job, r.Process}
	p := w.procs[key]
	if p == nil {
		w.absent(key)
		return
	}
	delete(w.procs, key)
	w.report(key, p.epoch, &controlpb.Report{Fact: &controlpb.Report_Exit{Exit: &controlpb.ProcessExit{Reason: "released: " + r.Reason}}})
}

func (w *Worker) absent(key procKey) {
	w.report(key, 0, &controlpb.Report{Fact: &controlpb.Report_Exit{Exit: &controlpb.ProcessExit{
		Code: -1, Reason: "no such process", Kind: jobpb.FailureKind_FAILURE_LOSS,
	}}})
}

func (w *Worker) assign(m *taskpb.AssignSplits) {
	p := w.procs[procKey{m.Job, m.Process}]
	if p == nil {
		return
	}
	for _, t := range p.tasks {
		if t.d.Chain != m.Chain || t.d.Index != m.Index || t.d.Attempt != m.Attempt || int(m.Offset) > len(t.splits) {
			continue
		}
		for i, x := range m.Splits {
			if int(m.Offset)+i == len(t.splits) {
				t.splits = append(t.splits, x.Id)
			}
		}
		t.end, t.asked = t.end || m.End, false
	}
}
