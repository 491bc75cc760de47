package task

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/shuffle/stored"
	"github.com/sluiceio/sluice/worker/task/fault"
)

const (
	forward   = jobpb.Partitioner_PARTITIONER_FORWARD
	hashed    = jobpb.Partitioner_PARTITIONER_HASH
	rebalance = jobpb.Partitioner_PARTITIONER_REBALANCE
	broadcast = jobpb.Partitioner_PARTITIONER_BROADCAST
	global    = jobpb.Partitioner_PARTITIONER_GLOBAL
	custom    = jobpb.Partitioner_PARTITIONER_CUSTOM
)

// located names the subtask that gets a record.
func located() Stage {
	return StageOf[int, string](func(rt *Runtime, out Push[string]) (Push[int], Operator, error) {
		return func(v int) { out(fmt.Sprint(rt.Task.Subtask, ":", v)) }, Base{}, nil
	})
}

func ofSeven(v int) int { return v % 7 }

// keyedInts are ints by their remainder.
func keyedInts(t testing.TB) Exchange {
	return NewKeyedExchange(mustCodec[int](t), ofSeven, mustHash[int](t))
}

// What is stored is routed as what is not: consumers cannot tell the two apart.
func TestStoredEdgesGiveWhatLiveOnesGive(t *testing.T) {
	plain := func() Exchange { return NewExchange(mustCodec[int](t)) }
	chosen := func() Exchange {
		return NewCustomExchange(mustCodec[int](t), func(v, consumers int) int { return v % consumers })
	}
	for _, c := range []struct {
		by jobpb.Partitioner
		x  func() Exchange
	}{
		{forward, plain}, {hashed, func() Exchange { return keyedInts(t) }}, {rebalance, plain}, {broadcast, plain}, {global, plain}, {custom, chosen},
	} {
		for _, parallelism := range []int{1, 2, 4} {
			t.Run(fmt.Sprint(c.by, "/", parallelism), func(t *testing.T) {
				result := func(kept bool) []string {
					j, sink := newJob(t), &collected[string]{}
					src := j.source("src", parallelism, NewSource(ints(3000), SourceOptions[int]{Watermarks: WatermarksBounded}))
					op := j.join("op", parallelism, end{from: src, by: c.by, x: c.x(), st: located(), stored: kept})
					j.then(op, "out", NewSink(sink))
					finished(t, j)
					got := sink.written()
					if c.by == forward || c.by == rebalance { // who gets what hangs on who has read what
						for i, v := range got {
							_, got[i], _ = strings.Cut(v, ":")
						}
					}
					return sorted(got)
				}
				live, kept := result(false), result(true)
				if len(kept) < 3000 || !slices.Equal(live, kept) {
					t.Errorf("%d records stored, %d live", len(kept), len(live))
				}
			})
		}
	}
}

// shuffled is what two sources write through stored edges, over another stored stage, to one union with a bounded and a
// late input. The times at which producers finish differ from run to run.
func shuffled(t *testing.T, parallelism int, delay func(source int) time.Duration) []string {
	j, sink := newJob(t), &collected[string]{}
	late := func(source int) *counted[int] {
		s := ints(500)
		s.splits = parallelism
		begun := false
		s.poll = func(context.Context, int) error {
			if !begun {
				begun = true
				<-time.After(delay(source))
			}
			return nil
		}
		return s
	}
	a := j.source("a", 1, NewSource(late(0), SourceOptions[int]{}))
	b := j.source("b", 1, NewSource(late(1), SourceOptions[int]{}))
	x := func() Exchange { return NewExchange(mustCodec[int](t)) }
	mid := j.join("mid", parallelism, end{from: a, by: rebalance, x: x(), st: mapped(func(v int) int { return v + 1000 }), stored: true})
	op := j.join("op", parallelism,
		end{from: b, by: hashed, x: keyedInts(t), st: located(), stored: true, phase: 1},
		end{from: mid, by: hashed, x: keyedInts(t), st: located(), stored: true},
		end{from: mid, by: hashed, x: keyedInts(t), st: located(), stored: true, phase: 1})
	j.then(op, "out", NewSink(sink))
	finished(t, j)
	var out []string
	for _, s := range slices.SortedFunc(slices.Values(sink.writers), func(a, b *collectedWriter[string]) int { return a.task.Subtask - b.task.Subtask }) {
		out = append(out, s.vals...)
	}
	return out
}

