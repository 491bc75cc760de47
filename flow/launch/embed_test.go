package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/coordinator/plan"
	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/flow/launch/workdir"
	"github.com/sluiceio/sluice/flow/setting"
	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/shuffle"
	"github.com/sluiceio/sluice/worker/task"
)

// numbers is a source of the numbers below n, in splits. It counts how often each split was read.
type numbers struct {
	n, splits int
	endless   bool // it waits behind its last number
	together  int  // nothing is read before so many readers have a split; 0: nobody waits

	mu      sync.Mutex
	reads   map[string]int
	readers map[int]bool  // that have a split, by subtask
	all     chan struct{} // closed when they are enough; made by the first reader
}

// gathered is closed when as many readers have a split as have to.
func (s *numbers) gathered() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all, s.readers = make(chan struct{}), map[int]bool{}
		if s.together == 0 {
			close(s.all)
		}
	}
	return s.all
}

// arrive notes that a reader has a split.
func (s *numbers) arrive(subtask int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.readers[subtask] {
		if s.readers[subtask] = true; len(s.readers) == s.together {
			close(s.all)
		}
	}
}

func (s *numbers) Bounded() bool { return !s.endless }

func (s *numbers) OpenEnumerator(context.Context, int, []byte) (connector.Enumerator, error) {
	return &numbersEnumerator{s: s}, nil
}

type numbersEnumerator struct {
	s    *numbers
	done bool
}

