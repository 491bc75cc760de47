package schedule

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// world is a cluster to which random things happen.
type world struct {
	*sim
	r    *rapid.T
	jobs []string
	last map[string]*controlpb.CoordinatorMessage // newest message that each worker obeyed
}

func (w *world) pick(name string) *agent {
	return rapid.SampledFrom(w.agents()).Draw(w.r, name)
}

// happen does one random thing.
func (w *world) happen() {
	things := []struct {
		weight int
		name   string
		do     func()
	}{
		{40, "work", func() {
			for range rapid.IntRange(1, 20).Draw(w.r, "steps") {
				w.work()
			}
		}},
		{6, "time", func() { w.let(time.Duration(rapid.IntRange(1, 4000).Draw(w.r, "ms")) * time.Millisecond) }},
		{5, "submit", w.submitAny},
		{2, "cancel", func() {
			if len(w.jobs) > 0 {
				w.cancel(rapid.SampledFrom(w.jobs).Draw(w.r, "job"))
			}
		}},
		{3, "cut", func() { w.pick("worker").cut() }},
		{6, "connect", func() { w.pick("worker").connect() }},
		{2, "kill", func() { w.pick("worker").kill() }},
		{2, "restart", func() { a := w.pick("worker"); a.kill(); w.start(a.id, a.slots) }},
		{2, "freeze", func() { a := w.pick("worker"); a.frozen = !a.frozen }},
		{3, "elect", func() { w.elect() }},
		{2, "unknown outcome", func() {
			if len(w.pending) > 0 {
				w.lose(rapid.Bool().Draw(w.r, "applied"))
			}
		}},
		{4, "user failure", func() { w.failAny(jobpb.FailureKind_FAILURE_USER) }},
		{2, "link failure", func() { w.failAny(jobpb.FailureKind_FAILURE_LOSS) }},
		{2, "process dies", w.crashAny},
		{1, "drain", func() {
			if a := w.pick("worker"); a.connected {
				a.leaves = true
				w.step(Draining{Worker: a.id, Incarnation: a.incarnation, Deadline: w.now.Add(time.Second)})
			}
		}},
		{3, "message twice", func() {
			a := w.pick("worker")
			if m := w.last[a.id]; m != nil && a.welcomed && m.GetWelcome() == nil && m.GetAck() == nil {
				a.obey(proto.CloneOf(m))
			}
		}},
		{3, "message lost", func() {
			a := w.pick("worker")
			if n := len(a.inbox); n > 0 && a.welcomed {
				i := rapid.IntRange(0, n-1).Draw(w.r, "which")
				if m := a.inbox[i]; m.GetWelcome() == nil && m.GetAck() == nil {
					a.inbox = slices.Delete(a.inbox, i, i+1)
				}
			}
		}},
		{3, "report twice", func() {
			if a := w.pick("worker"); a.connected && a.welcomed && a.sent > 0 {
				w.step(Reported{Worker: a.id, Incarnation: a.incarnation, Report: proto.CloneOf(a.outbox[rapid.IntRange(0, a.sent-1).Draw(w.r, "which")])})
			}
		}},
		{2, "late commit", func() { a := w.pick("worker"); a.retries = rapid.IntRange(0, 2).Draw(w.r, "retries") }},
		{1, "snapshot", w.roundTripNow},
		{3, "result lost", func() { w.spoilAny(false) }},
		{2, "result corrupt", func() { w.spoilAny(true) }},
		{1, "disk wiped", func() { a := w.pick("worker"); a.kill(); clear(a.disk); w.start(a.id, a.slots) }},
		{2, "reading", func() { a := w.pick("worker"); a.slowRead = !a.slowRead }},
	}
	sum := 0
	for _, x := range things {
		sum += x.weight
	}
	n := rapid.IntRange(0, sum-1).Draw(w.r, "thing")
	for _, x := range things {
		if n -= x.weight; n < 0 {
			w.tracef("-- %s", x.name)
			x.do()
			return
		}
	}
}

// roundTripNow restarts the cluster from a snapshot: a new leader, since only a restarted node loads one.
func (w *world) roundTripNow() {
	w.roundTrip()
	w.elect()
}