func TestStoredInputsAreReadInOneOrder(t *testing.T) {
	for _, parallelism := range []int{1, 2, 4} {
		var first []string
		for _, late := range []int{0, 1, 2} {
			synctest.Test(t, func(t *testing.T) {
				got := shuffled(t, parallelism, func(source int) time.Duration {
					if source == late {
						return time.Second
					}
					return time.Millisecond
				})
				if first == nil {
					first = got
				}
				if len(got) != 1500 || !slices.Equal(got, first) {
					t.Fatalf("parallelism %d: %d records in another order", parallelism, len(got))
				}
			})
		}
		// By phase, then by input: 1000… of the input without a phase, then b, then 1000… once more.
		at := 0
		for _, isMid := range []bool{true, false, true} {
			n := 0
			for at < len(first) && strings.HasPrefix(first[at], "0:") && (len(first[at]) > 5) == isMid {
				at++
				n++
			}
			if n == 0 {
				t.Errorf("parallelism %d: record %d is %s: the phases are mixed", parallelism, at, first[min(at, len(first)-1)])
			}
		}
	}
}

// files are those below dir.
func files(t *testing.T, fsys vfs.FS, dir string) (out []string) {
	t.Helper()
	list, err := fsys.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		p := path.Join(dir, e.Name())
		if e.IsDir() {
			out = append(out, files(t, fsys, p)...)
		} else {
			out = append(out, p)
		}
	}
	return out
}

func TestAFinishedSubtaskNamesItsResultsWhenTheyAreDurable(t *testing.T) {
	j := newJob(t)
	src := j.source("src", 2, NewSource(ints(1000), SourceOptions[int]{}))
	j.join("a", 2, end{from: src, by: hashed, x: keyedInts(t), st: NewSink(&collected[int]{}), stored: true})
	j.join("b", 1, end{from: src, by: rebalance, x: NewExchange(mustCodec[int](t)), st: NewSink(&collected[int]{}), stored: true})
	c := start(t, j)
	d := j.deployment(3, 2)
	d.Subtasks = slices.DeleteFunc(d.Subtasks, func(s *taskpb.SubtaskDeployment) bool { return s.Chain != 0 })
	d.Locations = append(d.Locations[:2], &taskpb.Location{Chain: 2}) // nobody says where consumers are: they never ran
	deploy(t, c, d)
	for range 2 {
		u := c.await(1)[0]
		after, err := stored.Open(c.fs.CrashClone(), "results") // a power cut right after the report
		if err != nil {
			t.Fatal(err)
		}
		if u.State != done || len(u.Partitions) != 2 {
			t.Fatalf("%v %v: %v", u.State, u.Failure, u.Partitions)
		}
		if err := u.Validate(); err != nil {
			t.Error(err)
		}
		for i, p := range u.Partitions {
			name := stored.Name{Job: "job-1", JobEpoch: 1, RegionEpoch: 2, Edge: int32(i), Producer: u.Index, Attempt: 3}
			if p.Edge != int32(i) || p.Attempt != 3 || p.RegionEpoch != 2 || p.Records != 500 && p.Records != 1000 && p.Records != 0 {
				t.Errorf("partition %v", p)
			}
			if !slices.ContainsFunc(after.Inventory(), func(f stored.Found) bool { return f.Name == name && f.Bytes == p.Bytes }) {
				t.Errorf("%s is not on disk: %v", name, after.Inventory())
			}
		}
		if u.Counters.StoredBytes == 0 || u.Counters.BytesOut != 0 || u.Counters.RecordsOut != 2*u.Counters.RecordsIn {
			t.Errorf("counters %v", u.Counters)
		}
	}
}

// stages is a job of two regions: two producers whose results two consumers read.
func stages(t *testing.T, n int, change ...func(*counted[int])) (*job, *collected[string]) {
	src := ints(n)
	src.splits = 2
	for _, f := range change {
		f(src)
	}
	j, sink := newJob(t), &collected[string]{}
	in := j.source("src", 2, NewSource(src, SourceOptions[int]{}))
	op := j.join("op", 2, end{from: in, by: hashed, x: keyedInts(t), st: located(), stored: true})
	j.then(op, "out", NewSink(sink))
	return j, sink
}

// only keeps the subtasks of one chain.
func only(d *taskpb.Deployment, chain int32) *taskpb.Deployment {
	d.Subtasks = slices.DeleteFunc(d.Subtasks, func(s *taskpb.SubtaskDeployment) bool { return s.Chain != chain })
	return d
}

