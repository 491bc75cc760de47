package task

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/flow/graph"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/shuffle"
	"github.com/sluiceio/sluice/shuffle/stored"
)

// ---------------------------------------------------------------- a source

// counted is a source of the numbers below n, cut into splits.
type counted[T any] struct {
	n, splits int
	endless   bool
	f         func(i int) (T, element.Time)
	poll      func(ctx context.Context, i int) error // before each record; may block
	bad       func(i int) error                      // the record cannot be decoded
	openErr   error
	assignErr error
}

func (s *counted[T]) Bounded() bool { return !s.endless }

func (s *counted[T]) OpenEnumerator(context.Context, int, []byte) (connector.Enumerator, error) {
	return &countedEnumerator{n: s.n, splits: max(1, s.splits), endless: s.endless}, nil
}

type countedEnumerator struct {
	n, splits int
	endless   bool
	done      bool
}

func (e *countedEnumerator) Next(ctx context.Context) ([]connector.Split, error) {
	if e.done {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	e.done = true
	var out []connector.Split
	for i := range e.splits {
		from, to := i*e.n/e.splits, (i+1)*e.n/e.splits
		out = append(out, connector.Split{ID: strconv.Itoa(i), Data: fmt.Appendf(nil, "%d %d", from, to)})
	}
	if e.endless {
		return out, nil
	}
	return out, io.EOF
}

func (e *countedEnumerator) Snapshot(element.CheckpointID) ([]byte, error) { return nil, nil }
func (e *countedEnumerator) Close() error                                  { return nil }

func (s *counted[T]) OpenReader(context.Context, *connector.Task) (connector.Reader[T], error) {
	if s.openErr != nil {
		return nil, s.openErr
	}
	return &countedReader[T]{s: s}, nil
}

type countedReader[T any] struct {
	s      *counted[T]
	splits []countedSplit
	ids    []string
	at     int
}

type countedSplit struct{ next, end int }

func (r *countedReader[T]) Assign(splits []connector.Split) error {
	if r.s.assignErr != nil {
		return r.s.assignErr
	}
	for _, sp := range splits {
		var c countedSplit
		if _, err := fmt.Sscanf(string(sp.Data), "%d %d", &c.next, &c.end); err != nil {
			return err
		}
		r.splits, r.ids = append(r.splits, c), append(r.ids, sp.ID)
	}
	return nil
}

func (r *countedReader[T]) Poll(ctx context.Context, out *connector.Records[T]) error {
	for ; r.at < len(r.splits); r.at++ {
		sp := &r.splits[r.at]
		for sp.next < sp.end {
			if out.Full() || r.s.poll != nil && (ctx.Err() != nil || len(out.Vals) > 0) {
				return nil
			}
			i := sp.next
			if r.s.poll != nil {
				if err := r.s.poll(ctx, i); err != nil {
					return err
				}
				if ctx.Err() != nil {
					return nil
				}
			}
			sp.next++
			if r.s.bad != nil {
				if err := r.s.bad(i); err != nil {
					out.AddError(connector.SplitIndex(r.at), nil, int64(i), err)
					continue
				}
			}
			v, at := r.s.f(i)
			out.Add(connector.SplitIndex(r.at), v, at, int64(i))
		}
		out.Finish(connector.SplitIndex(r.at))
	}
	if r.s.endless {
		<-ctx.Done()
		return nil
	}
	return io.EOF
}

func (r *countedReader[T]) Describe(s connector.SplitIndex, pos int64) string {
	return fmt.Sprintf("row %d of split %d", pos, s)
}
func (r *countedReader[T]) Snapshot(element.CheckpointID) (out []connector.Split, _ error) {
	for i := r.at; i < len(r.splits); i++ {
		out = append(out, connector.Split{ID: r.ids[i], Data: fmt.Appendf(nil, "%d %d", r.splits[i].next, r.splits[i].end)})
	}
	return out, nil
}
func (r *countedReader[T]) Committed(context.Context, element.CheckpointID) error { return nil }
func (r *countedReader[T]) Close() error                                          { return nil }

func ints(n int) *counted[int] {
	return &counted[int]{n: n, f: func(i int) (int, element.Time) { return i, element.Time(i) }}
}

// ---------------------------------------------------------------- a sink

// collected is a committing sink that keeps everything in memory: what is written, what is prepared, what is visible.
type collected[T any] struct {
	write   func(v T, at element.Time) error
	prepare func() error
	opened  func(t *connector.Task)

	mu       sync.Mutex
	writers  []*collectedWriter[T]
	prepared map[string][]T
	visible  map[string][]T
	aborted  []string
	calls    []string // of the committer
	outcome  func(c connector.Committable) connector.CommitResult
}

func (s *collected[T]) Guarantee() connector.Guarantee { return connector.ExactlyOnce }

func (s *collected[T]) OpenWriter(_ context.Context, t *connector.Task, _ [][]byte) (connector.Writer[T], error) {
	if s.opened != nil {
		s.opened(t)
	}
	w := &collectedWriter[T]{s: s, task: t}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writers = append(s.writers, w)
	return w, nil
}

type collectedWriter[T any] struct {
	s     *collected[T]
	task  *connector.Task
	vals  []T
	times []element.Time
	calls []string
}

func (w *collectedWriter[T]) Write(_ context.Context, v T, at element.Time) error {
	if w.s.write != nil {
		if err := w.s.write(v, at); err != nil {
			return err
		}
	}
	w.vals, w.times = append(w.vals, v), append(w.times, at)
	return nil
}

func (w *collectedWriter[T]) call(name string) { w.calls = append(w.calls, name) }

func (w *collectedWriter[T]) Flush(context.Context) error { w.call("flush"); return nil }
func (w *collectedWriter[T]) End(context.Context) error   { w.call("end"); return nil }

func (w *collectedWriter[T]) Prepare(_ context.Context, id element.CheckpointID) ([]connector.Committable, error) {
	w.call("prepare")
	if w.s.prepare != nil {
		if err := w.s.prepare(); err != nil {
			return nil, err
		}
	}
	name := fmt.Sprintf("%d/%d/%d", w.task.Subtask, w.task.RegionEpoch, id)
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if w.s.prepared == nil {
		w.s.prepared = map[string][]T{}
	}
	w.s.prepared[name] = w.vals
	return []connector.Committable{{Data: []byte(name)}}, nil
}
func (w *collectedWriter[T]) Snapshot(element.CheckpointID) ([]byte, error) { return nil, nil }
func (w *collectedWriter[T]) Close() error                                  { w.call("close"); return nil }

// written is everything that any writer got.
func (s *collected[T]) written() (out []T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.writers {
		out = append(out, w.vals...)
	}
	return out
}

func (s *collected[T]) committer(_ context.Context, t *connector.Task) (connector.Committer, error) {
	return &collectedCommitter[T]{s: s, task: t}, nil
}

type collectedCommitter[T any] struct {
	s    *collected[T]
	task *connector.Task
}

func (c *collectedCommitter[T]) Commit(_ context.Context, cs []connector.Committable) (out []connector.CommitResult, err error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.calls = append(c.s.calls, "commit")
	if c.s.visible == nil {
		c.s.visible = map[string][]T{}
	}
	for _, x := range cs {
		name := string(x.Data)
		switch _, done := c.s.visible[name]; {
		case c.s.outcome != nil && c.s.outcome(x) != connector.Committed:
			out = append(out, c.s.outcome(x))
		case done:
			out = append(out, connector.AlreadyCommitted)
		default:
			c.s.visible[name] = c.s.prepared[name]
			out = append(out, connector.Committed)
		}
	}
	return out, nil
}

func (c *collectedCommitter[T]) Abort(_ context.Context, cs []connector.Committable) error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	for _, x := range cs {
		delete(c.s.prepared, string(x.Data))
		c.s.aborted = append(c.s.aborted, string(x.Data))
	}
	return nil
}

