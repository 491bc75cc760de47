package task

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/shuffle"
	"github.com/sluiceio/sluice/snapshot"
	"github.com/sluiceio/sluice/snapshot/mem"
	tables "github.com/sluiceio/sluice/worker/state"
)

// ---------------------------------------------------------------- what a job with checkpoints is made of

// tap lets the records of sources below a limit pass.
type tap struct {
	mu    sync.Mutex
	limit int
	moved chan struct{}
}

func newTap() *tap { return &tap{moved: make(chan struct{})} }

func (s *tap) open(limit int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = limit
	close(s.moved)
	s.moved = make(chan struct{})
}

// pass waits for record i, or for a letter.
func (s *tap) pass(ctx context.Context, i int) error {
	for {
		s.mu.Lock()
		limit, moved := s.limit, s.moved
		s.mu.Unlock()
		if i < limit {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return nil
		}
	}
}

// tally counts records by key, in keyed state, and emits each count.
func tally(keys int) StageOf[int, string] {
	return func(rt *Runtime, out Push[string]) (Push[int], Operator, error) {
		d, err := tables.NewDirectory[int](rt.Options("counts", nil))
		if err != nil {
			return nil, nil, err
		}
		n, err := tables.ValueOf[int](d, "n")
		if err != nil {
			return nil, nil, err
		}
		rt.Keep(d.Table())
		return func(v int) {
			d.Seek(v%keys, d.Hash(v%keys))
			n.Set(n.Get() + 1)
			out(fmt.Sprint(v%keys, ":", n.Get()))
		}, Base{}, nil
	}
}

// exact is a sink whose output is seen when it was committed. It keeps what was prepared, over the death of processes.
type exact struct {
	mu       sync.Mutex
	prepared map[string][]string
	visible  map[string][]string
}

func (s *exact) Guarantee() connector.Guarantee { return connector.ExactlyOnce }

func (s *exact) OpenWriter(_ context.Context, t *connector.Task, _ [][]byte) (connector.Writer[string], error) {
	return &exactWriter{s: s, t: t}, nil
}

func (s *exact) OpenCommitter(_ context.Context, t *connector.Task) (connector.Committer, error) {
	return &exactCommitter{s, t}, nil
}

type exactWriter struct {
	s    *exact
	t    *connector.Task
	vals []string
}

func (w *exactWriter) Write(_ context.Context, v string, _ element.Time) error {
	w.vals = append(w.vals, v)
	return nil
}
func (w *exactWriter) Flush(context.Context) error { return nil }
func (w *exactWriter) End(context.Context) error   { return nil }
func (w *exactWriter) Prepare(_ context.Context, id element.CheckpointID) ([]connector.Committable, error) {
	if len(w.vals) == 0 {
		return nil, nil
	}
	name := fmt.Sprintf("%d/%d/%d", w.t.Subtask, w.t.RegionEpoch, id)
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	w.s.prepared[name], w.vals = w.vals, nil
	return []connector.Committable{{Data: []byte(name)}}, nil
}
func (w *exactWriter) Snapshot(element.CheckpointID) ([]byte, error) { return nil, nil }
func (w *exactWriter) Close() error                                  { return nil }

type exactCommitter struct {
	s *exact
	t *connector.Task
}

func (c *exactCommitter) Commit(_ context.Context, cs []connector.Committable) (out []connector.CommitResult, _ error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	for _, x := range cs {
		vals, there := c.s.prepared[string(x.Data)]
		switch {
		case there:
			c.s.visible[string(x.Data)] = vals
			delete(c.s.prepared, string(x.Data))
			out = append(out, connector.Committed)
		case c.s.visible[string(x.Data)] != nil:
			out = append(out, connector.AlreadyCommitted)
		default:
			out = append(out, connector.Lost)
		}
	}
	return out, nil
}
func (c *exactCommitter) Abort(context.Context, []connector.Committable) error { return nil }
func (c *exactCommitter) AbortUnknown(_ context.Context, keep []connector.Committable) error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	for name := range c.s.prepared {
		var subtask, epoch, id int
		_, _ = fmt.Sscanf(name, "%d/%d/%d", &subtask, &epoch, &id)
		kept := slices.ContainsFunc(keep, func(k connector.Committable) bool { return string(k.Data) == name })
		if subtask == c.t.Subtask && epoch < int(c.t.RegionEpoch) && !kept {
			delete(c.s.prepared, name)
		}
	}
	return nil
}
func (c *exactCommitter) Close() error { return nil }

// output is what was committed, sorted.
func (s *exact) output() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Values(s.visible))...)))
}