// place tells the consumers where the results lie.
func place(d *taskpb.Deployment, producers []*taskpb.SubtaskUpdate) *taskpb.Deployment {
	for _, u := range producers {
		for _, l := range d.Locations {
			if l.Chain == u.Chain && l.Index == u.Index {
				l.Partitions = u.Partitions
			}
		}
	}
	return d
}

// produced runs the producers of stages and returns their reports.
func produce(t *testing.T, c *cluster, attempt uint32, epoch uint64) []*taskpb.SubtaskUpdate {
	t.Helper()
	deploy(t, c, only(c.job.copied(attempt, epoch), 0))
	us := c.await(2)
	for _, u := range us {
		if u.State != done {
			t.Fatalf("%v %v", u.State, u.Failure)
		}
	}
	return us
}

// A partition may be older than the last attempt of its producer, whose others have been lost.
func TestConsumersReadThePartitionThatTheFactsName(t *testing.T) {
	j, sink := stages(t, 1000)
	c := start(t, j)
	c.keeps = true
	first := produce(t, c, 1, 1)
	second := produce(t, c, 2, 2)
	old := slices.IndexFunc(first, func(u *taskpb.SubtaskUpdate) bool { return u.Index == 0 })
	for i, u := range second {
		if u.Index == 0 {
			second[i] = first[old]
		}
	}
	if err := c.disk.Drop(
		stored.Name{Job: "job-1", JobEpoch: 1, RegionEpoch: 2, Attempt: 2, Producer: 0},
		stored.Name{Job: "job-1", JobEpoch: 1, RegionEpoch: 1, Attempt: 1, Producer: 1},
	); err != nil {
		t.Fatal(err)
	}
	// The facts name attempts 1 and 2; anything else is gone.
	d := place(only(j.copied(3, 3), 1), second)
	deploy(t, c, d)
	for _, u := range c.await(2) {
		if u.State != done {
			t.Fatalf("%v %v", u.State, u.Failure)
		}
		if u.Counters.RereadBytes == 0 || u.Counters.BytesIn != 0 {
			t.Errorf("counters %v", u.Counters)
		}
	}
	if n := len(sink.written()); n != 1000 {
		t.Errorf("%d records", n)
	}
	deploy(t, c, d) // once more: nothing is read twice
	for _, u := range c.await(2) {
		if u.State != done {
			t.Errorf("%v", u)
		}
	}
	if n := len(sink.written()); n != 1000 {
		t.Errorf("%d records after the deployment has come again", n)
	}
}

// eager, or an edge inside a region: the consumer is there first.
func TestAConsumerWaitsForAProducerThatRunsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, sink := stages(t, 100, func(s *counted[int]) { s.poll = paced(100 * ms) })
		c := start(t, j)
		deploy(t, c, only(j.copied(1, 1), 1))
		<-time.After(3 * time.Second)
		synctest.Wait()
		if len(sink.written()) != 0 {
			t.Fatal("records came out of nowhere")
		}
		deploy(t, c, only(j.copied(1, 1), 0))
		for _, u := range c.await(4) {
			if u.State != done {
				t.Errorf("chain %d: %v %v", u.Chain, u.State, u.Failure)
			}
		}
		if len(sink.written()) != 100 {
			t.Errorf("%d records", len(sink.written()))
		}
	})
}

func TestACancelledAttemptWaitsForNoProducerAndLeavesNoFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, _ := stages(t, 1000, func(s *counted[int]) { s.poll = paced(100 * ms) })
		c := start(t, j)
		deploy(t, c, j.copied(1, 1))
		c.awaitRunning(4)
		<-time.After(time.Second)
		if got := files(t, c.fs, "results"); len(got) == 0 || slices.ContainsFunc(got, func(f string) bool { return !strings.HasSuffix(f, ".tmp") }) {
			t.Fatalf("while it runs there are %v", got)
		}
		began := time.Now()
		c.proc.Cancel(&taskpb.Cancel{Job: "job-1", JobEpoch: 1})
		for _, u := range c.await(4) {
			if u.State != jobpb.SubtaskState_SUBTASK_CANCELLED || len(u.Partitions) != 0 {
				t.Errorf("%v %v", u.State, u.Partitions)
			}
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("stopping took %v", took)
		}
		if got := files(t, c.fs, "results"); len(got) != 0 {
			t.Errorf("left behind: %v", got)
		}
	})
}