func (c *collectedCommitter[T]) AbortUnknown(context.Context, []connector.Committable) error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.calls = append(c.s.calls, fmt.Sprintf("abort-unknown %d#%d", c.task.Subtask, c.task.Attempt))
	return nil
}
func (c *collectedCommitter[T]) Close() error { return nil }

// ---------------------------------------------------------------- stages

func mapped[In, Out any](f func(In) Out) Stage {
	return StageOf[In, Out](func(_ *Runtime, out Push[Out]) (Push[In], Operator, error) {
		return func(v In) { out(f(v)) }, Base{}, nil
	})
}

func filtered[T any](f func(T) bool) Stage {
	return StageOf[T, T](func(_ *Runtime, out Push[T]) (Push[T], Operator, error) {
		return func(v T) {
			if f(v) {
				out(v)
			}
		}, Base{}, nil
	})
}

func flatMapped[In, Out any](f func(In, func(Out))) Stage {
	return StageOf[In, Out](func(_ *Runtime, out Push[Out]) (Push[In], Operator, error) {
		emit := (func(Out))(out)
		return func(v In) { f(v, emit) }, Base{}, nil
	})
}

// ---------------------------------------------------------------- a job

// job builds a program and its plan for tests: every operator in a chain of its own unless it is chained.
type job struct {
	t     testing.TB
	prog  *Program
	plan  *jobpb.Plan
	chain []int32 // by operator
}

