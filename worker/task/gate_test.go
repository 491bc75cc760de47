package task

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/flow/setting"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/worker/task/chain"
)

// loading is a job whose operator loads a bounded input first and then reads a live one, both with two subtasks.
func loading(t *testing.T, storedInit bool, init *counted[int]) (*job, *collected[string]) {
	live := ints(10)
	live.splits = 2
	x := func() Exchange { return keyedInts(t) }
	j, sink := newJob(t), &collected[string]{}
	a := j.source("init", 2, NewSource(init, SourceOptions[int]{}))
	b := j.source("live", 2, NewSource(live, SourceOptions[int]{}))
	input := func(name string) Stage {
		return StageOf[int, string](func(rt *Runtime, out Push[string]) (Push[int], Operator, error) {
			d, err := Shared(rt, func() (*diary, error) { return &diary{emit: out}, nil })
			return func(int) { out(name) }, d, err
		})
	}
	op := j.join("op", 2, end{from: a, by: hashed, x: x(), st: input("init"), stored: storedInit},
		end{from: b, by: hashed, x: x(), st: input("live"), phase: 1, gated: true})
	j.then(op, "out", NewSink(sink))
	return j, sink
}

// gated is the deployment of a job of which chain 1 waits at the gate.
func gated(d *taskpb.Deployment) *taskpb.Deployment {
	for _, s := range d.Subtasks {
		s.Gated = s.Chain == 1
	}
	return d
}

func open(c *cluster, epoch uint64) {
	c.proc.OpenGate(&taskpb.OpenGate{Job: "job-1", JobEpoch: 1, Regions: []*taskpb.RegionEpoch{{Region: 0, Epoch: epoch}}})
}

// heard are the updates so far.
func heardSoFar(c *cluster) (out []*taskpb.SubtaskUpdate) {
	synctest.Wait()
	for len(c.updates) > 0 {
		out = append(out, <-c.updates)
	}
	return out
}

func count(us []*taskpb.SubtaskUpdate, is func(*taskpb.SubtaskUpdate) bool) (n int) {
	for _, u := range us {
		if is(u) {
			n++
		}
	}
	return n
}

func TestALiveInputWaitsAtItsGateUntilEverySubtaskHasLoaded(t *testing.T) {
	for _, kept := range []bool{true, false} {
		t.Run(fmt.Sprint("Stored/", kept), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				init := ints(20)
				init.splits = 2
				init.poll = paced(time.Second)
				j, sink := loading(t, kept, init)
				c := start(t, j)
				deploy(t, c, gated(j.copied(1, 1)))
				us := heardSoFar(c)
				loaded := func(u *taskpb.SubtaskUpdate) bool { return u.Loaded }
				if n := count(us, loaded); len(us) != 6 || n != 0 {
					t.Fatalf("%d updates, %d say loaded before anything was read", len(us), n)
				}
				<-time.After(time.Minute)
				us = heardSoFar(c)
				isLoaded := func(u *taskpb.SubtaskUpdate) bool {
					return u.Loaded && u.Chain == 2 && u.State == jobpb.SubtaskState_SUBTASK_RUNNING
				}
				if n := count(us, isLoaded); n != 2 || count(us, loaded) != 2 {
					t.Errorf("%d subtasks say loaded: %v", n, us)
				}
				if got := sink.written(); slices.Contains(got, "live") || len(got) < 20 {
					t.Fatalf("before the gate was opened: %q", got)
				}
				deploy(t, c, gated(j.copied(1, 1))) // twice: the report is repeated as it stands
				if n := count(heardSoFar(c), isLoaded); n != 2 {
					t.Errorf("after the deployment has come again %d say loaded", n)
				}
				open(c, 0) // of an epoch before
				<-time.After(time.Minute)
				if got := sink.written(); slices.Contains(got, "live") {
					t.Fatal("a stale message has opened the gate")
				}
				open(c, 1)
				open(c, 1)
				<-time.After(time.Minute)
				us = heardSoFar(c)
				if n := count(us, func(u *taskpb.SubtaskUpdate) bool { return u.State == done }); n != 4 {
					t.Errorf("%d subtasks finished", n)
				}
				if n := count(us, func(u *taskpb.SubtaskUpdate) bool { return u.Chain == 1 && u.Produced }); n != 2 {
					t.Errorf("%d live sources say that they have produced, which tells the leader that their gates are open", n)
				}
				for _, w := range sink.writers {
					at := slices.Index(w.vals, "ended 0")
					if at < 0 || slices.Contains(w.vals[:at], "live") || slices.Contains(w.vals[at:], "init") {
						t.Errorf("subtask %d: %q", w.task.Subtask, w.vals)
					}
				}
			})
		})
	}
}