func (e *numbersEnumerator) Next(ctx context.Context) ([]connector.Split, error) {
	if e.done {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	e.done = true
	var out []connector.Split
	for i := range e.s.splits {
		out = append(out, connector.Split{ID: strconv.Itoa(i), Data: fmt.Appendf(nil, "%d %d", i*e.s.n/e.s.splits, (i+1)*e.s.n/e.s.splits)})
	}
	if e.s.endless {
		return out, nil
	}
	return out, io.EOF
}
func (e *numbersEnumerator) Snapshot(element.CheckpointID) ([]byte, error) { return nil, nil }
func (e *numbersEnumerator) Close() error                                  { return nil }

func (s *numbers) OpenReader(_ context.Context, t *connector.Task) (connector.Reader[int], error) {
	return &numbersReader{s: s, subtask: t.Subtask, gathered: s.gathered()}, nil
}

type numbersReader struct {
	s        *numbers
	subtask  int
	gathered <-chan struct{}
	splits   [][2]int
	at       int
}

func (r *numbersReader) Assign(splits []connector.Split) error {
	for _, sp := range splits {
		var x [2]int
		if _, err := fmt.Sscan(string(sp.Data), &x[0], &x[1]); err != nil {
			return err
		}
		r.splits = append(r.splits, x)
		r.s.mu.Lock()
		if r.s.reads == nil {
			r.s.reads = map[string]int{}
		}
		r.s.reads[sp.ID]++
		r.s.mu.Unlock()
	}
	if len(splits) > 0 {
		r.s.arrive(r.subtask)
	}
	return nil
}

func (r *numbersReader) Poll(ctx context.Context, out *connector.Records[int]) error {
	select {
	case <-r.gathered:
	case <-ctx.Done():
		return nil // a letter has come
	}
	for ; r.at < len(r.splits); r.at++ {
		x := &r.splits[r.at]
		for ; x[0] < x[1]; x[0]++ {
			if out.Full() {
				return nil
			}
			out.Add(connector.SplitIndex(r.at), x[0], element.Time(x[0]), int64(x[0]))
		}
		out.Finish(connector.SplitIndex(r.at))
	}
	return io.EOF
}
func (r *numbersReader) Describe(_ connector.SplitIndex, pos int64) string {
	return fmt.Sprint("number ", pos)
}
func (r *numbersReader) Snapshot(element.CheckpointID) ([]connector.Split, error) { return nil, nil }
func (r *numbersReader) Committed(context.Context, element.CheckpointID) error    { return nil }
func (r *numbersReader) Close() error                                             { return nil }

// kept is a sink that commits in memory.
type kept struct {
	mu      sync.Mutex
	parts   map[string][]string
	visible []string
}

func (k *kept) Guarantee() connector.Guarantee { return connector.ExactlyOnce }
func (k *kept) OpenWriter(_ context.Context, t *connector.Task, _ [][]byte) (connector.Writer[string], error) {
	return &keptWriter{k: k, task: t}, nil
}
func (k *kept) OpenCommitter(context.Context, *connector.Task) (connector.Committer, error) {
	return k, nil
}
func (k *kept) Close() error                                                { return nil }
func (k *kept) Abort(context.Context, []connector.Committable) error        { return nil }
func (k *kept) AbortUnknown(context.Context, []connector.Committable) error { return nil }

func (k *kept) Commit(_ context.Context, cs []connector.Committable) (out []connector.CommitResult, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range cs {
		k.visible = append(k.visible, k.parts[string(c.Data)]...)
		delete(k.parts, string(c.Data))
		out = append(out, connector.Committed)
	}
	return out, nil
}

type keptWriter struct {
	connector.NoCommit
	k    *kept
	task *connector.Task
	vals []string
}

func (w *keptWriter) Write(_ context.Context, v string, _ element.Time) error {
	w.vals = append(w.vals, v)
	return nil
}
func (w *keptWriter) Flush(context.Context) error { return nil }
func (w *keptWriter) End(context.Context) error   { return nil }
func (w *keptWriter) Close() error                { return nil }
func (w *keptWriter) Prepare(_ context.Context, id element.CheckpointID) ([]connector.Committable, error) {
	name := fmt.Sprint(w.task.Subtask, "/", w.task.RegionEpoch, "/", id)
	w.k.mu.Lock()
	defer w.k.mu.Unlock()
	if w.k.parts == nil {
		w.k.parts = map[string][]string{}
	}
	w.k.parts[name] = w.vals
	return []connector.Committable{{Data: []byte(name)}}, nil
}

// counting emits, at the end, how often each key came, and at its first record calls begin.
func counting(begin func(t *connector.Task) error) task.Stage {
	return task.StageOf[int, string](func(rt *task.Runtime, out task.Push[string]) (task.Push[int], task.Operator, error) {
		o := &counter{counts: map[int]int{}, out: out}
		begun := false
		return func(v int) {
			if !begun {
				begun = true
				if err := begin(rt.Task); err != nil {
					rt.Fail(err)
				}
			}
			o.counts[v%10]++
		}, o, nil
	})
}

type counter struct {
	task.Base
	counts map[int]int
	out    task.Push[string]
}

func (o *counter) Finish() error {
	for _, k := range slices.Sorted(maps.Keys(o.counts)) {
		o.out(fmt.Sprint(k, ":", o.counts[k]))
	}
	return nil
}

// stages is numbers → (by key) → count → (rebalance) → sink: three stages where exchanges are blocking.
func stages(t *testing.T, src *numbers, begin func(*connector.Task) error) (*task.Program, *kept) {
	t.Helper()
	ints, err := codec.Of[int](codec.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	texts, err := codec.Of[string](codec.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	hash, err := codec.Hasher[int]()
	if err != nil {
		t.Fatal(err)
	}
	sink := &kept{}
	g := &jobpb.Graph{Name: "stages", MaxParallelism: 128, Operators: []*jobpb.Operator{
		{Id: "numbers", Kind: "source", Bounded: true},
		{Id: "count", Kind: "count", Bounded: true, Inputs: []*jobpb.Input{{Operator: 0, Partitioner: jobpb.Partitioner_PARTITIONER_HASH, KeySchema: "int"}}},
		{Id: "out", Kind: "sink", Bounded: true, Guarantee: jobpb.Guarantee_GUARANTEE_EXACTLY_ONCE, Inputs: []*jobpb.Input{{Operator: 1, Partitioner: jobpb.Partitioner_PARTITIONER_REBALANCE}}},
	}}
	return &task.Program{Graph: g, Nodes: []task.Node{
		{Source: task.NewSource(src, task.SourceOptions[int]{})},
		{Stages: []task.Stage{counting(begin)}, Exchanges: []task.Exchange{task.NewKeyedExchange(ints, func(v int) int { return v % 10 }, hash)}},
		{Stages: []task.Stage{task.NewSink(sink)}, Exchanges: []task.Exchange{task.NewExchange(texts)}, Committer: sink.OpenCommitter},
	}}, sink
}

func nothing(*connector.Task) error { return nil }

// counts is what stages gives of n numbers.
func counts(n int) (out []string) {
	for k := range 10 {
		out = append(out, fmt.Sprint(k, ":", n/10))
	}
	return out
}

func embed(t *testing.T, prog *task.Program, settings map[string]string) *jobpb.Job {
	t.Helper()
	job, err := Embed(t.Context(), prog, Embedding{Name: "stages", Settings: settings, Slots: 2})
	if err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "*")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %q %v", left, err)
	}
	return job
}

func TestAnEmbeddedJobGivesTheSameInEveryModeAndSchedule(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for _, mode := range []string{"auto", "streaming", "batch"} {
		for _, schedule := range []string{"region", "eager", "lazy"} {
			for _, parallelism := range []string{"1", "2", "4"} {
				t.Run(mode+"/"+schedule+"/"+parallelism, func(t *testing.T) {
					prog, sink := stages(t, &numbers{n: 10_000, splits: 7}, nothing)
					job := embed(t, prog, map[string]string{"mode": mode, "schedule": schedule, "parallelism": parallelism})
					slices.Sort(sink.visible)
					if job.Status != jobpb.JobStatus_JOB_FINISHED || !slices.Equal(sink.visible, counts(10_000)) {
						t.Errorf("%v %v: %q", job.Status, job.Failure, sink.visible)
					}
					if wide := job.Plan.Chains[0].Parallelism; strconv.Itoa(int(wide)) != parallelism {
						t.Errorf("parallelism %d", wide)
					}
				})
			}
		}
	}
}

// It would wait for its slots for ever.
func TestAJobThatIsTooWideForOneProcessIsRefused(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	prog, _ := stages(t, &numbers{n: 10, splits: 1}, nothing)
	_, err := Embed(t.Context(), prog, Embedding{Name: "stages", Settings: map[string]string{"parallelism": "4097"}, Slots: 2})
	bad, ok := errors.AsType[*PlanError](err)
	if !ok || bad.Diagnostics[0].Code != plan.CodeTooLarge || len(bad.Diagnostics[0].Hints) == 0 {
		t.Errorf("%v", err)
	}
}

var errOnce = errors.New("once")

// once fails the first call.
func once() func(*connector.Task) error {
	var first sync.Once
	return func(*connector.Task) (err error) {
		first.Do(func() { err = errOnce })
		return err
	}
}

// What was stored is read again: the stage in front of the one that failed has finished, and stays so.
func TestAStageThatFailsCostsNothingOfTheStageBefore(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	src := &numbers{n: 10_000, splits: 6}
	prog, sink := stages(t, src, once())
	job := embed(t, prog, map[string]string{"restart": "fixed(3,1ms)", "parallelism": "2"})
	slices.Sort(sink.visible)
	if job.Status != jobpb.JobStatus_JOB_FINISHED || job.Restarts != 1 || !slices.Equal(sink.visible, counts(10_000)) {
		t.Errorf("%v %v after %d restarts: %q", job.Status, job.Failure, job.Restarts, sink.visible)
	}
	for id, n := range src.reads {
		if n != 1 {
			t.Errorf("split %s was read %d times", id, n)
		}
	}
}

// A result that somebody has deleted is made again, by its producers alone.
func TestAResultThatIsLostIsMadeAgain(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	src := &numbers{n: 10_000, splits: 6, together: 2} // each reader has read something
	removed := 0
	var first sync.Once
	prog, sink := stages(t, src, func(*connector.Task) (err error) {
		first.Do(func() { // the results of the stage before are all there; whoever has them open reads on, the next attempt cannot
			files, _ := filepath.Glob(filepath.Join(os.TempDir(), "*", resultsDir, "*", "*", "e0-p1-*.data"))
			for _, f := range files {
				removed++
				err = errors.Join(err, os.Remove(f))
			}
			err = errors.Join(err, errOnce)
		})
		return err
	})
	job := embed(t, prog, map[string]string{"restart": "fixed(3,1ms)", "parallelism": "2"})
	slices.Sort(sink.visible)
	// If the other reader has not opened the file yet, its loss and the error make one restart.
	if removed != 1 || job.Status != jobpb.JobStatus_JOB_FINISHED || job.Losses+job.Restarts == 0 || !slices.Equal(sink.visible, counts(10_000)) {
		t.Errorf("%d files removed; %v %v, %d losses: %q", removed, job.Status, job.Failure, job.Losses, sink.visible)
	}
	again := 0
	for _, n := range src.reads {
		if n > 1 {
			again++
		}
	}
	if again == 0 || again == src.splits {
		t.Errorf("%d of %d splits were read again", again, src.splits)
	}
}

// What two stages have stored is gone together. The last stage notices what it reads itself; the rest is found with it, so that
// it does not cost a restart of its own.
func TestResultsOfSeveralStagesThatAreLostTogetherAreMadeAgainTogether(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	prog, sink := stages(t, &numbers{n: 10_000, splits: 6, together: 2}, nothing)
	var first sync.Once
	removed := 0
	prog.Nodes[2].Stages[0] = failing(prog.Nodes[2].Stages[0], func() (err error) {
		first.Do(func() {
			files, _ := filepath.Glob(filepath.Join(os.TempDir(), "*", resultsDir, "*", "*", "e*-p*.data"))
			for _, f := range files {
				removed++
				err = errors.Join(err, os.Remove(f))
			}
			err = errors.Join(err, errOnce)
		})
		return err
	})
	job := embed(t, prog, map[string]string{"restart": "fixed(3,1ms)", "parallelism": "2"})
	slices.Sort(sink.visible)
	if removed != 4 || job.Status != jobpb.JobStatus_JOB_FINISHED || job.Restarts != 1 || job.Losses > 1 || !slices.Equal(sink.visible, counts(10_000)) {
		t.Errorf("%d files removed; %v %v, %d restarts, %d losses: %q", removed, job.Status, job.Failure, job.Restarts, job.Losses, sink.visible)
	}
}

// failing is a sink in front of which a function may fail.
func failing(st task.Stage, f func() error) task.Stage {
	return task.StageOf[string, struct{}](func(rt *task.Runtime, out task.Push[struct{}]) (task.Push[string], task.Operator, error) {
		in, op, err := st.Build(rt, out)
		if err != nil {
			return nil, nil, err
		}
		push := in.(task.Push[string])
		return func(v string) {
			if err := f(); err != nil {
				rt.Fail(err)
			}
			push(v)
		}, op, nil
	})
}

// Buffers that the memory cannot hold fail the job at its deployment, once, with the numbers; a size that never suffices does
// not even get so far.
func TestNetworkMemoryThatDoesNotSufficeIsAClearError(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	settings := map[string]string{"network.memory": "32MiB", "parallelism": "200", "restart": "fixed(3,1ms)"}
	// Each writer needs 1 KiB for each of 200 consumers, and none ends before the last one has been refused.
	prog, sink := stages(t, &numbers{n: 1000, splits: 200, together: 201}, nothing)
	job, err := Embed(t.Context(), prog, Embedding{Name: "stages", Settings: settings, Slots: 200})
	if err != nil {
		t.Fatal(err)
	}
	f := job.GetFailure()
	if job.Status != jobpb.JobStatus_JOB_FAILED || f.GetCode() != shuffle.CodeMemory || f.Kind != jobpb.FailureKind_FAILURE_FATAL || job.Restarts+job.Losses > 0 || len(sink.visible) > 0 {
		t.Errorf("%v after %d restarts: %v", job.Status, job.Restarts+job.Losses, f)
	}
	for _, part := range []string{"of network memory", "33554432", "raise network.memory or lower the parallelism"} {
		if !strings.Contains(f.GetMessage(), part) {
			t.Errorf("%q does not say %q", f.GetMessage(), part)
		}
	}
	settings["network.memory"] = "1KiB"
	_, err = Embed(t.Context(), prog, Embedding{Name: "stages", Settings: settings, Slots: 200})
	var refused *PlanError
	if !errors.As(err, &refused) || refused.Diagnostics[0].Code != setting.CodeBadValue || !strings.Contains(refused.Diagnostics[0].Message, "1KiB is less than the 32.0 MiB") {
		t.Errorf("1KiB: %v", err)
	}
}

// What cannot be removed costs room until the next start, and never the outcome of the job.
func TestAJobEndsAsItHasAlthoughItsDirectoryCannotBeRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	m := workdir.Default()
	m.FS = vfs.WithFaults(m.FS, func(op vfs.Operation, _ string) vfs.Fault {
		if op == vfs.OpRemoveAll {
			return vfs.Fault{Err: syscall.EROFS}
		}
		return vfs.Fault{}
	})
	for name, want := range map[string]jobpb.JobStatus{"Finished": jobpb.JobStatus_JOB_FINISHED, "Failed": jobpb.JobStatus_JOB_FAILED} {
		t.Run(name, func(t *testing.T) {
			begin := nothing
			if want == jobpb.JobStatus_JOB_FAILED {
				begin = func(*connector.Task) error { return errOnce }
			}
			files, err := openDisk(m, nil)
			if err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			prog, sink := stages(t, &numbers{n: 10_000, splits: 6}, begin)
			e := Embedding{Name: "stages", Slots: 2, Log: hclog.New(&hclog.LoggerOptions{Output: &log, Level: hclog.Warn})}
			job, err := e.run(t.Context(), prog, files, setting.Memory{Network: 64 << 20, State: 64 << 20})
			if err != nil || job.Status != want || want == jobpb.JobStatus_JOB_FINISHED && len(sink.visible) != 10 {
				t.Errorf("%v %v %q", job.GetStatus(), err, sink.visible)
			}
			if !strings.Contains(log.String(), "left behind") || !strings.Contains(log.String(), files.dir.Path) {
				t.Errorf("log %q", log.String())
			}
		})
	}
}

func TestACancelledJobLeavesNothingBehind(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	prog, sink := stages(t, &numbers{n: 10_000, splits: 6}, func(*connector.Task) error { cancel(); return nil })
	job, err := Embed(ctx, prog, Embedding{Name: "stages", Slots: 2})
	if err != nil || job.Status != jobpb.JobStatus_JOB_CANCELLED || len(sink.visible) != 0 {
		t.Errorf("%v %v %q", job.GetStatus(), err, sink.visible)
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "*")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %q %v", left, err)
	}
}