func newJob(t testing.TB) *job {
	g := &jobpb.Graph{Name: "job", MaxParallelism: 128}
	return &job{t: t, prog: &Program{Graph: g}, plan: &jobpb.Plan{Graph: g}}
}

func (j *job) add(o *jobpb.Operator, n Node) int32 {
	j.prog.Graph.Operators = append(j.prog.Graph.Operators, o)
	j.prog.Nodes = append(j.prog.Nodes, n)
	return int32(len(j.prog.Nodes) - 1)
}

func (j *job) open(op int32, parallelism int) {
	j.chain = append(j.chain, int32(len(j.plan.Chains)))
	j.plan.Chains = append(j.plan.Chains, &jobpb.Chain{
		Index: int32(len(j.plan.Chains)), Operators: []int32{op}, Parallelism: int32(parallelism), Name: j.prog.Graph.Operators[op].Id,
	})
}

func (j *job) source(id string, parallelism int, h SourceHead) int32 {
	op := j.add(&jobpb.Operator{Id: id, Kind: "source", Bounded: h.Bounded()}, Node{Source: h})
	j.open(op, parallelism)
	return op
}

// then chains an operator behind from.
func (j *job) then(from int32, id string, st Stage) int32 {
	op := j.add(&jobpb.Operator{Id: id, Kind: "op", Inputs: []*jobpb.Input{{Operator: from}}}, Node{Stages: []Stage{st}, Exchanges: []Exchange{nil}})
	c := j.chain[from]
	j.chain = append(j.chain, c)
	j.plan.Chains[c].Operators = append(j.plan.Chains[c].Operators, op)
	return op
}

// end is an input that is an edge.
type end struct {
	from   int32
	by     jobpb.Partitioner
	x      Exchange
	st     Stage
	stored bool
	phase  int32
	gated  bool
}

// join puts an operator behind edges.
func (j *job) join(id string, parallelism int, ends ...end) int32 {
	o := &jobpb.Operator{Id: id, Kind: "op"}
	var n Node
	for _, e := range ends {
		o.Inputs = append(o.Inputs, &jobpb.Input{Operator: e.from, Partitioner: e.by, Phase: e.phase, Gated: e.gated})
		n.Stages = append(n.Stages, e.st)
		n.Exchanges = append(n.Exchanges, e.x)
	}
	op := j.add(o, n)
	j.open(op, parallelism)
	for i, e := range ends {
		kind := jobpb.ExchangeKind_EXCHANGE_PIPELINED
		if e.stored {
			kind = jobpb.ExchangeKind_EXCHANGE_BLOCKING
		}
		j.plan.Edges = append(j.plan.Edges, &jobpb.Edge{
			Index: int32(len(j.plan.Edges)), FromOperator: e.from, ToOperator: op, Input: int32(i),
			FromChain: j.chain[e.from], ToChain: j.chain[op], Partitioner: e.by, Exchange: kind,
		})
	}
	return op
}

// finish puts all subtasks into one region.
func (j *job) finish() {
	r := &jobpb.Region{}
	for _, c := range j.plan.Chains {
		r.Subtasks = append(r.Subtasks, &jobpb.SubtaskRange{Chain: c.Index, Count: c.Parallelism})
	}
	j.plan.Regions = []*jobpb.Region{r}
	j.plan.Fingerprint = graph.Fingerprint(j.prog.Graph)
}