// A newer epoch takes the place of attempts in the middle of their work.
func TestASupersededAttemptLeavesNoFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, sink := stages(t, 100, func(s *counted[int]) { s.poll = paced(100 * ms) })
		c := start(t, j)
		deploy(t, c, j.copied(1, 1))
		c.awaitRunning(4)
		<-time.After(2 * time.Second)
		c.restart()
		deploy(t, c, j.copied(2, 2))
		finishedAttempts := 0
		for _, u := range c.await(8) {
			switch {
			case u.Attempt == 2 && u.State == done:
				finishedAttempts++
			case u.Attempt == 1 && u.State == jobpb.SubtaskState_SUBTASK_CANCELLED:
			default:
				t.Errorf("attempt %d: %v %v", u.Attempt, u.State, u.Failure)
			}
		}
		for _, f := range files(t, c.fs, "results") {
			if !strings.Contains(f, "-a2.") || strings.HasSuffix(f, ".tmp") {
				t.Errorf("left behind: %s", f)
			}
		}
		if n := len(sink.written()); finishedAttempts != 4 || n != 100 {
			t.Errorf("%d attempts finished, %d records", finishedAttempts, n)
		}
	})
}

// A user's function that fails in the producer leaves nothing that could be taken for a result.
func TestAFailedProducerStoresNothing(t *testing.T) {
	j := newJob(t)
	src := j.source("src", 1, NewSource(ints(1000), SourceOptions[int]{}))
	m := j.then(src, "map", mapped(boomAt(700)))
	j.join("op", 1, end{from: m, by: rebalance, x: NewExchange(mustCodec[int](t)), st: NewSink(&collected[int]{}), stored: true})
	c := start(t, j)
	deploy(t, c, only(j.copied(1, 1), 0))
	u := c.await(1)[0]
	if u.Failure == nil {
		t.Fatalf("%v", u)
	}
	expect(t, u.Failure, fault.CodePanic, "map", "row 700 of split 0")
	if got := files(t, c.fs, "results"); len(got) != 0 {
		t.Errorf("left behind: %v", got)
	}
}

func TestAFunctionBehindAStoredEdgeIsBlamedWithItsRecord(t *testing.T) {
	j := newJob(t)
	src := j.source("src", 1, NewSource(ints(1000), SourceOptions[int]{}))
	j.join("op", 1, end{from: src, by: rebalance, x: NewExchange(mustCodec[int](t)), st: mapped(boomAt(700)), stored: true})
	expect(t, failedByUser(t, j), fault.CodePanic, "op", "record 701 from subtask 0 of src")
}

func TestACustomPartitionerOfAStoredEdgeIsHeldToItsRange(t *testing.T) {
	for _, index := range []int{-1, 2} {
		j := newJob(t)
		src := j.source("src", 1, NewSource(ints(1000), SourceOptions[int]{}))
		x := NewCustomExchange(mustCodec[int](t), func(v, _ int) int {
			if v == 7 {
				return index
			}
			return 0
		})
		j.join("ranges", 2, end{from: src, by: custom, x: x, st: NewSink(&collected[int]{}), stored: true})
		c := start(t, j)
		deploy(t, c, only(j.copied(1, 1), 0))
		u := c.await(1)[0]
		if u.Failure == nil {
			t.Fatalf("index %d: %v", index, u)
		}
		expect(t, u.Failure, fault.CodeRoute, "ranges", "row 7 of split 0")
	}
}

// Delete, truncate and flip: before the consumers open the file, and while they read it.
func TestADamagedPartitionIsALossThatNamesIt(t *testing.T) {
	damages := map[string]func(t *testing.T, fsys vfs.FS, name string){
		"Deleted": func(t *testing.T, fsys vfs.FS, name string) {
			if err := fsys.Remove(name); err != nil {
				t.Fatal(err)
			}
		},
		"Truncated": func(t *testing.T, fsys vfs.FS, name string) {
			rewrite(t, fsys, name, func(b []byte) []byte { return b[:len(b)-1] })
		},
		"Flipped": func(t *testing.T, fsys vfs.FS, name string) {
			rewrite(t, fsys, name, func(b []byte) []byte { b[len(b)/2] ^= 4; return b })
		},
	}
	for name, damage := range damages {
		for _, suffix := range []string{".data", ".index"} {
			t.Run(name+suffix, func(t *testing.T) {
				j, _ := stages(t, 20_000)
				c := start(t, j)
				us := produce(t, c, 1, 1)
				for _, f := range files(t, c.fs, "results") {
					if strings.HasSuffix(f, "p1-a1"+suffix) {
						damage(t, c.fs, f)
					}
				}
				deploy(t, c, place(only(j.copied(2, 2), 1), us))
				lost := 0
				for _, u := range c.await(2) {
					if u.State == done {
						continue // the block that was flipped is the other one's
					}
					f := u.Failure
					lost++
					if f == nil || f.Kind != jobpb.FailureKind_FAILURE_LOSS || f.Code != stored.CodeLost || len(f.Lost) != 1 ||
						f.Lost[0].Edge != 0 || f.Lost[0].Producer != 1 || f.Lost[0].Attempt != 1 {
						t.Errorf("%v %v", u.State, f)
					}
				}
				if want := map[string]int{"Flipped.data": 1}[name+suffix]; lost == 0 || want == 0 && lost != 2 {
					t.Errorf("%d consumers noticed", lost)
				}
			})
		}
	}
}