// work lets one random party do its next step.
func (w *world) work() {
	choices := []func() bool{func() bool {
		if len(w.pending) == 0 {
			return false
		}
		w.commit()
		return true
	}}
	for _, a := range w.agents() {
		choices = append(choices, func() bool {
			if len(a.inbox) > 0 && !a.frozen {
				w.last[a.id] = a.inbox[0]
			}
			return a.obeyNext()
		}, a.speakNext)
	}
	first := rapid.IntRange(0, len(choices)-1).Draw(w.r, "who")
	for i := range choices {
		if choices[(first+i)%len(choices)]() {
			return
		}
	}
}

// let moves the clock without delivering anything but heartbeats and ticks.
func (w *world) let(d time.Duration) {
	w.now = w.now.Add(d)
	for _, a := range w.agents() {
		if a.connected && !a.frozen {
			w.step(Heartbeat{Worker: a.id, Incarnation: a.incarnation})
		}
	}
	if !w.wake.IsZero() && !w.wake.After(w.now) {
		w.step(Tick{})
	}
}

func (w *world) submitAny() {
	if len(w.jobs) >= 4 {
		return
	}
	graph := fmt.Sprint(rapid.SampledFrom([]string{
		"keyed", "pair", "endless", "nonsense", "batch", "stages", "lanes", "merge", "deep", "join", "pipe", "mixed", "groups", "concat", "few",
	}).Draw(w.r, "graph"), " ", rapid.IntRange(1, 3).Draw(w.r, "parallelism"))
	settings := map[string]string{}
	if s := rapid.SampledFrom([]string{"", "", "eager", "lazy"}).Draw(w.r, "schedule"); s != "" && !(s == "eager" && strings.HasPrefix(graph, "groups")) { // there may be no room for all at once
		settings["schedule"] = s
	}
	if s := rapid.SampledFrom([]string{"", "none", "fixed(3,1s)", "rate(5,1m,10ms)"}).Draw(w.r, "restart"); s != "" {
		settings["restart"] = s
	}
	w.jobs = append(w.jobs, w.submit("j", graph, settings))
}

// any finds a random attempt that runs somewhere.
func (w *world) any() (*agent, *attempt) {
	a := w.pick("worker")
	for _, p := range a.procs {
		for _, t := range p.tasks {
			if t.active() && rapid.IntRange(0, 2).Draw(w.r, "this one") == 0 {
				return a, t
			}
		}
	}
	return a, nil
}

// spoilAny deletes or corrupts a random stored result.
func (w *world) spoilAny(corrupt bool) {
	a := w.pick("worker")
	if len(a.disk) == 0 {
		return
	}
	k := rapid.SampledFrom(slices.SortedFunc(maps.Keys(a.disk), compareFiles)).Draw(w.r, "result")
	if corrupt {
		a.disk[k].bad = true
	} else {
		a.lose(k)
	}
}

// unending reports whether a job ends only when it is cancelled.
func (w *world) unending(j *state.Job) bool {
	return j.Plan() != nil && slices.ContainsFunc(j.Plan().Graph.Operators, func(o *jobpb.Operator) bool { return !o.Bounded })
}

func (w *world) failAny(kind jobpb.FailureKind) {
	if a, t := w.any(); t != nil {
		a.become(t, jobpb.SubtaskState_SUBTASK_FAILED, &jobpb.Failure{Kind: kind, Code: "E050", Message: "it broke"})
	}
}

func (w *world) crashAny() {
	if a, t := w.any(); t != nil {
		a.exit(t.p, &controlpb.ProcessExit{Code: 2, Kind: rapid.SampledFrom([]jobpb.FailureKind{jobpb.FailureKind_FAILURE_USER, jobpb.FailureKind_FAILURE_LOSS}).Draw(w.r, "kind"), Reason: "it died"})
	}
}

// heal ends all trouble and waits until every job has ended.
func (w *world) heal() {
	w.tracef("-- heal")
	for _, a := range w.agents() {
		a.frozen, a.slowRead = false, false
		if a.leaves || !a.connected && rapid.Bool().Draw(w.r, "restarted") {
			a.kill()
			w.start(a.id, a.slots)
		}
		a.connect()
	}
	for _, id := range w.jobs {
		if j := w.job(id); w.unending(j) {
			w.cancel(id)
		}
	}
	for range 900 {
		w.settle()
		if w.over() {
			return
		}
		w.pass(time.Second)
		for _, a := range w.agents() {
			a.connect() // agents look for the leader whenever they have lost it
		}
		for _, id := range w.jobs { // an endless job that was planned only now
			if j := w.job(id); j.Status() == jobpb.JobStatus_JOB_RUNNING && w.unending(j) {
				w.cancel(id)
			}
		}
	}
	var stuck []string
	for _, id := range w.jobs {
		if j := w.job(id); !state.Terminal(j.Status()) {
			stuck = append(stuck, fmt.Sprintf("%s is %s: %s", id, j.Status(), j.Head().Message))
		}
	}
	w.r.Fatalf("everything is healthy, and still %v\n%s", stuck, strings.Join(w.trace[max(0, len(w.trace)-80):], "\n"))
}