// deployment runs every subtask in process 1.
func (j *job) deployment(attempt uint32, epoch uint64) *taskpb.Deployment {
	j.finish()
	d := &taskpb.Deployment{Job: "job-1", JobEpoch: 1, Process: 1, Plan: j.plan}
	for _, c := range j.plan.Chains {
		for i := range c.Parallelism {
			s := &taskpb.SubtaskDeployment{Chain: c.Index, Index: i, Attempt: attempt, RegionEpoch: epoch}
			if i == 0 && j.prog.Nodes[c.Operators[0]].Source != nil {
				s.Enumerate = []int32{c.Operators[0]}
			}
			d.Subtasks = append(d.Subtasks, s)
			d.Locations = append(d.Locations, &taskpb.Location{
				Chain: c.Index, Index: i, Attempt: attempt, RegionEpoch: epoch, Worker: "w", Process: 1,
			})
		}
	}
	return d
}

// copied is a deployment that shares nothing with the job.
func (j *job) copied(attempt uint32, epoch uint64) *taskpb.Deployment {
	return proto.CloneOf(j.deployment(attempt, epoch))
}

// ---------------------------------------------------------------- a host

// host answers split requests like a coordinator would, and keeps the reports.
type host struct {
	*splitTable
	t       testing.TB
	proc    *Process
	updates chan *taskpb.SubtaskUpdate
	failed  chan *jobpb.Failure
	acks    chan *snapshotpb.Ack
}

func (h *host) Update(u *taskpb.SubtaskUpdate) { h.updates <- u }
func (h *host) Failed(f *jobpb.Failure)        { h.failed <- f }
func (h *host) Ack(a *snapshotpb.Ack)          { h.acks <- a }

func (h *host) SplitsDiscovered(d *taskpb.SplitsDiscovered) { h.discovered(d) }
func (h *host) RequestSplits(r *taskpb.SplitRequest)        { h.request(question{r, h.proc}) }

// splitTable is what the hosts of a job have in common: who has got which splits.
type splitTable struct {
	mute  func(*taskpb.SplitRequest) bool // drops a request
	heard func(*taskpb.SplitsDiscovered)
	all   bool // gives every split to the first who asks
	// keeps: an assignment is for good, as those of a bounded source are. An attempt that runs again gets the splits of the
	// one before it.
	keeps bool

	mu      sync.Mutex
	splits  map[int32][]*jobpb.Split
	ended   map[int32]bool
	next    map[int32]int
	given   map[string][]*jobpb.Split // by operator, subtask and attempt
	waiting []question
}

type question struct {
	*taskpb.SplitRequest
	from *Process
}

func newSplitTable() *splitTable {
	return &splitTable{
		splits: map[int32][]*jobpb.Split{}, ended: map[int32]bool{}, next: map[int32]int{}, given: map[string][]*jobpb.Split{},
	}
}

func (s *splitTable) discovered(d *taskpb.SplitsDiscovered) {
	s.mu.Lock()
	if s.heard != nil {
		s.heard(d)
	}
	known := len(s.splits[d.Operator]) - int(d.Offset)
	if known >= 0 && known <= len(d.Splits) {
		s.splits[d.Operator] = append(s.splits[d.Operator], d.Splits[known:]...)
	}
	s.ended[d.Operator] = s.ended[d.Operator] || d.End
	waiting := s.waiting
	s.waiting = nil
	s.mu.Unlock()
	for _, q := range waiting {
		s.request(q)
	}
}

func (s *splitTable) request(q question) {
	s.mu.Lock()
	if s.mute != nil && s.mute(q.SplitRequest) {
		s.mu.Unlock()
		return
	}
	key := fmt.Sprint(q.Operator, "/", q.Index, "#", q.Attempt)
	if s.keeps {
		key = fmt.Sprint(q.Operator, "/", q.Index)
	}
	for all := s.splits[q.Operator]; len(s.given[key]) <= int(q.Have) && s.next[q.Operator] < len(all); {
		n := 1
		if s.all {
			n = len(all) - s.next[q.Operator]
		}
		s.given[key] = append(s.given[key], all[s.next[q.Operator]:s.next[q.Operator]+n]...)
		s.next[q.Operator] += n
	}
	answer := &taskpb.AssignSplits{
		Job: "job-1", Process: 1, Operator: q.Operator, Chain: q.Chain, Index: q.Index, Attempt: q.Attempt, RegionEpoch: q.RegionEpoch,
		Offset: q.Have, Splits: s.given[key][q.Have:],
		End: s.ended[q.Operator] && s.next[q.Operator] == len(s.splits[q.Operator]),
	}
	if len(answer.Splits) == 0 && !answer.End {
		s.waiting = append(s.waiting, q)
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	q.from.AssignSplits(answer)
}

// restart forgets who has got which splits, as the coordinator does when a region restarts.
func (s *splitTable) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.next)
	clear(s.given)
	s.waiting = nil
}