// counts is what tally makes of the numbers below n.
func counts(n, keys int) []string {
	var out []string
	for v := range n {
		out = append(out, fmt.Sprint(v%keys, ":", v/keys+1))
	}
	slices.Sort(out)
	return out
}

// ---------------------------------------------------------------- a leader

// leader drives the checkpoints of one region, as the coordinator would.
type leader struct {
	t     testing.TB
	job   *job
	store *mem.Store
	table *splitTable
	*cluster
	epoch    uint64
	last     uint64 // id issued
	manifest *snapshotpb.Manifest
	stored   *jobpb.StoredObject
	objects  []*jobpb.StoredObject
	unseen   []*jobpb.Committable // of completed checkpoints, not committed
	running  int
}

func lead(t testing.TB, j *job) *leader {
	l := &leader{t: t, job: j, store: mem.New(), table: newSplitTable()}
	l.table.keeps = true
	l.deploy()
	return l
}

// deploy starts everything that the newest checkpoint does not call finished, in a fresh process.
func (l *leader) deploy() {
	l.epoch++
	l.cluster = startProcess(l.t, l.job, l.table, shuffle.NetworkConfig{Process: 1}, func(c *Config) { c.Stores = snapshot.Shared(l.store) })
	d := l.job.deployment(uint32(l.epoch), l.epoch)
	l.job.plan.Regions[0].Checkpointed = true
	over := map[subtaskID]bool{}
	for _, s := range l.manifest.GetSubtasks() {
		over[subtaskID{s.Chain, s.Index}] = s.Status == snapshotpb.SubtaskStatus_FINISHED
	}
	d.Subtasks = slices.DeleteFunc(d.Subtasks, func(s *taskpb.SubtaskDeployment) bool { return over[subtaskID{s.Chain, s.Index}] })
	for _, x := range d.Locations {
		x.Finished = over[subtaskID{x.Chain, x.Index}]
	}
	for _, s := range d.Subtasks {
		s.Checkpointed = true
		for _, op := range s.Enumerate {
			if n := len(l.table.splits[op]); n > 0 {
				s.Enumerators = append(s.Enumerators, &taskpb.EnumeratorState{Operator: op, Offset: int32(n)})
			}
		}
		if l.manifest != nil {
			s.Restore = l.manifest.Checkpoint
		}
	}
	if l.manifest != nil {
		d.Restore = &taskpb.Restore{Checkpoint: l.manifest.Checkpoint, Manifest: l.stored, Objects: l.objects}
	}
	l.running = len(d.Subtasks)
	if err := l.proc.Deploy(d); err != nil {
		l.t.Fatal(err)
	}
	l.awaitRunning(l.running)
}

// kill ends the process, with all that is in it, and starts another one.
func (l *leader) kill() {
	if err := l.stop(); err != nil {
		l.t.Fatal(err)
	}
	l.deploy()
}

func (l *leader) regions() []*taskpb.RegionEpoch { return []*taskpb.RegionEpoch{{Epoch: l.epoch}} }

// trigger begins a checkpoint and waits for the answers of all.
func (l *leader) trigger() (acks []*snapshotpb.Ack) {
	l.begin()
	for len(acks) < l.running {
		if a := l.ack(); a.Checkpoint == l.last {
			acks = append(acks, a)
		}
	}
	return acks
}

func (l *leader) begin() {
	l.last++
	l.proc.Trigger(&taskpb.Trigger{
		Job: "job-1", JobEpoch: 1, Process: 1, Checkpoint: l.last, Kind: jobpb.CheckpointKind_CHECKPOINT_PERIODIC,
		Regions: l.regions(), Copies: 1, Completed: l.manifest.GetCheckpoint(),
	})
}

func (l *leader) ack() *snapshotpb.Ack {
	for {
		select {
		case a := <-l.acks:
			return a
		case u := <-l.updates:
			if u.State == jobpb.SubtaskState_SUBTASK_FAILED {
				l.t.Fatalf("chain %d, subtask %d failed: %v", u.Chain, u.Index, u.Failure)
			}
		}
	}
}