func rewrite(t *testing.T, fsys vfs.FS, name string, change func([]byte) []byte) {
	t.Helper()
	b, err := vfs.ReadFile(fsys, name)
	if err != nil {
		t.Fatal(err)
	}
	if err := fsys.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := vfs.Publish(fsys, name, change(b)); err != nil {
		t.Fatal(err)
	}
}

// A consumer of two stored inputs names every result that it has lost, of both, in one failure.
func TestAConsumerNamesEverythingThatItHasLost(t *testing.T) {
	j, sink := newJob(t), &collected[int]{}
	a := j.source("a", 2, NewSource(ints(1000), SourceOptions[int]{}))
	b := j.source("b", 1, NewSource(ints(1000), SourceOptions[int]{}))
	j.join("op", 1,
		end{from: a, by: hashed, x: keyedInts(t), st: NewSink(sink), stored: true},
		end{from: b, by: hashed, x: keyedInts(t), st: NewSink(&collected[int]{}), stored: true, phase: 1})
	c := start(t, j)
	d := j.copied(1, 1)
	d.Subtasks = slices.DeleteFunc(d.Subtasks, func(s *taskpb.SubtaskDeployment) bool { return s.Chain == 2 })
	deploy(t, c, d)
	us := c.await(3)
	for _, f := range files(t, c.fs, "results") {
		if strings.HasSuffix(f, ".data") && !strings.Contains(f, "e0-p0") {
			if err := c.fs.Remove(f); err != nil {
				t.Fatal(err)
			}
		}
	}
	deploy(t, c, place(only(j.copied(2, 2), 2), us))
	u := c.await(1)[0]
	var lost []string
	for _, p := range u.Failure.GetLost() {
		lost = append(lost, fmt.Sprintf("%d.%d#%d", p.Edge, p.Producer, p.Attempt))
	}
	if want := []string{"0.1#1", "1.0#1"}; !slices.Equal(lost, want) || u.Failure.Kind != jobpb.FailureKind_FAILURE_LOSS || !strings.Contains(u.Failure.Message, "1 more") {
		t.Errorf("lost %v, want %v: %v", lost, want, u.Failure)
	}
}

// A disk that is full fails the job with the path, not the process.
func TestADiskThatTakesNoResultFailsTheAttempt(t *testing.T) {
	j, _ := stages(t, 200_000)
	full := vfs.WithFaults(vfs.NewMem(), func(op vfs.Operation, name string) vfs.Fault {
		if op == vfs.OpWrite && strings.Contains(name, "p1-") {
			return vfs.Fault{Err: fs.ErrPermission}
		}
		return vfs.Fault{}
	})
	c := start(t, j, func(cfg *Config) {
		disk, err := stored.Join(full, "results")
		if err != nil {
			t.Fatal(err)
		}
		if cfg.Results, err = stored.NewExchange(stored.Config{Store: disk, Memory: cfg.Network.Account()}); err != nil {
			t.Fatal(err)
		}
	})
	deploy(t, c, only(j.copied(1, 1), 0))
	for _, u := range c.await(2) {
		switch {
		case u.Index == 0 && u.State == done:
		case u.Index == 1 && u.Failure.GetCode() == stored.CodeWrite && u.Failure.Kind == jobpb.FailureKind_FAILURE_USER && strings.Contains(u.Failure.Message, "p1-a1"):
		default:
			t.Errorf("subtask %d: %v %v", u.Index, u.State, u.Failure)
		}
	}
}