// cluster runs a process with its network.
type cluster struct {
	*host
	job  *job
	proc *Process
	stop func() error // and waits
	cut  func()       // ends the network
	fs   *vfs.Mem     // of stored results
	disk *stored.Store
}

func start(t testing.TB, j *job, change ...func(*Config)) *cluster {
	return startProcess(t, j, newSplitTable(), shuffle.NetworkConfig{Process: 1}, change...)
}

func startProcess(t testing.TB, j *job, table *splitTable, nc shuffle.NetworkConfig, change ...func(*Config)) *cluster {
	nc.Job, nc.Memory = "job-1", 64<<20
	n, err := shuffle.NewNetwork(nc)
	if err != nil {
		t.Fatal(err)
	}
	fsys := vfs.NewMem()
	disk, err := stored.Open(fsys, "results")
	if err != nil {
		t.Fatal(err)
	}
	results, err := stored.NewExchange(stored.Config{Store: disk, Memory: n.Account()})
	if err != nil {
		t.Fatal(err)
	}
	h := &host{splitTable: table, t: t, updates: make(chan *taskpb.SubtaskUpdate, 10_000), failed: make(chan *jobpb.Failure, 100), acks: make(chan *snapshotpb.Ack, 10_000)}
	cfg := Config{Program: j.prog, Job: "job-1", Worker: "w", Process: nc.Process, Network: n, Results: results, Host: h}
	for _, f := range change {
		f(&cfg)
	}
	p, err := NewProcess(cfg)
	if err != nil {
		t.Fatal(err)
	}
	h.proc = p
	ctx, cancel := context.WithCancel(context.Background())
	netCtx, netCancel := context.WithCancel(context.Background())
	network, process := run.NewGroup(netCtx, "network"), run.NewGroup(ctx, "process")
	network.Go("network", n.Run)
	network.Go("results", results.Run)
	process.Go("process", p.Run)
	c := &cluster{host: h, job: j, proc: p, cut: netCancel, fs: fsys, disk: disk}
	c.stop = sync.OnceValue(func() error {
		cancel()
		err := process.Wait()
		netCancel()
		return errors.Join(err, network.Wait())
	})
	t.Cleanup(func() {
		if err := c.stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// await reads updates until n attempts have ended, and returns the last update of each.
func (c *cluster) await(n int) []*taskpb.SubtaskUpdate {
	var out []*taskpb.SubtaskUpdate
	for len(out) < n {
		if u := <-c.updates; u.State != jobpb.SubtaskState_SUBTASK_RUNNING {
			out = append(out, u)
		}
	}
	return out
}

// awaitRunning reads updates until n attempts run.
func (c *cluster) awaitRunning(n int) {
	for n > 0 {
		if u := <-c.updates; u.State == jobpb.SubtaskState_SUBTASK_RUNNING {
			n--
		} else if u.State != jobpb.SubtaskState_SUBTASK_FINISHING {
			c.t.Fatalf("unexpected %v: %v", u.State, u.Failure)
		}
	}
}

// finished deploys j and waits until every subtask has finished.
func finished(t testing.TB, j *job) []*taskpb.SubtaskUpdate {
	t.Helper()
	c := start(t, j)
	d := j.deployment(1, 1)
	if err := c.proc.Deploy(d); err != nil {
		t.Fatal(err)
	}
	us := c.await(len(d.Subtasks))
	for _, u := range us {
		if u.State != jobpb.SubtaskState_SUBTASK_FINISHED {
			t.Fatalf("chain %d subtask %d: %v %v", u.Chain, u.Index, u.State, u.Failure)
		}
	}
	if err := c.stop(); err != nil {
		t.Fatal(err)
	}
	return us
}

func mustCodec[T any](t testing.TB) *codec.Codec[T] {
	c, err := codec.Of[T](nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func mustHash[K comparable](t testing.TB) func(K) uint64 {
	h, err := codec.Hasher[K]()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func sorted[T int | string](vs []T) []T {
	out := slices.Clone(vs)
	slices.Sort(out)
	return out
}

var errTest = errors.New("test failure")