func TestAGateThatIsOpenStaysOpenForItsEpochAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, sink := loading(t, true, ints(10))
		c := start(t, j)
		c.keeps = true
		deploy(t, c, gated(only(j.copied(1, 1), 0)))
		open(c, 1)
		deploy(t, c, gated(j.copied(1, 1))) // the rest of the epoch: open
		<-time.After(time.Second)
		// Those of chain 0 may have finished before the second deployment, and repeat it.
		if n := count(heardSoFar(c), func(u *taskpb.SubtaskUpdate) bool { return u.Chain != 0 && u.State == done }); n != 4 || !slices.Contains(sink.written(), "live") {
			t.Errorf("%d subtasks finished", n)
		}
		deploy(t, c, gated(j.copied(2, 2))) // a new epoch waits again
		<-time.After(time.Minute)
		if n := count(heardSoFar(c), func(u *taskpb.SubtaskUpdate) bool { return u.Attempt == 2 && u.State == done }); n != 2 {
			t.Errorf("%d subtasks finished, only the loading ones may", n)
		}
		c.proc.Cancel(&taskpb.Cancel{Job: "job-1", JobEpoch: 1})
		if n := count(heardSoFar(c), func(u *taskpb.SubtaskUpdate) bool { return u.State == jobpb.SubtaskState_SUBTASK_CANCELLED }); n != 4 {
			t.Errorf("%d subtasks ended when they were cancelled at the gate", n)
		}
	})
}

func lazily(d *taskpb.Deployment) *taskpb.Deployment {
	d.Settings = map[string]string{"schedule": "lazy"}
	return d
}

// With schedule=lazy consumers come when a producer says that there is something to consume. It may not wait for them
// before it has said so, whatever comes first: many records from one, a watermark, or just the end.
func TestAProducerSaysThatItHasProducedBeforeItWaitsForConsumers(t *testing.T) {
	for name, c := range map[string]struct {
		records int
		keep    func(int) bool
		opts    SourceOptions[int]
	}{
		"Many":      {20, func(int) bool { return true }, SourceOptions[int]{}},
		"Filtered":  {20, func(int) bool { return false }, SourceOptions[int]{}},
		"Watermark": {20, func(int) bool { return false }, SourceOptions[int]{Watermarks: WatermarksPerRecord}},
		"Empty":     {0, nil, SourceOptions[int]{}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j, sink := newJob(t), &collected[int]{}
				src := j.source("src", 1, NewSource(ints(c.records), c.opts))
				f := j.then(src, "filter", filtered(c.keep))
				again := j.then(f, "again", flatMapped(func(v int, emit func(int)) {
					for range 2000 { // more than fits into buffers
						emit(v)
					}
				}))
				j.join("out", 2, end{from: again, by: rebalance, x: NewExchange(mustCodec[int](t)), st: NewSink(sink)})
				cl := start(t, j)
				deploy(t, cl, lazily(only(j.copied(1, 1), 0)))
				<-time.After(time.Second)
				us := heardSoFar(cl)
				if n := count(us, func(u *taskpb.SubtaskUpdate) bool { return u.Produced }); n != 1 {
					t.Fatalf("%d updates say that it has produced: %v", n, us)
				}
				deploy(t, cl, lazily(j.copied(1, 1)))
				if n := count(cl.await(3), func(u *taskpb.SubtaskUpdate) bool { return u.State == done }); n != 3 {
					t.Errorf("%d subtasks finished", n)
				}
				if want := 2000 * c.records; c.keep != nil && c.keep(0) && len(sink.written()) != want {
					t.Errorf("%d records, want %d", len(sink.written()), want)
				}
			})
		})
	}
}