func TestAProcessWithoutADirectoryRefusesBlockingPlans(t *testing.T) {
	j, _ := stages(t, 10)
	c := start(t, j, func(cfg *Config) { cfg.Results = nil })
	err := c.proc.Deploy(j.copied(1, 1))
	if f := Failure(err); err == nil || f.Code != fault.CodeNoStore || f.Kind != jobpb.FailureKind_FAILURE_FATAL {
		t.Errorf("%v", err)
	}
}

// A subtask with inputs of both kinds reads the live ones at any time: nobody upstream may have to wait for a file.
func TestLiveInputsAreReadWhileStoredOnesAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := ints(10)
		slow.poll = paced(time.Second)
		j, sink := newJob(t), &collected[string]{}
		a := j.source("slow", 1, NewSource(slow, SourceOptions[int]{}))
		b := j.source("fast", 1, NewSource(ints(20_000), SourceOptions[int]{}))
		input := func(name string) Stage {
			return StageOf[int, string](func(rt *Runtime, out Push[string]) (Push[int], Operator, error) {
				d, err := Shared(rt, func() (*diary, error) { return &diary{emit: out}, nil })
				return func(int) { out(name) }, d, err
			})
		}
		op := j.join("op", 1,
			end{from: a, by: rebalance, x: NewExchange(mustCodec[int](t)), st: input("stored"), stored: true},
			end{from: b, by: rebalance, x: NewExchange(mustCodec[int](t)), st: input("live"), phase: 1})
		j.then(op, "out", NewSink(sink))
		finished(t, j)
		want := slices.Concat(slices.Repeat([]string{"live"}, 20_000), []string{"ended 1"}, slices.Repeat([]string{"stored"}, 10), []string{"ended 0", "last watermark", "finish"})
		if got := sink.written(); !slices.Equal(got, want) {
			t.Errorf("%d records, the last %q", len(got), got[max(0, len(got)-5):])
		}
	})
}

// The watermark of a stored gate stays where it is until its last partition is begun: the one yet to come may hold the
// oldest record of all.
func TestEventTimeDoesNotDependOnTheKindOfExchange(t *testing.T) {
	times := func(kept bool) string {
		src := ints(40)
		src.splits = 4
		p := &tape{}
		j := newJob(t)
		in := j.source("src", 4, NewSource(src, SourceOptions[int]{Watermarks: WatermarksPerRecord}))
		j.join("tape", 1, end{from: in, by: rebalance, x: NewExchange(mustCodec[int](t)), st: p.stage(), stored: kept})
		finished(t, j)
		return p.take()
	}
	got := times(true)
	if !strings.HasSuffix(got, "w∞") {
		t.Fatalf("saw %s", got)
	}
	seen, mark := 0, element.MinTime
	for item := range strings.SplitSeq(got, " ") {
		var v int
		var at element.Time
		switch {
		case item == "w∞":
		case strings.HasPrefix(item, "w"):
			if _, err := fmt.Sscanf(item, "w%d", &mark); err != nil {
				t.Fatal(err)
			}
		default:
			if _, err := fmt.Sscanf(item, "%d@%d", &v, &at); err != nil {
				t.Fatal(err)
			}
			seen++
			if at <= mark {
				t.Errorf("%s follows w%d: %s", item, mark, got)
			}
		}
	}
	if seen != 40 {
		t.Errorf("%d records: %s", seen, got)
	}
}

func TestCompressionOfResultsIsASetting(t *testing.T) {
	size := func(how string) int64 {
		j, sink := newJob(t), &collected[string]{}
		in := j.source("src", 1, NewSource(ints(20_000), SourceOptions[int]{}))
		text := j.then(in, "text", mapped(func(v int) string { return fmt.Sprintf("number %d of twenty thousand", v) }))
		j.join("op", 1, end{from: text, by: rebalance, x: NewExchange(mustCodec[string](t)), st: NewSink(sink), stored: true})
		c := start(t, j)
		d := j.copied(1, 1)
		d.Settings = map[string]string{"batch.compression": how, "network.compression": "s2"}
		deploy(t, c, d)
		for _, u := range c.await(2) {
			if u.State != done {
				t.Fatalf("%v %v", u.State, u.Failure)
			}
		}
		if len(sink.written()) != 20_000 {
			t.Errorf("%s: %d records", how, len(sink.written()))
		}
		_, bytes := c.disk.Usage()
		return bytes
	}
	if none, s2, zstd := size("none"), size("s2"), size("zstd"); !(zstd < s2 && s2 < none) {
		t.Errorf("bytes: %d, with s2 %d, with zstd %d", none, s2, zstd)
	}
}