// complete makes a manifest of the answers and tells everybody. It returns how many subtasks have finished by it.
func (l *leader) complete(acks []*snapshotpb.Ack) (finished int) {
	l.t.Helper()
	in := snapshot.ComposeInput{Job: "job-1", JobEpoch: 1, Checkpoint: l.last, Kind: jobpb.CheckpointKind_CHECKPOINT_PERIODIC, Plan: l.job.plan, Regions: []int32{0}}
	for _, a := range acks {
		if a.Declined != nil {
			l.t.Fatalf("declined: %v", a.Declined)
		}
		if err := snapshot.CheckAck(a, l.job.plan); err != nil {
			l.t.Fatalf("acknowledgement %v: %v", a, err)
		}
		in.Acks = append(in.Acks, snapshot.Acknowledged{Process: 1, Ack: a})
		for _, s := range a.Segments {
			if !slices.ContainsFunc(l.objects, func(o *jobpb.StoredObject) bool { return o.Object.Name == s.Object.Name }) {
				l.objects = append(l.objects, s)
			}
		}
		for _, o := range a.State.Operators {
			for _, c := range o.Committables {
				known := slices.ContainsFunc(l.unseen, func(k *jobpb.Committable) bool { return bytes.Equal(k.Data, c.Data) })
				if !known {
					l.unseen = append(l.unseen, c)
				}
			}
		}
		if a.State.Status == snapshotpb.SubtaskStatus_FINISHED {
			finished++
		}
	}
	m, err := snapshot.Compose(l.manifest, in)
	if err != nil {
		l.t.Fatal(err)
	}
	b, err := snapshot.EncodeManifest(m)
	if err != nil {
		l.t.Fatal(err)
	}
	o, err := l.store.Put(l.t.Context(), snapshot.Manifest("job-1", 1, l.last, 1), int64(len(b)), bytes.NewReader(b))
	if err != nil {
		l.t.Fatal(err)
	}
	l.manifest, l.stored = m, &jobpb.StoredObject{Object: o, Stores: []string{snapshot.SharedStore}}
	l.notice(false)
	return finished
}

func (l *leader) notice(aborted bool) {
	l.proc.Notice(&taskpb.CheckpointNotice{Job: "job-1", JobEpoch: 1, Process: 1, Checkpoint: l.last, Aborted: aborted, Regions: l.regions()})
}

// commit makes visible what completed checkpoints have.
func (l *leader) commit() {
	l.t.Helper()
	for range 2 { // twice is once
		if r := l.proc.Commit(l.t.Context(), &taskpb.Commit{Job: "job-1", JobEpoch: 1, Process: 1, Checkpoint: l.last, Committables: l.unseen}); r.Failure != nil || r.Retry {
			l.t.Fatalf("commit: %v", r)
		}
	}
	l.unseen = nil
}

// end lets checkpoints complete until everything has finished.
func (l *leader) end() {
	l.t.Helper()
	for l.running > 0 {
		n := l.complete(l.trigger())
		for range n {
			for u := range l.updates {
				if u.State == jobpb.SubtaskState_SUBTASK_FAILED {
					l.t.Fatalf("failed: %v", u.Failure)
				}
				if u.State == jobpb.SubtaskState_SUBTASK_FINISHED {
					break
				}
			}
		}
		l.running -= n
		l.commit()
	}
}

// ---------------------------------------------------------------- tests

const testKeys = 7

func tallied(t testing.TB, n int) (*job, *tap, *exact) {
	j, s := newJob(t), newTap()
	out := &exact{prepared: map[string][]string{}, visible: map[string][]string{}}
	src := ints(n)
	src.splits, src.poll = 4, s.pass
	from := j.source("numbers", 2, NewSource[int](src, SourceOptions[int]{}))
	count := j.join("count", 2, end{
		from: from, by: jobpb.Partitioner_PARTITIONER_HASH, st: tally(testKeys),
		x: NewKeyedExchange(mustCodec[int](t), func(v int) int { return v % testKeys }, mustHash[int](t)),
	})
	sink := j.then(count, "out", NewSink[string](out))
	j.prog.Nodes[sink].Committer = out.OpenCommitter
	return j, s, out
}

// TestAKilledProcessGoesOnExactlyWhereItsCheckpointWas: checkpoints that complete, that are given up after they were
// acknowledged, and that are under way when the process dies.
func TestAKilledProcessGoesOnExactlyWhereItsCheckpointWas(t *testing.T) {
	const n = 4000
	j, s, out := tallied(t, n)
	l := lead(t, j)
	s.open(300)
	l.complete(l.trigger())
	l.commit()
	s.open(1200)
	l.trigger()
	l.notice(true) // PROTOCOL 4: what it had is in the next one, too
	s.open(1500)
	l.complete(l.trigger())
	l.kill() // its output is not committed yet, and must not be lost
	s.open(2500)
	l.trigger() // everything is acknowledged, and nobody will ever complete it
	s.open(3000)
	l.begin()
	l.kill()
	l.complete(l.trigger())
	s.open(n)
	l.kill()
	l.end()
	if got, want := out.output(), counts(n, testKeys); !slices.Equal(got, want) {
		t.Errorf("%d committed, want %d: %s", len(got), len(want), differing(got, want))
	}
}

func differing(got, want []string) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("at %d %s, want %s", i, got[i], want[i])
		}
	}
	return "one is longer"
}