// A consumer comes when one of its producers has produced. The others may come much later.
func TestWithScheduleLazyAProducerMayComeLate(t *testing.T) {
	for schedule, want := range map[string]jobpb.SubtaskState{"lazy": done, "region": broken} {
		synctest.Test(t, func(t *testing.T) {
			j, sink := newJob(t), &collected[int]{}
			a := j.source("early", 1, NewSource(ints(10), SourceOptions[int]{}))
			b := j.source("late", 1, NewSource(ints(10), SourceOptions[int]{}))
			x := func() Exchange { return NewExchange(mustCodec[int](t)) }
			j.join("out", 1, end{from: a, by: rebalance, x: x(), st: NewSink(sink)}, end{from: b, by: rebalance, x: x(), st: NewSink(sink)})
			c := start(t, j)
			for _, chain := range []int32{0, 2, 1} {
				d := only(j.copied(1, 1), chain)
				d.Settings = map[string]string{"schedule": schedule}
				deploy(t, c, d)
				<-time.After(time.Hour)
			}
			for _, u := range heardSoFar(c) {
				if u.Chain == 2 && u.State != want && u.State != jobpb.SubtaskState_SUBTASK_RUNNING {
					t.Errorf("%s: the consumer is %v %v", schedule, u.State, u.Failure)
				}
			}
		})
	}
}

func TestNobodyAsksWhatWasProducedUnlessConsumersWaitForIt(t *testing.T) {
	j, _ := words(t, 1000, 2)
	c := start(t, j)
	deploy(t, c, j.copied(1, 1))
	ended := 0
	for ended < 6 {
		u := <-c.updates
		if u.Produced || u.Loaded {
			t.Errorf("%v", u)
		}
		if u.State == done {
			ended++
		}
	}
}

// buffer.timeout=never: what is not full goes when the input is empty, and not before.
func TestABufferMayWaitForEver(t *testing.T) {
	var out *tapOutlet
	looped(t, setting.Never, func(h *stepHead, o *tapOutlet, _ *loop) {
		out = o
		for range 100 {
			h.steps = append(h.steps, take(o, 1, ms))
		}
		h.steps = append(h.steps, func(int) (chain.Progress, error) { return chain.Progress{State: chain.Starved}, nil })
		h.wakes = []time.Time{time.Now().Add(time.Second)}
	})
	if want := []time.Duration{100 * ms}; !slices.Equal(out.flushes, want) {
		t.Errorf("flushed at %v, want %v", out.flushes, want)
	}
}

// A watermark is no reason to send a buffer that waits for ever, and the settings reach the loop.
func TestTheBufferTimeoutOfADeploymentIsObeyed(t *testing.T) {
	for text, want := range map[string]bool{"never": false, "0": true, "2ms": true} {
		synctest.Test(t, func(t *testing.T) {
			var arrived atomic.Int32
			j, sink := newJob(t), &collected[int]{write: func(int, element.Time) error { arrived.Add(1); return nil }}
			in := j.source("src", 1, NewSource(&unhurried{counted: *ints(400)}, SourceOptions[int]{}))
			j.join("out", 1, end{from: in, by: rebalance, x: NewExchange(mustCodec[int](t)), st: NewSink(sink)})
			c := start(t, j)
			for _, chain := range []int32{1, 0} { // the consumer first: a flush that finds nobody is tried again
				d := only(j.copied(1, 1), chain)
				d.Settings = map[string]string{"buffer.timeout": text}
				deploy(t, c, d)
				synctest.Wait()
			}
			<-time.After(300 * ms)
			synctest.Wait()
			if got := arrived.Load(); got > 0 != want {
				t.Errorf("%s: %d records arrived before the buffer was full", text, got)
			}
			c.await(2)
		})
	}
}

// unhurried is a source whose polls take a millisecond for each record and never come back with none.
type unhurried struct{ counted[int] }

func (u *unhurried) OpenReader(context.Context, *connector.Task) (connector.Reader[int], error) {
	return &unhurriedReader{countedReader[int]{s: &u.counted}}, nil
}

type unhurriedReader struct{ countedReader[int] }

func (r *unhurriedReader) Poll(ctx context.Context, out *connector.Records[int]) error {
	<-time.After(ms)
	out.Max = 1
	return r.countedReader.Poll(ctx, out)
}