func (w *world) over() bool {
	for _, id := range w.jobs {
		if !state.Terminal(w.job(id).Status()) {
			return false
		}
	}
	return true
}

// inspect checks what must be true of a cluster that has come to rest.
func (w *world) inspect() {
	w.pass(time.Minute)
	v := w.facts.View()
	for f := range v.Workers() {
		if n := v.UsedSlots(f.Id); n != 0 {
			w.r.Fatalf("worker %s has %d used slots after every job has ended", f.Id, n)
		}
	}
	var committed []string
	for _, a := range w.agents() {
		committed = append(committed, a.committed...)
		if len(a.procs) > 0 {
			w.r.Fatalf("process %d of %s still runs on %s\n%s", a.procs[0].number, a.procs[0].job, a.id, strings.Join(w.trace[max(0, len(w.trace)-80):], "\n"))
		}
		if len(a.outbox) > 0 {
			w.r.Fatalf("%d reports of %s are never acknowledged: %v", len(a.outbox), a.id, a.outbox[0])
		}
	}
	for _, id := range w.jobs {
		j := w.job(id)
		if len(j.Committables()) > 0 || len(j.Sources()) > 0 || j.Active() > 0 {
			w.r.Fatalf("job %s has ended and keeps output, sources or attempts", id)
		}
		var want []string
		if j.Status() == jobpb.JobStatus_JOB_FINISHED {
			for t := range j.Subtasks() {
				if w.writes(j, t.Chain) {
					want = append(want, fmt.Sprintf("%s/%d[%d]#%d", id, t.Chain, t.Index, t.Attempt))
				}
			}
		}
		var got []string
		for _, c := range committed {
			if strings.HasPrefix(c, id+"/") && !slices.Contains(got, c) {
				got = append(got, c)
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if j.Status() == jobpb.JobStatus_JOB_FINISHED && !slices.Equal(got, want) {
			w.r.Fatalf("job %s: visible output %v, of its last attempts %v", id, got, want)
		}
		if j.Status() == jobpb.JobStatus_JOB_FINISHED {
			w.inspectAttempts(j)
			(&history{w: w, j: j, known: map[string]version{}}).check()
		}
	}
	for _, a := range w.agents() {
		a.cut()
		a.connect()
	}
	w.settle()
	for _, a := range w.agents() {
		if len(a.disk) > 0 {
			w.r.Fatalf("results of jobs that have ended lie on %s: %v", a.id, a.inventory())
		}
	}
}

func (w *world) writes(j *state.Job, chain int32) bool {
	return slices.ContainsFunc(j.Plan().Chains[chain].Operators, func(o int32) bool { return j.Plan().Graph.Operators[o].Kind == "sink" })
}

// inspectAttempts holds the attempts of a job that has finished against its history: what ran again was counted.
func (w *world) inspectAttempts(j *state.Job) {
	again, told := 0, 0
	for t := range j.Subtasks() {
		again += int(t.Attempt) - 1
	}
	for e := range w.facts.View().Events(0) {
		if e.Job == j.ID() && e.Kind == "region-restarted" {
			told += int(e.Subtasks)
		}
	}
	if again != told {
		w.r.Fatalf("job %s: %d attempts were made again, its events tell of %d", j.ID(), again, told)
	}
}

func TestNothingThatHappensBreaksAJobForGood(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := &world{sim: newSim(r), r: r, last: map[string]*controlpb.CoordinatorMessage{}}
		w.cfg.StopTimeout, w.cfg.AbortTimeout = 2*time.Second, 20*time.Second
		w.cfg.DefaultRestart = "exponential(100ms,2s,2,0.1,10m,20)"
		w.elect()
		for i := range rapid.IntRange(1, 3).Draw(r, "workers") {
			w.start(fmt.Sprint("w", i+1), 3)
		}
		for range rapid.IntRange(5, 120).Draw(r, "things") {
			w.happen()
		}
		w.heal()
		w.inspect()
		w.roundTrip()
	})
}
